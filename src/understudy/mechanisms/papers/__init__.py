"""Published algorithms, one file each: to compare with."""
