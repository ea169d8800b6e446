"""TensorBoard: a run as it goes, and many runs together."""
