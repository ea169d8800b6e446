"""Choice of the pseudo-labels to learn."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def surest(scores: Tensor, pool: Tensor, share: float) -> Tensor:
    """Nodes ``[n]`` of the pool with the largest margins in each class, at least one per class.

    Args:
        scores: scores of all nodes, ``[V, K]``. The margin is the difference of the largest two.
        pool: ids of the unlabelled nodes.
        share: share of the nodes of each predicted class to choose.
    """
    best = scores[pool].topk(2, 1)
    margin, label = best.values[:, 0] - best.values[:, 1], best.indices[:, 0]
    kept = []
    for members in ((label == k).nonzero().ravel() for k in range(scores.size(1))):
        order = margin[members].argsort(descending=True)
        kept.append(members[order[: max(1, math.ceil(share * len(order)))]])
    return pool[torch.cat(kept)]
