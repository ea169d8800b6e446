"""Groups of similar nodes with fewer labels than expected: a tree-based scan statistic.

Labels are drawn from known classes, so a group of a new class has few of them. Groups of all sizes
are compared, since nobody knows the size of a new class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.special import gammaincc, gammaincinv
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.losses.prior import expected_labels
from graphgym_srnc.methods.shared.topics import by_group, kmeans

LEAF = 30  # mean number of nodes of the smallest groups
MOST_LEAVES = 400
LEARNED = 50_000  # nodes from which k-means learns them
LARGEST = 0.5  # share of all expected labels that a group has at most
CONFIDENCE = 0.95  # of the bound by which groups are compared
DRAWS = 999  # random labels, for p-values


class FewLabels(NamedTuple):
    """A group of similar nodes with fewer labels than expected.

    Args:
        nodes: those without a label, the most similar to the mean of the group first, ``[n]``.
        found, expected: numbers of labels.
        p_value: of so few labels in any group of the tree, if labels were drawn at random.
        number: by which a user names it; 0 = none yet.
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

    @property
    def p_alone(self) -> float:
        """p-value of so few labels in this group, if it alone had been looked at."""
        return float(gammaincc(self.found + 1, self.expected))


class Scan:
    r"""Labels of all groups of a tree of similar nodes.

    K-means forms small groups, the leaves, and Ward's method merges them. A group :math:`g` has
    :math:`|D_g|` labels, and :func:`expected_labels` of its nodes sum to :math:`E_g`. Groups are
    compared by the upper 95 % bound of the ratio of both numbers,
    :math:`\chi^2_{0.95}(2 |D_g| + 2) / 2 E_g`. The likelihood ratio of the reference prefers larger
    groups, which mix classes.

    Args:
        topics: ``[V, D]``.
        known: probabilities of the known classes, ``[V, N]``.
        label: class of each labelled node, ``[V]``; -1 = none.

    Attributes:
        leaf: leaf of each node, ``[V]``.
        inside: 1 where a group contains a leaf, otherwise 0, ``[G, L]``.
        found, expected, bound: figures of the groups, ``[G]``; the bound is infinite for those with
            more than half of all expected labels.

    References:
        Kulldorff, Fang and Walsh (Biometrics 2003) for the scan, Garwood (Biometrika 1936) for the
        bound.
    """

    def __init__(self, topics: Tensor, known: Tensor, label: Tensor) -> None:
        self.label = label
        self.unit = F.normalize(topics, dim=1)
        unit = self.unit.numpy()
        count = min(MOST_LEAVES, max(2, len(unit) // LEAF), len(unit))
        drawn = np.random.default_rng(0).permutation(len(unit))[:LEARNED]
        learned = kmeans(unit[np.sort(drawn)], count, 1).predict(unit)
        used, self.leaf = np.unique(learned, return_inverse=True)
        means = by_group(unit, self.leaf, len(used)) / np.bincount(self.leaf)[:, None]
        self.inside = tree(means)
        is_labelled = (label >= 0).numpy()
        wanted = expected_labels(known.double(), label[label >= 0])
        self.of_leaf = np.bincount(self.leaf, wanted.numpy())
        self.found = self.inside @ np.bincount(self.leaf[is_labelled], minlength=len(used))
        self.expected = self.inside @ self.of_leaf
        largest = LARGEST * self.of_leaf.sum()
        self.is_small = (self.expected <= largest) | np.isclose(self.expected, largest)
        self.bound = self._bound(self.found)

    def _bound(self, found: np.ndarray) -> np.ndarray:
        """Upper bound of the ratio of found ``[..., G]`` to expected labels of each group."""
        most = gammaincinv(np.arange(found.max() + 1) + 1, CONFIDENCE)
        bound = most[found] / self.expected.clip(min=1e-12)
        return np.where(self.is_small, bound, np.inf)

    @property
    def missing(self) -> Tensor:
        """Share of the expected labels that are missing around each node, ``[V]``, from 0 to 1.

        It is that of the group with the smallest bound of those that contain the node, with one
        label more found and expected.
        """
        share = (1 - (1 + self.found) / (1 + self.expected)).clip(min=0)
        clearest = np.where(self.inside > 0, self.bound[:, None], np.inf).argmin(0)
        return torch.from_numpy(share[clearest][self.leaf])

    def groups(self) -> list[FewLabels]:
        """All disjoint groups with fewer labels than expected, the smallest bound first."""
        total = self.of_leaf.sum()
        if not total:
            return []
        rng = np.random.default_rng(0)
        draws = rng.multinomial(round(total), self.of_leaf / total, DRAWS)
        smallest = self._bound(draws @ self.inside.T).min(1)
        taken = np.zeros(self.inside.shape[1], dtype=bool)
        result = []
        for k in np.argsort(self.bound, kind="stable"):
            leaves = self.inside[k] > 0
            if self.found[k] >= self.expected[k] or not self.is_small[k] or taken[leaves].any():
                continue
            taken |= leaves
            p_value = (1 + (smallest <= self.bound[k]).sum()) / (1 + DRAWS)
            nodes = self._free(leaves)
            found = int(self.found[k])
            result.append(FewLabels(nodes, found, float(self.expected[k]), float(p_value)))
        return result

    def _free(self, leaves: np.ndarray) -> Tensor:
        """Nodes without a label in some leaves, the most similar to their mean first."""
        inside = torch.from_numpy(leaves[self.leaf])
        nodes = (inside & (self.label < 0)).nonzero().view(-1)
        unit = self.unit[nodes]
        return nodes[(unit @ unit.mean(0)).argsort(descending=True, stable=True)]


def tree(means: np.ndarray) -> np.ndarray:
    """Which of the leaves with ``means`` ``[L, D]`` each group of their tree contains, ``[G, L]``.

    The groups are the leaves and their merges by Ward's method.
    """
    from scipy.cluster.hierarchy import linkage  # slow import, which few commands need

    inside = [*np.eye(len(means), dtype=int)]
    if len(means) > 1:
        for first, second in linkage(means, "ward")[:, :2].astype(int):
            inside.append(inside[first] + inside[second])
    return np.stack(inside)
