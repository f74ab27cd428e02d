"""Room 9: one mechanism, one file, found by itself; see docs/add-a-mechanism.md."""
