"""Room 0, under every other: compiled kernels, files, memory, progress, what a folder holds."""
