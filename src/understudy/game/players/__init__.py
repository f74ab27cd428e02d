"""Data players (never hold the meter) and query players (hold it)."""
