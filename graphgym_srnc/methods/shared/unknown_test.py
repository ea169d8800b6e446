"""Tests whether a graph has nodes of a class without labels."""

from __future__ import annotations

import copy
from typing import Mapping, NamedTuple, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.task import CHOSEN_MASK, DRAWN_MASK, HIDDEN
from graphgym_srnc.losses.ranks import low_rank_p_value
from graphgym_srnc.methods.shared.cross_fit import HeldOut
from graphgym_srnc.methods.shared.label_scan import Scan
from graphgym_srnc.methods.shared.plan import (
    SIGNIFICANT,
    TESTS,
    Decision,
    Judged,
    Plan,
    promises_more,
)
from graphgym_srnc.methods.shared.propensity import Contrast
from graphgym_srnc.methods.shared.topics import best_topics


class Labelled(NamedTuple):
    """Labelled nodes, some of which may be no random sample.

    Args:
        nodes, labels: ids and classes of the nodes, ``[n]``.
        chosen: those that were chosen, see ``ShiftTask``; none if all were, ``[n]``.
        elsewhere: those outside ``drawn_mask``, see ``ShiftTask``. They were drawn at random from
            other nodes than the rest, ``[n]``.
    """

    nodes: Tensor
    labels: Tensor
    chosen: Tensor
    elsewhere: Tensor

    @classmethod
    def of(cls, graph: Data, nodes: Tensor, labels: Tensor) -> Labelled:
        """Labelled nodes of a graph, which may say which nodes were chosen."""
        none = torch.zeros_like(graph.y, dtype=torch.bool)
        chosen = graph.get(CHOSEN_MASK, none)[nodes]
        chosen = chosen & ~chosen.all()
        elsewhere = ~graph.get(DRAWN_MASK, ~none)[nodes] & ~chosen
        return cls(nodes, labels, chosen, elsewhere)

    @property
    def weight(self) -> Tensor | None:
        """Weight of each label in a loss, ``[n]``; None if all weigh alike.

        Those ``elsewhere`` weigh together no more than the others: a random sample of the nodes to
        be predicted would hardly count beside many labels of another time.
        """
        count = int(self.elsewhere.sum())
        others = len(self.nodes) - count
        if not others or count <= others:
            return None
        return torch.where(self.elsewhere, others / count, 1.0)

    @property
    def drawn(self) -> Tensor:
        """Labels that were drawn at random from the nodes that they are compared with, ``[n]``."""
        return ~self.chosen & ~self.elsewhere

    @property
    def drawn_classes(self) -> Tensor:
        """Classes with labels that were drawn at random."""
        return self.labels[self.drawn].unique()

    @property
    def never_held_out(self) -> Tensor:
        """Labels of chosen nodes, ``[n]``, but for those of a class that has no others.

        If these were not held out, too, its nodes would be taken for unknown.
        """
        return self.chosen & torch.isin(self.labels, self.drawn_classes)


class UnknownTest:
    """Three tests of the hypothesis that every class of a graph has labels.

    Each is a sign of an unknown class that the others may miss: held-out nodes are more certain
    than unlabelled ones, labelled nodes differ from unlabelled ones (:class:`Contrast`), or a group
    of similar nodes lacks labels (:class:`Scan`).

    Args:
        graph: the graph.
        pool: its unlabelled nodes.
        labelled: its labelled nodes.
        held_out: these, judged by classifiers that did not learn them.
        logits: of the known classes, ``[V, N]``, by the classifiers of all labels.

    Attributes:
        class_ratio: share of each class among unlabelled nodes, divided by that among labels.
    """

    def __init__(
        self, graph: Data, pool: Tensor, labelled: Labelled, held_out: HeldOut, logits: Tensor
    ) -> None:
        self.graph = graph
        self.pool = pool
        self.labelled = labelled
        self.held_out = held_out
        self.logits = logits
        self.class_ratio = held_out.class_ratios(pool)

    def run(
        self, scores: Sequence[Tensor], x: Tensor, plan: Plan
    ) -> tuple[Decision, Judged, Contrast | None]:
        """Make the tests, and rank nodes by the better confidence.

        Args:
            scores: confidence ``[V]`` of all nodes, by the classifiers of each fold.
            x: hop features of all nodes, ``[V, D]``.
            plan: the plan so far.

        Returns:
            The result of the tests, held-out nodes, and labelled against unlabelled nodes if label
            propensity is the better confidence.
        """
        # Scores of both kinds are spread alike.
        contrast = self.contrast(x, spread=float(scores[0][self.pool].std()))
        p_values = self.p_values(scores, contrast)
        p_value = min(TESTS * min(p_values.values()), 1.0)
        judged, by_propensity = self.best_confidence(scores, contrast, p_values)
        figures = {f"{name}_p_value": value for name, value in p_values.items()}
        new = plan._replace(
            p_value=p_value,
            is_clear=p_value <= SIGNIFICANT,
            tested=int(self.is_tested.sum()),
            by_propensity=by_propensity,
        )
        decision = Decision(new, figures | {"no_unknown_p_value": p_value})
        return decision, judged, contrast if by_propensity else None

    @property
    def is_tested(self) -> Tensor:
        """Whether a held-out label counts, ``[m]``: chosen labels are no random sample of a class.

        It counts if its class has labels that were drawn at random.
        """
        has_drawn = torch.isin(self.held_out.labels, self.labelled.drawn_classes)
        return has_drawn & self.is_comparable

    @property
    def is_comparable(self) -> Tensor:
        """Whether a held-out node was drawn from the nodes of the pool, ``[m]``."""
        nodes = torch.cat([fold.held_out for fold in self.held_out.folds])
        return ~torch.isin(nodes, self.labelled.nodes[self.labelled.elsewhere])

    def p_values(self, scores: Sequence[Tensor], contrast: Contrast) -> dict[str, float]:
        """p-value of each test by its name; that of groups only if no other one is significant.

        Args:
            scores: confidence ``[V]`` of all nodes, by the classifiers of each fold.
            contrast: labelled against unlabelled nodes.
        """
        found = {"low_ranks": self.by_ranks(scores), "propensity": contrast.p_value()}
        if not is_clear(min(found.values())):
            found["few_labels"] = self.by_groups()
        return found

    def by_ranks(self, scores: Sequence[Tensor]) -> float:
        """p-value of the ranks of held-out nodes by scores ``[V]`` of each fold."""
        tested = self.is_tested
        ranks = self.held_out.ranks(scores, self.pool, self.labelled.drawn_classes)
        weight = self.class_ratio[self.held_out.labels[tested]]
        return low_rank_p_value(ranks[tested], weight, len(self.pool))

    def by_groups(self) -> float:
        """p-value of the group of similar nodes that clearest lacks labels.

        It shows an unknown class that is too small for the ranks of held-out nodes.
        """
        drawn = ~self.labelled.never_held_out & ~self.labelled.elsewhere
        label = torch.full((len(self.logits),), HIDDEN)
        label[self.labelled.nodes[drawn].cpu()] = self.labelled.labels[drawn].cpu()
        known = self.logits.softmax(1).cpu()
        topics = best_topics(copy.copy(self.graph).cpu(), label)
        nodes = torch.cat([self.labelled.nodes, self.pool]).sort().values.cpu()
        groups = Scan(topics[nodes], known[nodes], label[nodes]).groups()
        return groups[0].p_value if groups else 1.0

    def contrast(self, x: Tensor, spread: float) -> Contrast:
        """Labelled against unlabelled nodes, with labels weighted as if drawn at random.

        Args:
            x: hop features of all nodes, ``[V, D]``.
            spread: standard deviation of the scores that the confidence by it would replace.
        """
        own = self.labelled
        weight = self.class_ratio[own.labels] * ~own.never_held_out * ~own.elsewhere
        # A class that has chosen labels alone counts as often as it is predicted.
        is_new = own.chosen & ~own.never_held_out
        predicted = self.logits[self.pool].argmax(1)
        is_drawn = torch.isin(predicted, own.drawn_classes)
        per_node = weight[own.drawn].sum() / is_drawn.sum().clamp(min=1)
        for k in own.labels[is_new].unique():
            members = own.labels == k
            weight[members] = per_node * (predicted == k).sum().clamp(min=1) / members.sum()
        return Contrast(x, own.nodes, weight, self.pool, spread)

    def judged(self, scores: Sequence[Tensor]) -> Judged:
        """The held-out nodes by scores ``[V]`` of each fold."""
        held_out = self.held_out
        ranks = held_out.ranks(scores, self.pool)
        correct = held_out.correct(held_out.log_p)
        every = Judged(ranks, self.class_ratio[held_out.labels], correct)
        return every.at(self.is_comparable)

    def best_confidence(
        self, scores: Sequence[Tensor], contrast: Contrast, p_values: Mapping[str, float]
    ) -> tuple[Judged, bool]:
        """The better confidence on held-out nodes, and whether it is label propensity.

        It is, if this shows unknown nodes, and the scores ``[V]`` of each fold do not or promise
        less accuracy, see :func:`promises_more`.
        """
        usual = self.judged(scores)
        if not is_clear(p_values["propensity"]):
            return usual, False
        ranks = [contrast.ranks(fold.held_out) for fold in self.held_out.folds]
        other = usual._replace(ranks=torch.cat(ranks)[self.is_comparable])
        if is_clear(p_values["low_ranks"]) and not promises_more(other, usual):
            return usual, False
        return other, True


def is_clear(p_value: float) -> bool:
    """Whether the p-value of one of the tests is significant, by Bonferroni's correction."""
    return TESTS * p_value <= SIGNIFICANT
