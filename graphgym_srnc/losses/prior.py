"""Class and edge-class proportions of an unlabelled graph, and their ratios to the source."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import nnls
from scipy.special import chdtrc
from torch import Tensor
from torch.nn import functional as F

DIFFERENT = 0.05  # p-value from which labels drawn per class are taken for those of equal shares
MOST_UNKNOWN = 2.0  # nodes predicted as unknown, in multiples of the estimated number
TOLERANCE = 0.25  # standard errors that the chosen number of unknown nodes may cost
CONSTRAINT_WEIGHT = 1e4  # of the equality constraint in the problem of shift_weights


def em_prior(posterior: Tensor, prior: Tensor) -> Tensor:
    r"""Maximum-likelihood class prior of unlabelled nodes, by expectation maximisation.

    .. math:: \pi \leftarrow \frac{1}{V} \sum_i
        \frac{p_{ic} \, \pi_c / \pi^s_c}{\sum_{c'} p_{ic'} \, \pi_{c'} / \pi^s_{c'}}

    The iteration starts at the training prior and stops when no entry changes by 1e-6 or more.

    Args:
        posterior, prior: :math:`p` ``[V, N]`` of a classifier trained under :math:`\pi^s` ``[N]``.

    References:
        Saerens, Latinne and Decaestecker (Neural Computation 2002).
    """
    p = posterior.double()
    target = source = prior.to(p)
    for _ in range(1000):
        joint = p * (target / source)
        last = target
        target = (joint / joint.sum(1, keepdim=True).clamp(min=1e-300)).mean(0)
        if float((target - last).abs().max()) < 1e-6:
            break
    return target


def black_box_weights(confusion: Tensor, predicted: Tensor) -> Tensor:
    r"""Ratios of target to source class priors, by black-box shift estimation.

    .. math:: \min_{w \ge 0} \lVert C w - \mu \rVert_2, \quad w_c = \pi_c / \pi^s_c

    Args:
        confusion: :math:`C`, ``[N, N]``: share of held-out source nodes with the predicted class of
            the row and the true class of the column; the entries sum to one.
        predicted: :math:`\mu`, ``[N]``: share of target nodes predicted as each class.

    References:
        Lipton, Wang and Smola (ICML 2018), here with non-negative weights.
    """
    weights, _ = nnls(confusion.double().cpu().numpy(), predicted.double().cpu().numpy())
    return torch.from_numpy(weights).to(predicted.device)


def shares_differ(confusion: Tensor, shares: Tensor) -> bool:
    r"""Whether labels have other predicted shares of classes than a pool, at a level of 5 %.

    .. math:: \chi^2 = \frac{N - 1}{N} \sum_j \frac{(o_j - n s_j)^2}{v_j}, \quad
        v_j = \sum_k n_k c_{jk} (1 - c_{jk}), \quad c_{jk} = \frac{m_{jk} + 1/N}{n_k + 1}

    The numbers :math:`n_k` of labels of each class are fixed, so that of nodes predicted as a
    class, :math:`o_j`, varies by errors alone. It has about :math:`N - 1` degrees of freedom.

    Args:
        confusion: :math:`m`, ``[N, N]``: number of labels with the predicted class of the row and
            the true class of the column.
        shares: :math:`s`, ``[N]``: share of the pool predicted as each class.
    """
    counts = confusion.double().cpu().numpy()
    classes = len(counts)
    labels = counts.sum(0)
    share = (counts + 1 / classes) / (labels + 1)
    variance = (labels * share * (1 - share)).sum(1)
    away = counts.sum(1) - shares.double().cpu().numpy() * labels.sum()
    statistic = (classes - 1) / classes * (away**2 / variance.clip(1e-12)).sum()
    return bool(chdtrc(max(1, classes - 1), statistic) < DIFFERENT)


def known_share(known: Tensor, mixture: Tensor) -> float:
    r"""Upper estimate of the share of known classes among unlabelled nodes, by best bin estimation.

    .. math:: \hat\alpha = \frac{\hat q_u(\hat c)}{\hat q_p(\hat c)}, \quad
        \hat c = \arg\min_c \frac{\hat q_u(c)}{\hat q_p(c)} + \frac{1 + \gamma}{\hat q_p(c)}
        \left(\sqrt{\frac{\log(4/\delta)}{2 n_u}} + \sqrt{\frac{\log(4/\delta)}{2 n_p}}\right)

    :math:`\hat q(c)` is the share of nodes with a confidence of at least :math:`c`. The constants
    are the authors': :math:`\gamma = 0.01` and :math:`\delta = 0.1`. The only assumption is that
    few unknown nodes are among the most confident ones.

    Args:
        known: confidence of held-out nodes of known classes, ``[n_p]``.
        mixture: confidence of the unlabelled nodes, ``[n_u]``.

    References:
        Garg, Wu, Smola, Balakrishnan and Lipton (NeurIPS 2021), Algorithm 1.
    """
    known = known.double().sort().values
    mixture = mixture.double().sort().values
    c = torch.cat([known, mixture]).unique()
    share_p, share_u = (1 - torch.searchsorted(part, c) / len(part) for part in (known, mixture))
    kept = share_p > 0
    share_p = share_p[kept].double()
    share_u = share_u[kept].double()

    slack = sum(math.sqrt(math.log(4 / 0.1) / (2 * len(part))) for part in (known, mixture))
    best = ((share_u + 1.01 * slack) / share_p).argmin()
    return min(1.0, float(share_u[best] / share_p[best]))


def posterior_correlation(p: Tensor, label: Tensor) -> float:
    r"""Correlation of a posterior with the true class: 1 if it is certain and right.

    .. math:: \rho = \frac{\sum_k \text{Cov}(P_k, [y = k])}
        {\sqrt{\sum_k \text{Var} P_k \sum_k \text{Var}[y = k]}}

    Args:
        p: posteriors ``[n, N]`` of nodes that the classifier did not learn.
        label: their classes, ``[n]``.

    Returns:
        The correlation; 0 if all posteriors or all classes are the same, or without nodes.
    """
    if not len(label):
        return 0.0
    one_hot = F.one_hot(label, p.size(1)).to(p)
    first = p - p.mean(0)
    second = one_hot - one_hot.mean(0)
    scale = (first.square().sum() * second.square().sum()).sqrt()
    return float((first * second).sum() / scale.clamp(min=1e-12))


def effective_number(weight: Tensor) -> float:
    r"""Kish's effective number of items, :math:`(\sum w)^2 / \sum w^2`."""
    return float(weight.double().sum().square() / weight.double().square().sum())


class UnknownEvidence(NamedTuple):
    """What the ranks of held-out nodes of known classes say of an unknown class.

    Args:
        least_share: :math:`D`, an estimate of the share of unknown nodes. It is too low where known
            and unknown nodes rank alike, and too high by chance if there are few labels.
        rank: rank below which "unknown" is predicted.
        accuracy: expected accuracy with that threshold.
        error: standard error of the accuracy.
        precision: expected share of unknown nodes below the rank; 0 if there is none.
        known_accuracy: expected accuracy of the nodes above it; too high if many of these are
            unknown.
    """

    least_share: float
    rank: float
    accuracy: float
    error: float
    precision: float
    known_accuracy: float

    def gained(self, ranks: Tensor, correct: Tensor) -> Tensor:
        """What each held-out node adds to the accuracy ``[n]``, whose mean is the accuracy.

        The arguments are those of :func:`unknown_evidence`.
        """
        below = ranks < self.rank
        right = torch.where(below, -1.0, correct.double())
        return self.rank + (1 - self.least_share) * right


def unknown_evidence(ranks: Tensor, weight: Tensor, correct: Tensor) -> UnknownEvidence:
    r"""Estimate the share of unknown nodes, and choose the rank below which nodes are unknown.

    .. math:: D = \max_u \left(u - F(u)\right)

    :math:`F(u)` is the share of held-out nodes whose rank is below :math:`u`. Without unknown nodes
    the ranks are uniform, see :func:`~graphgym_srnc.losses.ranks.low_rank_p_value`. Unknown nodes
    have low confidence, so the known ones rank higher, and :math:`D` estimates their share.

    The threshold has the largest expected number of correct predictions: unknown nodes below it,
    less the known nodes below it that would be predicted correctly, of share :math:`C(u)`.

    .. math:: \max_{u \le 2 D} \; u - (1 - D) \left(F(u) + C(u)\right)

    The threshold is the rank nearest to :math:`D` of those whose expected number is at most a
    quarter of a standard error below the largest one. The bound :math:`2 D` decides where nearly no
    known node would be predicted correctly: half of the nodes below it should be unknown.

    Args:
        ranks: share of unlabelled nodes with lower confidence than each held-out node, ``[n]``.
        weight: :math:`w`, ``[n]``: ratio of the share of a node's class among the unlabelled nodes
            to that among the labelled ones.
        correct: 1 where the class of a held-out node is predicted correctly, else 0, ``[n]``.
    """
    ranks, order = ranks.double().sort()
    weight = weight.double()[order]
    correct = correct.double()[order]
    weight = weight / weight.sum()
    below = F.pad(weight.cumsum(0), (1, 0))[:-1]
    correct_below = F.pad((weight * correct).cumsum(0), (1, 0))[:-1]
    distance = max(0.0, float((ranks - below).max()))
    count = effective_number(weight)

    gain = ranks - (1 - distance) * (below + correct_below)
    allowed = ranks <= MOST_UNKNOWN * distance
    # What a held-out node that is called unknown costs, beside the others between two ranks.
    cost = (1 - distance) * (1 + correct)
    rank = _nearest_good_rank(
        ranks[allowed],
        gain[allowed],
        (weight * cost)[allowed],
        (weight * cost.square())[allowed],
        distance,
        count,
    )
    gained = correct * (ranks >= rank) - (ranks < rank).double()
    mean = float((weight * gained).sum())
    spread = float((weight * (gained - mean).square()).sum())
    accuracy = min(1.0, rank + (1 - distance) * mean)
    error = (1 - distance) * (spread / count) ** 0.5
    is_below = (ranks < rank).double()
    is_kept = correct * (1 - is_below)
    share_below = float((weight * is_below).sum())
    # No more known nodes than there are nodes above the rank.
    known = min(1 - distance, (1 - rank) / (1 - share_below))
    kept = float((weight * is_kept).sum())
    known_accuracy = known * kept / (1 - rank) if rank < 1 else 0.0
    # One more node below the rank, since a few labels cannot show that all are unknown.
    known_below = known * (count * share_below + 1) / (count + 1)
    precision = max(0.0, 1 - known_below / rank) if rank else 0.0
    return UnknownEvidence(distance, rank, accuracy, error, precision, known_accuracy)


def _nearest_good_rank(
    ranks: Tensor, gain: Tensor, cost: Tensor, square: Tensor, wanted: float, count: float
) -> float:
    """The rank nearest to a wanted one of those with almost the largest gain; 0 if none is above 0.

    Args:
        ranks: ranks in rising order, ``[n]``.
        gain: expected gain of each rank as the threshold, ``[n]``.
        cost, square: by how much each held-out node lowers the gain of higher thresholds, and the
            weighted square of that, ``[n]``.
        wanted: the wanted rank.
        count: effective number of held-out nodes.
    """
    best = int(gain.argmax()) if len(gain) else 0
    if not len(gain) or gain[best] <= 0:
        return 0.0
    # The gains of two ranks differ by the nodes between them.
    first = F.pad(cost.cumsum(0), (1, 0))[:-1]
    second = F.pad(square.cumsum(0), (1, 0))[:-1]
    variance = (second - second[best]).abs() - (first - first[best]).square()
    error = (variance.clamp(min=0) / count).sqrt()
    near = ranks[gain >= gain[best] - TOLERANCE * error]
    return float(near[(near - wanted).abs().argmin()])


def expected_labels(p: Tensor, labels: Tensor) -> Tensor:
    r"""Expected number of labels of each node, ``[V]``, if those of a class are drawn at random.

    .. math:: e_j = \sum_k P_{jk} \frac{|D_k|}{\sum_l P_{lk}}

    Args:
        p: probabilities :math:`P` of the known classes, ``[V, N]``.
        labels: classes of all labelled nodes :math:`D`, ``[n]``.
    """
    return p @ (labels.bincount(minlength=p.size(1)) / p.sum(0).clamp(min=1e-12))


def shift_weights(
    confusion: np.ndarray, target: np.ndarray, source: np.ndarray, ridge: float
) -> np.ndarray:
    r"""Ratios of target to source shares, estimated from the predictions of a classifier.

    .. math:: \min_{w \ge 0} \lVert C w - \mu_T \rVert^2 + \lambda \lVert w - 1 \rVert^2
        \quad \text{s.t.} \quad \mu_S^\top w = 1

    Args:
        confusion: :math:`C`, mean product of predicted posterior and true class over the source,
            ``[K, K]``.
        target: :math:`\mu_T`, mean posterior over the target, ``[K]``.
        source: :math:`\mu_S`, shares of the true classes in the source, ``[K]``.
        ridge: :math:`\lambda`.

    References:
        Lipton et al. (ICML 2018) and Azizzadenesheli et al. (ICLR 2019) for labels; Liu et al.
        (ICML 2024, Pair-Align) for pairs.
    """
    ones = np.ones(len(source))
    rows = [confusion, ridge**0.5 * np.diag(ones), CONSTRAINT_WEIGHT * source[None]]
    wanted = [target, ridge**0.5 * ones, [CONSTRAINT_WEIGHT]]
    return nnls(np.concatenate(rows), np.concatenate(wanted))[0]


def conditional_ratio(weights: np.ndarray, source: np.ndarray, floor: float) -> np.ndarray:
    r"""Ratio of neighbour class probabilities between target and source.

    .. math:: \gamma_{ab} = \frac{P_T(b \mid a)}{P_S(b \mid a)}, \quad
        P_T(a, b) \propto w_{ab} P_S(a, b) + \epsilon, \quad P_S(a, b) \propto \mu_{ab} + \epsilon

    :math:`P(b \mid a)` is the probability that a neighbour of a node of class a has class b.

    Args:
        weights: :math:`w`, ``[N, N]``.
        source: :math:`\mu`, share of the source's edges between each pair of classes, ``[N, N]``.
        floor: :math:`\epsilon`, which shrinks the ratios of rare pairs towards 1.
    """
    in_target = source * weights + floor
    in_source = source + floor
    return (
        in_target / in_target.sum(1, keepdims=True) / (in_source / in_source.sum(1, keepdims=True))
    )
