"""Which nodes new clusters consist of: those predicted as unknown, or else candidates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import poisson
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.srnc_plus import SIGNIFICANT
from graphgym_srnc.own.discover.representation import kmeans
from graphgym_srnc.plots import embedding

LEAST_SHARE = 0.1  # of the nodes without a label that are candidates if none is predicted unknown
GROUP = 80  # nodes of a group in which labels are counted
MOST_GROUPS = 200
LEARNED = 100_000  # nodes from which k-means learns them
MOST_ALSO = 4  # groups that also_possible() lists
P_ALSO = 0.2  # p-value of each group, from which it is not listed
P_UNKNOWN = "P(unknown)"
MISSING = "missing labels"
DOUBT = "doubt"


class Evidence(NamedTuple):
    """What a model says of the unknown class as a whole.

    Args:
        open_set: whether the model has an unknown class.
        p_value: p-value of the hypothesis that there is no unknown node; -1 = not tested.
        share: estimated share of unknown nodes, from the same test.
    """

    open_set: bool = True
    p_value: float = -1.0
    share: float = 0.0

    @classmethod
    def of(cls, method: Any) -> Evidence:
        """The evidence that a trained method keeps; SRNC+ alone tests for an unknown class."""
        plan = getattr(method, "plan", None)
        open_set = method.task.unknown is not None
        return cls(open_set) if plan is None else cls(open_set, plan.p_value, plan.least_share)

    @property
    def sentence(self) -> str:
        """What it says of new clusters; empty if it supports them or says nothing."""
        if not self.open_set:
            return (
                "The model was trained without an unknown class, so it does not say whether any of"
                " these is a new class."
            )
        if self.p_value <= SIGNIFICANT:
            return ""
        return (
            "The labels give no significant evidence that any of these is a new class"
            f" (p = {self.p_value:.2g}; significant: below {SIGNIFICANT:g})."
        )


class Seeds(NamedTuple):
    """The nodes that new clusters consist of.

    Args:
        nodes: their numbers, ``[n]``.
        doubt: how unlike the known classes each node is, ``[V]``, from 0 to 1, by the ``measure``.
        measure: ``P(unknown)``; or of candidates ``missing labels``, see :func:`missing_labels`, or
            without labels ``doubt``: 1 less the probability of the most probable known class.
    """

    nodes: Tensor
    doubt: Tensor
    measure: str = P_UNKNOWN

    @property
    def predicted(self) -> bool:
        """Whether the model predicts them as unknown; otherwise they are candidates."""
        return self.measure == P_UNKNOWN

    @property
    def share(self) -> float:
        """Their share of all nodes."""
        return len(self.nodes) / max(len(self.doubt), 1)


def check_number(num_new: int, seeds: Seeds) -> None:
    """Refuse a number of new clusters that the seeds cannot form.

    Raises:
        InputError: there are fewer seeds than new clusters.
    """
    if not 1 <= num_new <= len(seeds.nodes):
        what = "predicted as unknown" if seeds.predicted else "least like a known class"
        raise InputError("num_new", num_new, f"1 to {len(seeds.nodes)}, the number of nodes {what}")


def padded(posterior: Tensor, evidence: Evidence) -> Tensor:
    """Posteriors ``[V, N + 1]``, with an unknown class of probability 0 if a model has none."""
    return posterior if evidence.open_set else F.pad(posterior, (0, 1))


def seeds(
    topics: Tensor, posterior: Tensor, label: Tensor, evidence: Evidence = Evidence()
) -> Seeds:
    """The nodes predicted as unknown, or else the candidates.

    Candidates are the share :data:`LEAST_SHARE` of the nodes without a label around which most
    labels are missing, or more if the labels suggest a larger share of unknown nodes. Confidence
    orders nodes that are equal in this, and all nodes of a graph without labels.

    Args:
        topics: ``[V, D]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        label: class of each labelled node of a known class, ``[V]``; -1 = none.
        evidence: what the model says of the unknown class.
    """
    unknown = (posterior.argmax(1) == posterior.size(1) - 1).nonzero().view(-1)
    if len(unknown):
        return Seeds(unknown, posterior[:, -1])
    known = posterior[:, :-1] / posterior[:, :-1].sum(1, keepdim=True).clamp(min=1e-12)
    unsure = 1 - known.amax(1).double()
    free = (label < 0).nonzero().view(-1)
    has_labels = len(free) < len(label)
    doubt = missing_labels(topics, known, label) if has_labels else unsure
    count = max(1, round(max(LEAST_SHARE, evidence.share) * len(free)))
    order = np.lexsort((-unsure[free].numpy(), -doubt[free].numpy()))
    return Seeds(free[order[:count]].sort().values, doubt, MISSING if has_labels else DOUBT)


class FewLabels(NamedTuple):
    """A group of similar nodes with fewer labels than expected.

    Args:
        nodes: those without a label, the most similar to the mean of the group first, ``[n]``.
        found, expected: number of labels.
        p_value: of so few labels, by the Poisson distribution, times the number of groups.
        number: by which a user names it; the new clusters have the first numbers.
        name: the class that a user gave to it, or "".
    """

    nodes: Tensor
    found: int
    expected: float
    p_value: float
    number: int = 0
    name: str = ""

    @property
    def reliable(self) -> Tensor:
        """All of its nodes, see ``Cluster.reliable``."""
        return self.nodes


def also_possible(
    topics: Tensor, posterior: Tensor, label: Tensor, before: int = 0
) -> list[FewLabels]:
    """Groups of nodes that are predicted as known classes, but have fewer labels than expected.

    They may be of a further new class. There are at most :data:`MOST_ALSO`, those with the smallest
    p-values below :data:`P_ALSO`, and none without labels.

    Args:
        topics: ``[V, D]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        label: class of each labelled node of a known class, ``[V]``; -1 = none.
        before: the largest number of the new clusters.
    """
    own = (posterior.argmax(1) < posterior.size(1) - 1).nonzero().view(-1)
    if len(own) < 2 * GROUP or not (label[own] >= 0).any():
        return []
    known = posterior[own, :-1] / posterior[own, :-1].sum(1, keepdim=True).clamp(min=1e-12)
    group, found, expected = _labels_of_groups(topics[own], known, label[own])
    p_value = poisson.cdf(found, expected)
    result = []
    first = np.argsort(p_value, kind="stable")[:MOST_ALSO]
    for number, k in enumerate(first[p_value[first] < P_ALSO], before + 1):
        inside = own[group == k]
        nodes = inside[label[inside] < 0]
        unit = F.normalize(topics[nodes], dim=1)
        nodes = nodes[(unit @ unit.mean(0)).argsort(descending=True, stable=True)]
        corrected = min(1.0, float(p_value[k] * len(found)))
        result.append(FewLabels(nodes, int(found[k]), float(expected[k]), corrected, number))
    return result


def missing_labels(topics: Tensor, known: Tensor, label: Tensor) -> Tensor:
    r"""Share of the expected labels that are missing around each node, ``[V]``, from 0 to 1.

    K-means forms groups :math:`g` of about :data:`GROUP` nodes with similar topics. Labels are
    drawn from known classes, so groups of a new class have few of them.

    .. math:: 1 - \min\left(1, \frac{1 + |D_g|}{1 + \sum_{j \in g} e_j}\right), \quad
        e_j = \sum_k P_{jk} \frac{|D_k|}{\sum_l P_{lk}}

    where :math:`D` are the labelled nodes and :math:`e_j` the expected number of labels of a node.
    The labels of each class are assumed to be drawn at random from its nodes.

    Args:
        topics: ``[V, D]``.
        known: probabilities :math:`P` of the known classes, ``[V, N]``.
        label: class of each labelled node, ``[V]``; -1 = none.
    """
    group, found, wanted = _labels_of_groups(topics, known, label)
    missing = 1 - (1 + found) / (1 + wanted)
    return torch.from_numpy(missing.clip(min=0)[group])


def _labels_of_groups(
    topics: Tensor, known: Tensor, label: Tensor
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group of each node ``[V]``, and the labels found and expected in each group, ``[G]``.

    The arguments are those of :func:`missing_labels`.
    """
    is_labelled = label >= 0
    count = label[is_labelled].bincount(minlength=known.size(1))
    expected = known.double() @ (count / known.double().sum(0).clamp(min=1e-12))
    number = min(MOST_GROUPS, max(2, len(label) // GROUP), len(label))
    unit = F.normalize(topics, dim=1).numpy()
    drawn = embedding.sample(len(unit), LEARNED)
    group = kmeans(unit[drawn], number, 1).predict(unit)
    found = np.bincount(group[is_labelled.numpy()], minlength=number)
    return group, found, np.bincount(group, expected.numpy(), number)
