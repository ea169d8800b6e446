"""Alignment of clusters and classes, and mapping of cluster posteriors to class posteriors."""

from __future__ import annotations

from itertools import groupby
from typing import Callable

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def alignment_cost(p: Tensor, log_q: Tensor) -> Tensor:
    r"""Cost of assigning each cluster to each class, a KL divergence of columns (Eq. 7).

    .. math:: T_{k,n} = \text{KL}(P_{\cdot n} \Vert Q_{\cdot k})
        = \frac{\sum_i P_{in} (\log P_{in} - \log Q_{ik})}{\sum_i P_{in}}

    Args:
        p: class posteriors :math:`P`, ``[n, N]``; one-hot for labelled nodes.
        log_q: log posteriors of the clusters :math:`\log Q` on the same nodes, ``[n, C]``.

    Returns:
        :math:`T`, ``[C, N]``.
    """
    entropy = torch.special.xlogy(p, p).sum(0)
    return (entropy - log_q.T @ p) / p.sum(0).clamp(min=1e-12)


def align(cost: Tensor) -> tuple[Tensor, float]:
    r"""One-to-one map from clusters to classes with minimum total ``cost`` ``[C, N]`` (Eq. 7).

    Returns:
        The class of each cluster, ``[C]``, and the mean cost of the matched pairs. Clusters that
        are left over map to :math:`N`, the unknown class.
    """
    clusters, classes = linear_sum_assignment(cost.cpu().numpy())
    mapping = np.full(cost.size(0), cost.size(1))
    mapping[clusters] = classes
    return torch.from_numpy(mapping).to(cost.device), float(cost[clusters, classes].mean())


def map_clusters(mapping: Tensor, num_outputs: int) -> Callable[[Tensor], Tensor]:
    """A function from log posteriors of clusters ``[n, C]`` to those of classes ``[n, K]``.

    It sums the probabilities of the clusters of each class, in log space, so saturated posteriors
    keep their gradient. Its calls need no synchronisation of the device.

    Args:
        mapping: class of each cluster, ``[C]``.
        num_outputs: number of classes :math:`K`.
    """
    order = mapping.argsort(stable=True)
    sizes: list[int] = []
    is_sum: list[bool] = []
    counts = mapping.bincount(minlength=num_outputs).tolist()
    for alone, run in groupby(counts, lambda count: count == 1):
        # Classes of a single cluster have its log posterior, so neighbouring ones stay together.
        group = [*run]
        pieces = [len(group)] if alone else group
        sizes += pieces
        is_sum += [not alone] * len(pieces)

    def mapped(log_q: Tensor) -> Tensor:
        pieces = zip(is_sum, log_q.index_select(1, order).split(sizes, 1))
        return torch.cat([z.logsumexp(1, keepdim=True) if many else z for many, z in pieces], 1)

    return mapped


def evidence_lower_bound(log_q: Tensor, log_p: Tensor) -> Tensor:
    r"""Evidence lower bound (Eq. 11), a mean over nodes, from log posteriors ``[n, N(+1)]``.

    .. math:: \mathbb E_Q[\log P - \log Q] = -\text{KL}(Q \Vert P)
    """
    return (log_q.exp() * (log_p - log_q)).nan_to_num(nan=0.0).sum(1).mean()
