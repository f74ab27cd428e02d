"""Room 9: the one loop, its players, and the fits that turn noisy answers into rows."""
