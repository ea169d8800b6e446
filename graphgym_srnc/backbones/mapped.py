"""Features that stay on disk: a memory-mapped matrix of which batches read the rows they need."""
from __future__ import annotations

import torch
from torch import Tensor

from graphgym_srnc.errors import InputError

ROWS = 2 ** 16
"""Rows that are read at a time where all have to be."""


class Mapped:
    """Features ``[V, F]`` whose rows are scaled when they are read, as :class:`graphgym_srnc.backbones.graph.Graph` says.

    Args:
        x: the matrix, float32, with the attribute ``mapped`` set by whoever mapped it.
        features: ``row``, ``l2``, ``auto`` or ``none``; ``auto`` reads all rows once for their mean.
        device: where rows go that are read.
    """

    def __init__(self, x: Tensor, features: str, device: torch.device | str = "cpu") -> None:
        self.x, self.features, self.shape, self.device = x, features, x.shape, torch.device(device)
        self.mean = sum(part.sum(0, dtype=torch.float64) for part in x.split(ROWS)).div(len(x)).float() if features == "auto" else None

    def __getitem__(self, nodes: Tensor) -> Tensor:
        return scaled(self.x[nodes.cpu()], self.features, self.mean).to(self.device)

    def __matmul__(self, weight: Tensor) -> Tensor:
        self.refuse()

    def refuse(self) -> None:
        """Say that nobody may read the whole at once."""
        raise InputError("file.mapped", True, "False, or what reads rows by batches: GCN, SAGE, GAT or an MLP with batch_size above 0,"
                                              " and no score odin")


def scaled(x: Tensor, features: str, mean: Tensor | None = None) -> Tensor:
    """Dense rows ``[n, F]`` scaled to sum or length 1, for ``auto`` after ``mean`` ``[F]`` was taken from them."""
    if features == "auto":
        # What dense rows have in common would drown what sets them apart; sparse rows have little in common.
        x = x - mean
    if features == "none":
        return x.contiguous()
    length = x.abs().sum(1) if features == "row" else x.norm(dim=1)
    return (x / length.clamp(min=1e-12)[:, None]).contiguous()
