"""Room 9: the command, a thin shell over the public functions."""
