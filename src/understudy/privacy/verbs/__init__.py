"""What may be asked of a sensitive table, one file a verb."""
