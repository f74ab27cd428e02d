"""Under every room: compiled kernels, files and memory of the machine, progress, finding what a folder holds."""
