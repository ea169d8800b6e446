"""Open-set recognition from logits: scores larger for known classes, OpenMax, DOC's thresholds."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

_EUCLIDEAN = 1 / 200
"""Weight of Euclid's distance beside the cosine distance, that of OpenMax's own code."""


def max_softmax(logits: Tensor) -> Tensor:
    r"""Largest probability, :math:`\max_c p_c`: ``[n, N]`` to ``[n]`` (Hendrycks, Gimpel 2017)."""
    return logits.softmax(1).amax(1)


def max_logit(logits: Tensor) -> Tensor:
    r"""Largest logit, :math:`\max_c f_c`: ``[n, N]`` to ``[n]`` (Hendrycks et al., ICML 2022)."""
    return logits.amax(1)


def neg_entropy(logits: Tensor) -> Tensor:
    r"""Negative entropy, :math:`\sum_c p_c \log p_c`: ``[n, N]`` to ``[n]``, -log N to 0."""
    log_p = logits.log_softmax(1)
    return (log_p.exp() * log_p).nan_to_num(nan=0.0).sum(1)


def energy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    r"""Minus the energy, :math:`T \log \sum_c e^{f_c/T}`, ``[n]``, of logits ``[n, N]``.

    Source: Liu et al. (NeurIPS 2020).
    """
    return temperature * (logits / temperature).logsumexp(1)


def propagate(score: Tensor, mean_adjacency: Any, steps: int = 2, keep: float = 0.5) -> Tensor:
    r"""Scores ``[V]`` smoothed by steps of :math:`e \leftarrow \alpha e + (1 - \alpha) D^{-1} A e`.

    What a row of :math:`D^{-1} A` lacks to a sum of one is given to the node itself, so a node
    without neighbours keeps its score.

    Args:
        score: :math:`e`, ``[V]``.
        mean_adjacency: :math:`D^{-1} A` without self-loops, ``[V, V]``; ``@`` takes ``[V, 1]``.
        steps: how often.
        keep: :math:`\alpha`.

    Source: GNNSafe, Wu et al. (ICLR 2023).
    """
    score = score[:, None]
    missing = 1 - mean_adjacency @ torch.ones_like(score)
    for _ in range(steps):
        score = keep * score + (1 - keep) * (mean_adjacency @ score + missing * score)
    return score[:, 0]


def logit_spread(logits: Tensor, bounded: float = 0.999) -> Tensor:
    r"""How much the lengths and the sums of logits ``[n, N]`` vary, each against its mean.

    .. math:: \lambda \frac{\text{Var} \lVert f \rVert}{\text{E} \lVert f \rVert} + (1 - \lambda)
        \frac{\text{Var} \sum_c f_c}{|\text{E} \sum_c f_c|}

    Variances are those of the population; no gradient goes through the means below.

    Args:
        logits: ``[n, N]``.
        bounded: :math:`\lambda`.

    Source: NODESafe, Yang et al. (ICML 2025).
    """
    spread = []
    for value in (logits.norm(dim=1), logits.sum(1)):
        mean = value.detach().mean().abs().clamp(min=1e-6)
        spread.append(value.var(correction=0) / mean)
    return bounded * spread[0] + (1 - bounded) * spread[1]


def anchors(confidence: Tensor, adjacency: Any, train: Tensor, extreme: float = 0.05,
            share: float = 0.5) -> Tensor:
    r"""The training nodes that GRASP adds edges to: those with the largest

    .. math:: \frac{|N(i) \cap S_\text{known}|}{|N(i) \cap S_\text{unknown}| + 1}

    where :math:`S` are the surest and the least sure of the other nodes.

    Args:
        confidence: ``[V]``, larger = more surely known.
        adjacency: :math:`A`, ``[V, V]``; ``@`` takes ``[V, 2]``.
        train: ids of training nodes, ``[n]``.
        extreme: share of the other nodes on either side.
        share: share of the training nodes that are taken.

    Returns:
        Their ids, :math:`\lfloor \text{share} \cdot n \rfloor` of them, sorted.

    Source: GRASP, Ma et al. (NeurIPS 2024).
    """
    other = torch.ones_like(confidence, dtype=torch.bool).index_fill(0, train, False)
    ends = [extreme, 1 - extreme]
    low, high = np.quantile(confidence[other].cpu().numpy(), ends) if other.any() else (0.0, 0.0)
    sides = torch.stack([(confidence > high) & other, (confidence < low) & other], 1)
    known, unknown = (adjacency @ sides.to(confidence.dtype))[train].T
    order = (known / (unknown + 1)).argsort(descending=True, stable=True)
    return train[order[:int(share * len(train))]].sort().values


def propagate_with_anchors(score: Tensor, adjacency: Any, anchor: Tensor, steps: int = 8,
                           weight: float = 1.02) -> Tensor:
    r"""Scores ``[V]`` averaged over neighbours, where all anchors are linked with each other.

    .. math:: e_i \leftarrow \frac{\sum_{j \in N(i)} e_j + \delta [i \in G] \sum_{j \in G} e_j}
        {|N(i)| + [i \in G] |G|}

    A node without neighbours keeps its score.

    Args:
        score: :math:`e`, ``[V]``.
        adjacency: :math:`A`, ``[V, V]``; ``@`` takes ``[V, 1]``.
        anchor: ids of :math:`G`, without repetition.
        steps: how often.
        weight: :math:`\delta`.

    Source: GRASP, Ma et al. (NeurIPS 2024).
    """
    score = score[:, None]
    linked = torch.zeros_like(score).index_fill(0, anchor, 1.0)
    degree = adjacency @ torch.ones_like(score) + linked * len(anchor)
    for _ in range(steps):
        around = adjacency @ score + weight * linked * score[anchor].sum()
        score = torch.where(degree > 0, around / degree.clamp(min=1), score)
    return score[:, 0]


def fit_openmax(logits: Tensor, label: Tensor, tail: int = 20) -> dict[str, Tensor]:
    r"""The mean logits of each class, and a Weibull distribution of the largest distances to them.

    .. math:: \mu_c = \overline{f(x_i)}, \quad
        d_c(x) = \frac{\lVert f(x) - \mu_c \rVert_2}{200} + 1 - \cos(f(x), \mu_c)

    Both are of the nodes of the class that are classified correctly (all of its nodes if none is),
    the distribution of their :math:`\min(\text{tail}, n_c / 2)` largest distances, at least three,
    shifted by :math:`\tau_c` so that the smallest of them is 1, as libMR does.
    A class whose distances admit no fit (fewer than three, all zero, all equal) takes the fit of
    all classes together, and without one a scale of infinity: it never yields to the unknown.

    Args:
        logits, label: logits ``[n, N]`` and classes ``[n]`` of the training nodes.
        tail: how many distances at most.

    Returns:
        ``centre`` ``[N, N]``, ``shape``, ``scale`` and ``shift`` (:math:`\tau`) ``[N]``, detached.

    Source: Bendale and Boult (CVPR 2016), Algorithm 1; Scheirer et al. (TPAMI 2011) for libMR.
    """
    logits = logits.detach()
    correct = logits.argmax(1) == label
    centre, members = torch.zeros_like(logits[0]).repeat(logits.size(1), 1), []
    for c in range(logits.size(1)):
        chosen = (label == c) & correct
        chosen = chosen if chosen.any() else label == c
        if chosen.any():
            centre[c] = logits[chosen].mean(0)
        members.append(chosen)

    distance = _distance(logits, centre)
    own = [distance[chosen, c] for c, chosen in enumerate(members)]
    pooled = _fit_tail(torch.cat(own), tail) or (1.0, float("inf"), 0.0)
    fits = logits.new_tensor([_fit_tail(part, tail) or pooled for part in own])
    return {"centre": centre} | dict(zip(("shape", "scale", "shift"), fits.T))


def openmax(logits: Tensor, model: dict[str, Tensor], alpha: int = 10) -> Tensor:
    r"""Class probabilities with room for the unknown, to which the largest logits give way as the
    node lies far from the means of their classes.

    .. math:: w_c = 1 - \frac{\alpha - r_c}{\alpha} F_c(d_c + \tau_c), \quad
        \hat f_c = w_c f_c, \quad \hat f_\text{unknown} = \sum_c (1 - w_c) f_c

    with :math:`r_c` = 0 for the largest logit, 1 for the next, to :math:`\alpha - 1`;
    :math:`w_c = 1` beyond; :math:`F_c` the Weibull CDF, 0 below 0.

    Args:
        logits: ``[n, N]``.
        model: what ``fit_openmax`` returns.
        alpha: how many classes give way, :math:`N` at most.

    Returns:
        Probabilities ``[n, N + 1]``, the unknown class last.

    Source: Bendale and Boult (CVPR 2016), Algorithm 2.
    """
    alpha = min(alpha, logits.size(1))
    rank = logits.argsort(dim=1, descending=True, stable=True).argsort(1)
    distance = (_distance(logits, model["centre"]) + model["shift"]).clamp(min=0)
    outside = 1 - (-(distance / model["scale"]) ** model["shape"]).exp()
    yielded = (alpha - rank).clamp(min=0) / alpha * outside * logits
    return torch.cat([logits - yielded, yielded.sum(1, keepdim=True)], 1).softmax(1)


def half_unknown(logits: Tensor) -> Tensor:
    r"""How far the last class is from one half, a mean over nodes with logits ``[n, N + 1]``.

    .. math:: -\frac{1}{2n} \sum_v \log p_{N+1}(v) + \log (1 - p_{N+1}(v))

    Source: Saito et al. (ECCV 2018).
    """
    total, known = logits.logsumexp(1), logits[:, :-1].logsumexp(1)
    return (total - (logits[:, -1] + known) / 2).mean()


def doc_thresholds(prob: Tensor, label: Tensor) -> Tensor:
    r"""DOC's thresholds ``[N]``: a node is unknown if each class gives it less than its threshold.

    .. math:: t_c = \max(0.5, 1 - 3 \sigma_c), \quad \sigma_c^2 = \overline{(p_c(x_i) - 1)^2}

    :math:`\sigma_c` is the deviation about 1 of the probabilities of the class's own nodes together
    with their mirror images :math:`1 + (1 - p)`. A class without nodes has a threshold of 0.5.

    Args:
        prob, label: sigmoid outputs ``[n, N]`` and classes ``[n]`` of training nodes.

    Source: Shu et al. (EMNLP 2017).
    """
    own = prob.gather(1, label[:, None])[:, 0]
    zero = prob.new_zeros(prob.size(1))
    count = zero.index_add(0, label, torch.ones_like(own))
    deviation = (zero.index_add(0, label, (own - 1).square()) / count.clamp(min=1)).sqrt()
    return torch.where(count > 0, 1 - 3 * deviation, zero).clamp(min=0.5)


def _distance(logits: Tensor, centre: Tensor) -> Tensor:
    cosine = F.normalize(logits) @ F.normalize(centre).T
    euclidean = torch.cdist(logits, centre, compute_mode="donot_use_mm_for_euclid_dist")
    return _EUCLIDEAN * euclidean + (1 - cosine).clamp(min=0)


def _fit_tail(distance: Tensor, tail: int) -> tuple[float, float, float] | None:
    """Shape, scale and shift of a Weibull distribution of the largest distances, None where none
    fits."""
    from scipy.stats import weibull_min  # slow, and of one method
    size = min(tail, max(len(distance) // 2, 3))
    largest = distance.double().sort(descending=True).values[:size]
    largest = largest[largest > 1e-9].cpu().numpy()
    # The likelihood of equal distances grows without end with the shape.
    if len(largest) < 3 or largest.max() - largest.min() < 1e-6 * largest.max():
        return None
    shift = 1 - largest.min()
    with warnings.catch_warnings():
        # The search tries shapes whose likelihood overflows, and turns back.
        warnings.simplefilter("ignore", RuntimeWarning)
        shape, _, scale = weibull_min.fit(largest + shift, floc=0)
    return float(shape), float(scale), float(shift)
