"""Statistics: arrays in, named results out. NumPy and (late) SciPy only, nothing of ours."""
