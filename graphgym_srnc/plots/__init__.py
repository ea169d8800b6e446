"""Figures and TensorBoard."""
