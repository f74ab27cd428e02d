"""Room 5: data players (never hold the meter) and query players (hold it)."""
