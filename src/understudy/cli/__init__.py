"""Room 14: the command, a thin shell over the public functions; a file a command."""
