"""Samplers: exact integers from the operating system's generator."""
