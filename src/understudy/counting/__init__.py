"""Counting coded rows, whoever owns them: the kernels that sources and released rows share."""
