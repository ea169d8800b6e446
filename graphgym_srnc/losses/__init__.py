"""Losses, divergences and scores as pure functions of tensors."""
