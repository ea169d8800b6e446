"""Representations of nodes: topics beside class probabilities, links, and columns of words."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import prepare
from graphgym_srnc.methods.shared.topics import Matrix


def states(topics: Tensor, posterior: Tensor, with_posterior: bool = True) -> Tensor:
    r"""Topics ``[V, D]``, in rows of length 1, beside :math:`\sqrt P` with Hellinger's distances.

    Without the posterior its columns are 0: a model that predicts no node as unknown gives those of
    a new class to a known one.
    """
    beside = posterior.float().sqrt() * with_posterior
    return torch.cat([F.normalize(topics, dim=1), beside], 1)


def links(graph: Data) -> sp.csr_array:
    """Weights of the edges of a graph, symmetric and without self-loops, ``[V, V]``."""
    return prepare(graph, "auto").adjacency("raw").matrix


def word_columns(x: Matrix) -> np.ndarray:
    """Which features ``[V, F]`` describe nodes in words: those without a negative value, ``[F]``.

    They are all features if those without a negative value are fewer than half.
    """
    never_negative = np.asarray((x < 0).sum(0)).ravel() == 0
    return never_negative | (2 * never_negative.sum() < len(never_negative))
