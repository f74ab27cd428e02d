"""Room 8: rules that every released row keeps: reading them, finding rows that keep them, repair."""
