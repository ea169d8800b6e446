"""Open-set recognition from logits: confidence scores, OpenMax and the thresholds of DOC.

Logits are ``[n, N]``. Scores are ``[n]`` and larger for nodes of known classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


def max_softmax(logits: Tensor) -> Tensor:
    r"""Largest class probability, :math:`\max_c p_c` (Hendrycks and Gimpel, ICLR 2017)."""
    return logits.softmax(1).amax(1)


def max_logit(logits: Tensor) -> Tensor:
    r"""Largest logit, :math:`\max_c f_c` (Hendrycks et al., ICML 2022)."""
    return logits.amax(1)


def neg_entropy(logits: Tensor) -> Tensor:
    r"""Negative entropy of the class probabilities, :math:`\sum_c p_c \log p_c`."""
    log_p = logits.log_softmax(1)
    return (log_p.exp() * log_p).nan_to_num(nan=0.0).sum(1)


def energy(logits: Tensor) -> Tensor:
    r"""Negative free energy, :math:`\log \sum_c e^{f_c}` (Liu et al., NeurIPS 2020)."""
    return logits.logsumexp(1)


def propagate(score: Tensor, mean_adjacency: Any) -> Tensor:
    r"""Scores ``[V]`` after two steps of smoothing over the graph (GNNSafe, Wu et al., ICLR 2023).

    .. math:: e \leftarrow \tfrac12 e + \tfrac12 D^{-1} A e

    A node without neighbours keeps its score.
    """
    score = score[:, None]
    missing = 1 - mean_adjacency @ torch.ones_like(score)
    for _ in range(2):
        score = 0.5 * score + 0.5 * (mean_adjacency @ score + missing * score)
    return score[:, 0]


def logit_spread(logits: Tensor) -> Tensor:
    r"""Relative variance of the norms and sums of logits (NODESafe, Yang et al., ICML 2025).

    .. math:: 0.999 \frac{\text{Var} \lVert f \rVert}{\text{E} \lVert f \rVert} + 0.001
        \frac{\text{Var} \sum_c f_c}{|\text{E} \sum_c f_c|}

    Variances are population variances. The denominators have no gradient.
    """
    spread = []
    for value in (logits.norm(dim=1), logits.sum(1)):
        mean = value.detach().mean().abs().clamp(min=1e-6)
        spread.append(value.var(correction=0) / mean)
    return 0.999 * spread[0] + (1 - 0.999) * spread[1]


def anchors(confidence: Tensor, adjacency: Any, train: Tensor) -> Tensor:
    r"""The half of the ``train`` nodes ``[n]`` that GRASP joins (Ma et al., NeurIPS 2024), sorted.

    .. math:: \max |N(i) \cap S_\text{known}| \,/\, (|N(i) \cap S_\text{unknown}| + 1)

    The sets :math:`S` are the 5 % of the other nodes with the largest and the smallest
    ``confidence`` ``[V]``.
    """
    other = torch.ones_like(confidence, dtype=torch.bool).index_fill(0, train, False)
    values = confidence[other].cpu().numpy()
    low, high = np.quantile(values, [0.05, 0.95]) if len(values) else (0.0, 0.0)
    sides = torch.stack([(confidence > high) & other, (confidence < low) & other], 1)
    known, unknown = (adjacency @ sides.to(confidence.dtype))[train].T
    order = (known / (unknown + 1)).argsort(descending=True, stable=True)
    return train[order[: len(train) // 2]].sort().values


def propagate_with_anchors(score: Tensor, adjacency: Any, anchor: Tensor) -> Tensor:
    r"""Scores after eight averages over a graph whose anchors are all linked (GRASP).

    .. math:: e_i \leftarrow \frac{\sum_{j \in N(i)} e_j + 1.02 [i \in G] \sum_{j \in G} e_j}
        {|N(i)| + [i \in G] |G|}

    A node without neighbours keeps its score :math:`e` ``[V]``. :math:`G` are the anchors.
    """
    score = score[:, None]
    linked = torch.zeros_like(score).index_fill(0, anchor, 1.0)
    degree = adjacency @ torch.ones_like(score) + linked * len(anchor)
    for _ in range(8):
        around = adjacency @ score + 1.02 * linked * score[anchor].sum()
        score = torch.where(degree > 0, around / degree.clamp(min=1), score)
    return score[:, 0]


def fit_openmax(logits: Tensor, label: Tensor) -> dict[str, Tensor]:
    r"""Fit OpenMax: mean logits of each class, and a Weibull distribution of distances to them.

    .. math:: \mu_c = \overline{f(x_i)}, \quad
        d_c(x) = \frac{\lVert f(x) - \mu_c \rVert_2}{200} + 1 - \cos(f(x), \mu_c)

    Both use the correctly classified nodes of the class, or all of its nodes if none is correct.
    The Weibull distribution is fitted to the :math:`\min(20, n_c / 2)` largest distances, at least
    three, shifted by :math:`\tau_c` so that the smallest one is 1, as in libMR. A class without a
    fit uses the pooled fit of all classes; without one, OpenMax leaves its logits unchanged.

    The arguments are the logits ``[n, N]`` and classes ``[n]`` of the training nodes (Bendale and
    Boult, CVPR 2016, Algorithm 1; Scheirer et al., TPAMI 2011, for libMR).

    Returns:
        ``centre`` ``[N, N]``, ``shape``, ``scale`` and ``shift`` (:math:`\tau`) ``[N]``, detached.
    """
    logits = logits.detach()
    correct = logits.argmax(1) == label
    members = [(label == c) & correct for c in range(logits.size(1))]
    members = [own if own.any() else label == c for c, own in enumerate(members)]
    centre = torch.stack([logits[own].mean(0).nan_to_num() for own in members])

    distance = _distance(logits, centre)
    own = [distance[chosen, c] for c, chosen in enumerate(members)]
    pooled = _fit_tail(torch.cat(own)) or (1.0, float("inf"), 0.0)
    fits = logits.new_tensor([_fit_tail(part) or pooled for part in own])
    return {"centre": centre} | dict(zip(("shape", "scale", "shift"), fits.T))


def openmax(logits: Tensor, model: dict[str, Tensor]) -> Tensor:
    r"""OpenMax probabilities ``[n, N + 1]``, of which the last is that of the unknown class.

    .. math:: w_c = 1 - \frac{\alpha - r_c}{\alpha} F_c(d_c + \tau_c), \quad
        \hat f_c = w_c f_c, \quad \hat f_\text{unknown} = \sum_c (1 - w_c) f_c

    The rank :math:`r_c` of the largest logit is 0, and :math:`\alpha = \min(10, N)`; classes of
    higher rank have :math:`w_c = 1`. :math:`F_c` is the Weibull CDF. ``model`` is the result of
    :func:`fit_openmax` (Bendale and Boult, CVPR 2016, Algorithm 2).
    """
    alpha = min(10, logits.size(1))
    rank = logits.argsort(dim=1, descending=True, stable=True).argsort(1)
    distance = (_distance(logits, model["centre"]) + model["shift"]).clamp(min=0)
    outside = 1 - (-((distance / model["scale"]) ** model["shape"])).exp()
    yielded = (alpha - rank).clamp(min=0) / alpha * outside * logits
    return torch.cat([logits - yielded, yielded.sum(1, keepdim=True)], 1).softmax(1)


def half_unknown(logits: Tensor) -> Tensor:
    r"""Cross-entropy between the probability of the last class and one half, a mean over nodes.

    .. math:: -\frac{1}{2n} \sum_v \log p_{N+1}(v) + \log (1 - p_{N+1}(v))
    """
    total = logits.logsumexp(1)
    known = logits[:, :-1].logsumexp(1)
    return (total - (logits[:, -1] + known) / 2).mean()


def doc_thresholds(prob: Tensor, label: Tensor) -> Tensor:
    r"""Thresholds ``[N]`` of DOC. A node below all of them is unknown.

    .. math:: t_c = \max(0.5, 1 - 3 \sigma_c), \quad \sigma_c^2 = \overline{(p_c(x_i) - 1)^2}

    The mean is over the training nodes of class c, of probabilities ``[n, N]``; without nodes
    :math:`t_c` is 0.5 (Shu et al., EMNLP 2017).
    """
    own = prob.gather(1, label[:, None])[:, 0]
    count = label.bincount(minlength=prob.size(1))
    total = prob.new_zeros(prob.size(1)).index_add(0, label, (own - 1).square())
    deviation = (total / count.clamp(min=1)).sqrt()
    return (1 - 3 * deviation).clamp(min=0.5).where(count > 0, 0.5)


def _distance(logits: Tensor, centre: Tensor) -> Tensor:
    cosine = F.normalize(logits) @ F.normalize(centre).T
    euclidean = torch.cdist(logits, centre, compute_mode="donot_use_mm_for_euclid_dist")
    # The weights are those of the authors' code.
    return 1 / 200 * euclidean + (1 - cosine).clamp(min=0)


def _fit_tail(distance: Tensor) -> tuple[float, float, float] | None:
    """Shape, scale and shift of a Weibull distribution of the largest distances, or None."""
    from scipy.stats import weibull_min  # slow import, needed by one method only

    size = min(20, max(len(distance) // 2, 3), len(distance))
    tops = distance.double().topk(size).values
    largest = tops[tops > 1e-9].cpu().numpy()
    # For equal distances the likelihood grows with the shape without bound.
    if len(largest) < 3 or largest.max() - largest.min() < 1e-6 * largest.max():
        return None
    shift = 1 - largest.min()
    with np.errstate(all="ignore"):  # the search tries shapes whose likelihood overflows
        shape, _, scale = weibull_min.fit(largest + shift, floc=0)
    return float(shape), float(scale), float(shift)
