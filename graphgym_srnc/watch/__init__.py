"""TensorBoard output of single runs and of groups of runs."""
