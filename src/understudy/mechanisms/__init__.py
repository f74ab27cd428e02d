"""Room 10: one mechanism, one file, found by itself; see docs/add-a-mechanism.md."""
