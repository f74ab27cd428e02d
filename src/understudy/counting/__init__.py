"""Room 2: counting coded rows, whoever owns them; sources and released rows share it."""
