"""Alignment of clusters and classes, and mapping of cluster posteriors to class posteriors."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

Group = Tensor | slice | int
"""Clusters that map to one class."""


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
    mapping = torch.full((cost.size(0),), cost.size(1), dtype=torch.long, device=cost.device)
    mapping[torch.from_numpy(clusters).to(cost.device)] = torch.from_numpy(classes).to(cost.device)
    return mapping, float(cost[clusters, classes].mean())


def map_clusters(log_q: Tensor, mapping: Tensor | list[Group], num_outputs: int) -> Tensor:
    """Log posteriors of classes from log posteriors of clusters.

    Probabilities of clusters with the same class are summed in log space, so saturated posteriors
    keep their gradient.

    Args:
        log_q: log posteriors of the clusters, ``[n, C]``.
        mapping: class of each cluster, ``[C]``, or the result of :func:`grouped`, which avoids a
            device synchronisation in each call.
        num_outputs: number of classes.
    """
    groups = mapping if isinstance(mapping, list) else grouped(mapping, num_outputs)
    columns = (
        log_q[:, group] if isinstance(group, int) else log_q[:, group].logsumexp(1)
        for group in groups
    )
    return torch.stack([*columns], 1)


def grouped(mapping: Tensor, num_outputs: int) -> list[Group]:
    """Clusters of each class: an integer (one cluster), a slice (consecutive ones) or ids.

    These are the forms that are fastest to index. ``mapping`` ``[C]`` is the class of each cluster.
    """
    groups: list[Group] = []
    for k in range(num_outputs):
        clusters = [cluster for cluster, of in enumerate(mapping.tolist()) if of == k]
        if len(clusters) == 1:
            groups.append(clusters[0])
        elif clusters and len(clusters) == clusters[-1] - clusters[0] + 1:
            groups.append(slice(clusters[0], clusters[-1] + 1))
        else:
            groups.append(torch.tensor(clusters, dtype=torch.long).to(mapping.device))
    return groups


def evidence_lower_bound(log_q: Tensor, log_p: Tensor) -> Tensor:
    r"""Evidence lower bound (Eq. 11), a mean over nodes.

    .. math:: \mathbb E_Q[\log P - \log Q] = -\text{KL}(Q \Vert P)

    Args:
        log_q: log posteriors of the cluster GNN over classes, ``[n, N(+1)]``.
        log_p: log posteriors of the classifier, ``[n, N(+1)]``.
    """
    return (log_q.exp() * (log_p - log_q)).nan_to_num(nan=0.0).sum(1).mean()
