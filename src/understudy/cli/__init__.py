"""Room 15: the command, a thin shell over the public functions; a file a command."""
