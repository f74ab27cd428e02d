"""Room 6: one paper, one file. A new file here is found by itself; see docs/add-a-mechanism.md."""
