"""What happened is an event; what it costs is the accountant's reading of it."""
