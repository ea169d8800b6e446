"""Clusters and classes: the map between them, and posteriors carried over it."""
from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

Group = Tensor | slice | int
"""Clusters of one class."""


def alignment_cost(p: Tensor, log_q: Tensor) -> Tensor:
    r"""Cost of calling cluster :math:`k` class :math:`n` (Eq. assignment): the divergence of two
    columns of posteriors over source nodes.

    .. math:: T_{k,n} = \text{KL}(P_{\cdot n} \Vert Q_{\cdot k})
        = \frac{\sum_i P_{in} (\log P_{in} - \log Q_{ik})}{\sum_i P_{in}}

    Args:
        p: class posteriors, one-hot where labelled, ``[n, N]``.
        log_q: log posteriors of the clusters on the same nodes, ``[n, C]``.

    Returns:
        :math:`T`, ``[C, N]``.
    """
    entropy = torch.special.xlogy(p, p).sum(0)
    return (entropy - log_q.T @ p) / p.sum(0).clamp(min=1e-12)


def align(cost: Tensor) -> tuple[Tensor, float]:
    r"""The one-to-one map of least total cost :math:`T`, ``[C, N]`` with :math:`C \ge N` (Hungarian
    method).

    Returns:
        The class of each cluster, ``[C]``, with :math:`N` (the unknown class) for clusters left
        over, and the mean cost of the pairs.
    """
    clusters, classes = linear_sum_assignment(cost.cpu().numpy())
    mapping = torch.full((cost.size(0),), cost.size(1), dtype=torch.long, device=cost.device)
    mapping[torch.from_numpy(clusters).to(cost.device)] = torch.from_numpy(classes).to(cost.device)
    return mapping, float(cost[clusters, classes].mean())


def map_clusters(log_q: Tensor, mapping: Tensor | list[Group], num_outputs: int) -> Tensor:
    """Log posteriors of clusters ``[n, C]`` as log posteriors of classes ``[n, num_outputs]``.

    Probabilities of clusters that share a class add up, in log space, where a saturated posterior
    keeps its gradient. ``mapping`` is the class of each cluster, ``[C]``, or what :func:`grouped`
    made of it, so that many calls wait for the device but once.
    """
    groups = mapping if isinstance(mapping, list) else grouped(mapping, num_outputs)
    return torch.stack([log_q[:, group] if isinstance(group, int) else log_q[:, group].logsumexp(1)
                        for group in groups], 1)


def grouped(mapping: Tensor, num_outputs: int) -> list[Group]:
    """The clusters of each class, as a number where there is but one and as a range where they
    follow one another, which are read faster; ``mapping`` ``[C]`` has the class of each cluster."""
    found: list[list[int]] = [[] for _ in range(num_outputs)]
    for cluster, k in enumerate(mapping.tolist()):
        found[k].append(cluster)
    return [_group(clusters, mapping.device) for clusters in found]


def _group(clusters: list[int], device: torch.device) -> Group:
    if len(clusters) == 1:
        return clusters[0]
    if clusters and len(clusters) == clusters[-1] - clusters[0] + 1:
        return slice(clusters[0], clusters[-1] + 1)
    return torch.tensor(clusters, dtype=torch.long).to(device)


def evidence_lower_bound(log_q: Tensor, log_p: Tensor) -> Tensor:
    r"""The evidence lower bound (Eq. VEM), :math:`\mathbb E_Q[\log P - \log Q]` = -KL(Q || P), a
    mean over nodes; log posteriors ``[n, N(+1)]`` over classes, Q of clusters, P of the classifier.
    """
    return (log_q.exp() * (log_p - log_q)).nan_to_num(nan=0.0).sum(1).mean()
