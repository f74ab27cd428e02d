"""Room 7: from a finished play to rows in the user's own types."""
