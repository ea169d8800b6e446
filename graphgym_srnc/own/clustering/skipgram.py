"""Skip-gram with negative sampling (Mikolov et al., NeurIPS 2013) on walks; nodes are words."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.options import Count, checked

BATCH, STEPS = 128, 100
"""Most walks per step, and the steps per pass below which a step takes fewer walks."""

NEGATIVES, NOISE = 5, 256
"""Negative nodes per pair :math:`k`, and those drawn per step, which all of its pairs share."""

RATE = 0.02
"""First learning rate; it falls to zero."""


@partial(checked, prefix="skip_gram.")
def skip_gram(
    walks: np.ndarray, num_nodes: int, *, dim: Count = 128, window: Count = 10, seed: int = 0
) -> Tensor:
    r"""Node vectors that tell nodes near each other on walks from nodes drawn by
    :math:`P(n) \propto \text{frequency}(n)^{3/4}`.

    The objective is word2vec's, over pairs up to ``window`` apart:
    :math:`\log\sigma(u_v^\top c_x) + k\,\mathbb E_{n \sim P}\log\sigma(-u_v^\top c_n)`. Three
    things differ, so that products are dense. Word2vec's randomly shrunk windows enter by their
    expectation, a weight of :math:`1 - (d - 1)/w` for a pair at distance :math:`d`. The pairs of a
    step share their negative nodes, with :math:`k` times the weight of the pairs in total. Adam on
    the rows that are touched replaces SGD pair by pair. There is one pass over the walks.

    Args:
        walks: nodes, ``[n, L]``.
        num_nodes: :math:`V`; a node on no walk keeps its small random vector.
        dim: width of the vectors.
        window: most steps between the nodes of a pair, :math:`w`.
        seed: of the vectors' start, the order of walks and the negative nodes.

    Returns:
        The vectors :math:`u`, ``[V, dim]``.

    Raises:
        InputError: an option is out of its range, or walks hold less than two nodes.
    """
    if walks.ndim != 2 or walks.shape[1] < 2 or not len(walks):
        raise InputError("skip_gram.walks", walks.shape, "walks of two nodes or more, [n, L]")
    generator, nodes = torch.Generator().manual_seed(seed), torch.from_numpy(walks)
    position = torch.arange(walks.shape[1])
    distance = (position[:, None] - position).abs()
    weight = (1 - (distance - 1) / window).clamp(min=0) * (distance > 0)
    noise_weight = NEGATIVES * weight.sum(1) / NOISE
    frequency = torch.bincount(nodes.view(-1), minlength=num_nodes).double() ** 0.75
    cumulated = frequency.cumsum(0) / frequency.sum()

    vector = ((torch.rand(num_nodes, dim, generator=generator) - 0.5) / dim).requires_grad_()
    context = torch.zeros(num_nodes, dim, requires_grad=True)
    optimizer = torch.optim.SparseAdam([vector, context], lr=RATE)
    batch = min(BATCH, -(-len(nodes) // STEPS))
    steps = -(-len(nodes) // batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for walk in nodes[torch.randperm(len(nodes), generator=generator)].split(batch):
        drawn = torch.rand(NOISE, dtype=torch.double, generator=generator)
        noise = torch.searchsorted(cumulated, drawn).clamp(max=num_nodes - 1)
        # One look-up of both parts: a sparse gradient that comes in two is sorted twice.
        contexts = F.embedding(torch.cat([walk.view(-1), noise]), context, sparse=True)
        near, far = contexts[: walk.numel()].view(*walk.shape, dim), contexts[walk.numel() :]
        centre = F.embedding(walk, vector, sparse=True)
        attraction = (weight * F.softplus(-(centre @ near.mT))).sum()
        loss = attraction + (noise_weight[:, None] * F.softplus(centre @ far.T)).sum()
        optimizer.zero_grad()
        (loss / walk.numel()).backward()
        optimizer.step()
        schedule.step()
    return vector.detach()
