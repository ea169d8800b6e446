"""Modularity of a clustering (Eqs. 5 and 6 of the paper), and what class labels say about it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

LEAST = 1e-30  # total weight of edges from which a graph counts as having edges
MIN_LABELLED_EDGES = 10  # edges between labelled nodes that tell their assortativity


def modularity_loss(q: Tensor, adjacency: Any, degree: Tensor, resolution: float = 1.0) -> Tensor:
    r"""Negative modularity of a soft cluster assignment, :math:`\mathcal L_{\Phi,T}` (Eq. 6).

    .. math:: -\frac{1}{2m} \left( \sum_{ik} Q_{ik} (AQ)_{ik}
        - \gamma \frac{\lVert Q^\top d \rVert^2}{2m} \right), \quad 2m = \sum_i d_i

    Eq. 6 omits the factor :math:`1/2m` of the degree term; this is Newman's definition (Eq. 5,
    PNAS 2006) in the soft form of DMoN (Tsitsulin et al., JMLR 2023). Time is :math:`O(EC + VC)`
    and memory :math:`O(VC)`. With weights it is the modularity of weighted networks (Newman, Phys.
    Rev. E 70, 056131, 2004).

    Args:
        q: cluster posteriors :math:`Q`, ``[V, C]``; rows sum to one.
        adjacency: symmetric :math:`A` ``[V, V]`` without self-loops, which supports ``@``.
        degree: row sums :math:`d` of :math:`A`, ``[V]``.
        resolution: :math:`\gamma`; larger values favour more and smaller clusters.
    """
    return _Modularity.apply(q, adjacency, degree, resolution)


def sampled_modularity_loss(first: Tensor, second: Tensor, resolution: float = 1.0) -> Tensor:
    r"""Unbiased estimate of :func:`modularity_loss` from uniformly sampled edges.

    .. math:: -\frac1B \sum_e q_{i_e} \cdot q_{j_e}
        + \gamma \frac{\lVert \sum_e u_e \rVert^2 - \sum_e \lVert u_e \rVert^2}{B (B - 1)},
        \quad u_e = \tfrac12 (q_{i_e} + q_{j_e})

    An end of a sampled edge is node i with probability :math:`d_i / 2m`, so
    :math:`\mathbb E u_e = Q^\top d / 2m`. Products of different edges make the estimate and its
    gradient unbiased (U-statistic, Hoeffding, Ann. Math. Stat. 1948).

    Args:
        first, second: posteriors of the two ends of each edge, ``[B, C]``; :math:`B \ge 2`, or 0
            for a graph without edges.
        resolution: :math:`\gamma`.
    """
    if not len(first):
        return first.sum()
    half = (first + second) / 2
    pairs = half.sum(0).square().sum() - half.square().sum()
    return resolution * pairs / (len(half) * (len(half) - 1)) - (first * second).sum(1).mean()


class _Modularity(torch.autograd.Function):
    """Modularity whose value and gradient share one sparse product, since A is symmetric."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, adjacency: Any, degree: Tensor, resolution: float) -> Tensor:
        volume = degree.sum().clamp(min=LEAST)
        inside = adjacency @ q
        shares = degree @ q / volume
        value = (q * inside).sum() / volume - resolution * (shares * shares).sum()
        gradient = inside.sub_(torch.outer(degree, resolution * shares)).mul_(-2 / volume)
        ctx.save_for_backward(gradient)
        return -value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.saved_tensors[0] * gradient, None, None, None


def modularity(cluster: Tensor, adjacency: Any, degree: Tensor) -> float:
    """Newman's modularity (Eq. 5) of a hard clustering ``[V]`` of a graph."""
    return -float(modularity_loss(F.one_hot(cluster).to(degree.dtype), adjacency, degree))


def assortativity(p: Tensor, adjacency: Any, degree: Tensor, reliability: float = 1.0) -> float:
    r"""Assortativity of the classes of a graph, estimated from the posterior of a classifier.

    .. math:: \hat r = \frac{-\mathcal L_{\Phi,T}(P)}{\rho^2 \left(
        \sum_i \frac{d_i}{2m} \lVert P_i \rVert^2 - \lVert \mu \rVert^2 \right)}, \quad
        \mu = \frac{P^\top d}{2m}

    It is 1 if all edges join nodes of the same class, 0 if edges are independent of classes or the
    posterior is constant, else negative (Newman, Phys. Rev. E 2003; Spearman, Am. J. Psychol.
    1904, for the division by :math:`\rho^2`). The classifier must not use the edges.

    Args:
        p: posteriors :math:`P`, ``[V, N]``; rows sum to one.
        adjacency, degree: the graph, as in :func:`modularity_loss`.
        reliability: :math:`\rho`, the
            :func:`~graphgym_srnc.losses.prior.posterior_correlation`.
    """
    weight = degree / degree.sum().clamp(min=LEAST)
    spread = weight @ p.square().sum(1) - (weight @ p).square().sum()
    value = -modularity_loss(p, adjacency, degree)
    return float(value / (reliability**2 * spread).clamp(min=1e-12))


def label_assortativity(
    edge_index: Tensor,
    degree: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    *,
    otherwise: float = 0.0,
) -> float:
    """Assortativity of the edges between labelled nodes.

    The arguments are those of :func:`newman_resolution`. The result is ``otherwise`` if there are
    fewer than ten such edges (twenty entries of ``edge_index``), or labels of one class alone.
    """
    inside, expected, count = _same_class_share(edge_index, degree, label, weight)
    told = count >= 2 * MIN_LABELLED_EDGES and expected < 1
    return (inside - expected) / (1 - expected) if told else otherwise


def collapse_loss(q: Tensor) -> Tensor:
    r"""Collapse regulariser of DMoN on cluster posteriors ``[V, C]`` (Tsitsulin et al., JMLR 2023).

    .. math:: \frac{\sqrt C}{V} \lVert \sum_i q_i \rVert_2 - 1

    It is 0 for clusters of the same size, and :math:`\sqrt C - 1` if one cluster holds all nodes.
    """
    return q.size(1) ** 0.5 / q.size(0) * q.sum(0).norm() - 1


def newman_resolution(
    edge_index: Tensor, degree: Tensor, label: Tensor, weight: Tensor | None = None
) -> float:
    r"""Resolution at which the classes maximise modularity, estimated from labelled nodes.

    .. math:: \gamma = \frac{w_\text{in} - w_\text{out}}{\ln (w_\text{in} / w_\text{out})}, \quad
        w_\text{in} = h / e, \quad w_\text{out} = (1 - h) / (1 - e)

    :math:`h` is the share of same-class edges among labelled nodes, and :math:`e` the share
    expected at random, given the degrees (Newman, Phys. Rev. E 94, 052315, 2016).

    Args:
        edge_index, degree: edges ``[2, E]`` and node degrees ``[V]``.
        label: class of each node, ``[V]``; -1 without one.
        weight: weight of each edge, ``[E]``; None = 1.

    Returns:
        :math:`\gamma`, or 1 if labelled nodes share fewer than two edges or show no homophily.
    """
    inside, expected, count = _same_class_share(edge_index, degree, label, weight)
    if count < 2 or not expected < inside < 1:
        return 1.0
    w_in = inside / expected
    w_out = (1 - inside) / (1 - expected)
    return (w_in - w_out) / float(torch.tensor(w_in / w_out).log())


def _same_class_share(
    edge_index: Tensor, degree: Tensor, label: Tensor, weight: Tensor | None
) -> tuple[float, float, int]:
    """Share of same-class edges between labelled nodes, the expected one, and number of edges."""
    ends = label[edge_index]
    between = (ends >= 0).all(0) & (edge_index[0] != edge_index[1])
    ends = ends[:, between]
    same = (ends[0] == ends[1]).float()
    if weight is not None:
        same = same * (weight[between] / weight[between].mean())
    inside = float(same.mean()) if ends.size(1) else 0.0
    volume = torch.zeros(int(label.max()) + 1, device=degree.device)
    volume.index_add_(0, label[label >= 0], degree[label >= 0])
    return inside, float((volume / volume.sum()).square().sum()), ends.size(1)
