"""Shift-robust node classification on PyTorch Geometric's GraphGym."""
__version__ = "0.1.0"
