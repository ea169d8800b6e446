"""Whether edges join nodes of the same class, so that iterations and adaptation help."""

from __future__ import annotations

import torch

from graphgym_srnc.backbones import Graph
from graphgym_srnc.losses.modularity import assortativity, label_assortativity
from graphgym_srnc.losses.prior import posterior_correlation
from graphgym_srnc.methods.shared.cross_fit import Fold, HeldOut
from graphgym_srnc.methods.shared.plan import Decision, Plan

MIN_ASSORTATIVITY = 0.2  # from which edges support iterations or adaptation
MIN_RELIABILITY = 0.3  # minimum correlation of the MLP's posterior with the classes

NOT_ITERATED = (
    "SRNC+ learned no pseudo-labels, since edges between labelled nodes hardly join nodes of the"
    " same class more often than by chance (assortativity {:.2f}; 1 = always). Classifiers of"
    " features and edges, weighted by held-out labels, make the predictions; you need not do"
    " anything."
)
NOT_ADAPTED = {
    True: "SRNC+ did not adapt to the target, since few of its edges seem to join nodes of the same"
    " class (estimated assortativity {:.2f}). Classifiers of the labels alone make the predictions,"
    " with more weight on features.",
    False: "SRNC+ did not adapt to the target, since few edges of the source join nodes of the same"
    " class (assortativity {:.2f}), and features alone cannot tell whether this differs on the"
    " target. Classifiers of the labels alone make the predictions.",
}
"""Warnings if a target is not adapted to, by whether features are reliable."""


def decide_on_iterations(graph: Graph, fold: Fold, plan: Plan, abstain: bool) -> Decision:
    """Do not iterate on a graph if the edges between its labelled nodes join few equal classes.

    If too few edges tell it, they are assumed to join equal classes.
    """
    value = _assortativity_of_labels(graph, fold, otherwise=1.0)
    figures = {"assortativity": value}
    if not abstain or value >= MIN_ASSORTATIVITY:
        return Decision(plan, figures)
    warnings = {"not iterated": NOT_ITERATED.format(value)}
    return Decision(plan._replace(adapts=False), figures, warnings, episodes=0)


def decide_on_adaptation(source: Graph, target: Graph, held_out: HeldOut, plan: Plan) -> Decision:
    """Adapt to the target of two graphs if its edges seem to join nodes of the same class.

    If they do not, the MLP on features alone gets more weight, where it is reliable.

    Args:
        source, target: the graphs.
        held_out: labels of the source.
        plan: the plan so far.
    """
    value, reliability = _assortativity_of_target(source, target, held_out)
    figures = {"features_reliability": reliability, "assortativity": value}
    decision = Decision(plan, figures, reported=("homophily",))
    if value >= MIN_ASSORTATIVITY:
        return decision
    is_reliable = reliability >= MIN_RELIABILITY
    # The share of the MLP grows to a half at assortativity 0, from none at the bound.
    share = min(1 - value / MIN_ASSORTATIVITY, 1.0) / 2
    return decision._replace(
        plan=plan._replace(adapts=False, smooths=False),
        warnings={"not adapted": NOT_ADAPTED[is_reliable].format(value)},
        episodes=0,
        favoured=share if is_reliable else 0.0,
    )


def _assortativity_of_target(
    source: Graph, target: Graph, held_out: HeldOut
) -> tuple[float, float]:
    """Estimated assortativity of the target, and the reliability of features alone.

    If features alone are unreliable, the assortativity is that of the labels of the source.
    """
    networks = [fold.evidence for fold in held_out.folds]
    on_source = held_out.held_out([network.by_features(source) for network in networks])
    reliability = posterior_correlation(on_source.exp(), held_out.labels)
    if reliability < MIN_RELIABILITY:
        return _assortativity_of_labels(source, held_out.folds[0], otherwise=0.0), reliability
    on_target = [network.by_features(target).exp() for network in networks]
    p = torch.stack(on_target).mean(0)
    return assortativity(p, target.adjacency("raw"), target.degree, reliability), reliability


def _assortativity_of_labels(graph: Graph, fold: Fold, otherwise: float) -> float:
    """Assortativity of the edges between labelled nodes, or ``otherwise`` if these are too few."""
    nodes = torch.cat([fold.train, fold.held_out])
    labels = torch.cat([fold.labels, fold.held_out_labels])
    data = graph.data
    label = torch.full_like(data.y, -1).index_copy(0, nodes, labels)
    weight = data.edge_weight
    return label_assortativity(data.edge_index, graph.degree, label, weight, otherwise=otherwise)
