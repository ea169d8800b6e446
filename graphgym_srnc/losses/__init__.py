"""Losses: pure functions of tensors, one idea a file."""
