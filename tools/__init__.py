"""Programs for those who look after the project: licences, pins, the wheel."""
