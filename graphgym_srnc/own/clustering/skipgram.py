"""Skip-gram with negative sampling of Mikolov et al. (NeurIPS 2013) on walks, where nodes are the words."""
from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.errors import InputError

BATCH, STEPS = 128, 100
"""Most walks per step, and the steps per pass below which a step takes fewer walks."""

NOISE = 256
"""Negative nodes drawn per step, which all of its pairs share."""


def skip_gram(walks: np.ndarray, num_nodes: int, *, dim: int = 128, window: int = 10, negatives: int = 5, epochs: int = 1,
              lr: float = 0.02, seed: int = 0) -> Tensor:
    r"""Node vectors that tell nodes near each other on walks from nodes drawn by frequency to the power of 3/4.

    The objective is word2vec's: :math:`\log\sigma(u_v^\top c_x) + k\,\mathbb E_{n \sim P}\log\sigma(-u_v^\top c_n)` over pairs up to
    ``window`` apart. Three things are arranged for dense products instead of single dot products: word2vec's randomly shrunk
    windows enter by their expectation, a weight of :math:`1 - (d - 1)/w` for a pair at distance :math:`d`; the pairs of a step
    share their negative nodes, with :math:`k` times the weight of the pairs in total; and Adam on the rows that are touched, its
    rate falling to zero, replaces SGD pair by pair.

    Args:
        walks: nodes, ``[n, L]``.
        num_nodes: :math:`V`; a node on no walk keeps its small random vector.
        dim: width of the vectors.
        window: most steps between the nodes of a pair.
        negatives: :math:`k`.
        epochs: passes over the walks.
        lr: first learning rate.
        seed: of the vectors' start, the order of walks and the negative nodes.

    Returns:
        The vectors :math:`u`, ``[V, dim]``.

    Raises:
        InputError: an argument is not above 0, or walks hold less than two nodes.
    """
    for name, value in {"dim": dim, "window": window, "negatives": negatives, "epochs": epochs, "lr": lr}.items():
        if not value > 0:
            raise InputError(f"skip_gram.{name}", value, "above 0")
    if walks.ndim != 2 or walks.shape[1] < 2 or not len(walks):
        raise InputError("skip_gram.walks", walks.shape, "one or more walks of two nodes or more, [n, L]")
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.from_numpy(walks)
    place = torch.arange(walks.shape[1])
    distance = (place[:, None] - place).abs()
    weight = (1 - (distance - 1) / window).clamp(min=0) * (distance > 0)
    share = negatives * weight.sum(1) / NOISE
    frequency = torch.bincount(nodes.view(-1), minlength=num_nodes).double() ** 0.75
    cumulated = frequency.cumsum(0) / frequency.sum()
    vector = ((torch.rand(num_nodes, dim, generator=generator) - 0.5) / dim).requires_grad_()
    context = torch.zeros(num_nodes, dim, requires_grad=True)
    optimizer = torch.optim.SparseAdam([vector, context], lr=lr)
    batch = min(BATCH, -(-len(nodes) // STEPS))
    steps = epochs * -(-len(nodes) // batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(epochs):
        for walk in nodes[torch.randperm(len(nodes), generator=generator)].split(batch):
            drawn = torch.rand(NOISE, dtype=torch.double, generator=generator)
            noise = torch.searchsorted(cumulated, drawn).clamp(max=num_nodes - 1)
            # One look-up of both parts: a sparse gradient that comes in two is sorted twice.
            contexts = F.embedding(torch.cat([walk.view(-1), noise]), context, sparse=True)
            near, far = contexts[:walk.numel()].view(*walk.shape, dim), contexts[walk.numel():]
            centre = F.embedding(walk, vector, sparse=True)
            loss = (weight * F.softplus(-(centre @ near.mT))).sum() + (share[:, None] * F.softplus(centre @ far.T)).sum()
            optimizer.zero_grad()
            (loss / walk.numel()).backward()
            optimizer.step()
            schedule.step()
    return vector.detach()
