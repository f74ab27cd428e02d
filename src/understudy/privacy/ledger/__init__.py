"""What was spent on a table, on disk before anything is read."""
