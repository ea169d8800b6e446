"""Synthetic tasks: random block-model graphs with a known shift."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from torch_geometric.data import Data

from graphgym_srnc.core.options import Count, Natural, OneOf, Positive, Range, Share, Weight
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data.block_model import class_shares, class_topics, dcsbm
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.shifts import splits
from graphgym_srnc.shifts.splits import CountOrRest, Sizes


def build(
    *,
    name: str = "",
    root: str = "",
    split_seed: int = 0,
    mode: Annotated[str, OneOf("open_set", "close_set")] = "open_set",
    num_nodes: Count = 2000,
    num_classes: Annotated[int, Range(2)] = 7,
    num_unseen: Natural = 2,
    unseen: list[int] = [],  # noqa: B006
    avg_degree: Positive = 5.0,
    homophily: Share = 0.9,
    degree_exponent: Weight = 2.8,
    class_imbalance: Annotated[float, Range(1)] = 3.0,
    num_features: Annotated[int, Range(2)] = 500,
    signal: Share = 0.25,
    shift: Share = 0.2,
    labels_per_class: CountOrRest = 20,
    num_val: Count = 300,
    num_test: CountOrRest = 1000,
) -> ShiftTask:
    """Build a task from synthetic graphs.

    ``open_set`` masks classes of one graph, as the shift ``open_set`` does. ``close_set`` generates
    two graphs with the same classes, which differ by ``shift``. ``num_val`` labelled source nodes
    are held out as ``source_val``; validation and test nodes are drawn from the target.

    Args:
        name, root: ignored.
        split_seed: seed of the graphs and of the split.
        mode: ``open_set`` or ``close_set``.
        num_nodes: number of nodes of each graph.
        num_classes: number of classes, including masked ones.
        num_unseen: number of classes to mask, drawn with ``split_seed``.
        unseen: ids of the classes to mask; overrides ``num_unseen``.
        avg_degree: mean node degree.
        homophily: share of edges within classes.
        degree_exponent: exponent of the power law of degrees, above 2; 0 = equal expected degrees.
        class_imbalance: size of the largest class divided by that of the smallest.
        num_features: number of binary word features.
        signal: share of a node's words that depend on its class, 0 to 1.
        shift: in ``close_set``, share of each class's words that are replaced, and how far the
            class proportions move towards a random permutation of them, 0 to 1.
        labels_per_class: number of labelled nodes of each known class; -1 = all that remain.
        num_val: number of validation nodes; reduced on a small graph.
        num_test: number of test nodes; reduced on a small graph; -1 = all other nodes.

    Raises:
        InputError: a value is out of range, or there are too few nodes.
    """
    rng = splits.generator(split_seed, "synthetic")

    edges = {"avg_degree": avg_degree, "homophily": homophily, "degree_exponent": degree_exponent}

    def graph(shares: np.ndarray, topics: np.ndarray) -> Data:
        return clean(dcsbm(num_nodes=num_nodes, shares=shares, topics=topics, rng=rng, **edges))

    shares = class_shares(num_classes, class_imbalance, rng)
    topics = class_topics(num_classes, num_features, signal, rng)
    source, info = graph(shares, topics), {"split_seed": split_seed, "mode": mode}
    sizes = Sizes(num_val, num_test, split_seed)
    if mode == "open_set":
        masked = splits.choose_unseen(range(num_classes), num_unseen, unseen, split_seed)
        nodes = splits.draw(source.y, masked, labels_per_class, sizes)
        return splits.masked_task("synthetic/open_set", source, masked, nodes, info=info)

    shares = (1 - shift) * shares + shift * rng.permutation(shares)
    replaced = class_topics(num_classes, num_features, signal, rng)
    target = graph(shares, (1 - shift) * topics + shift * replaced)
    at_source = splits.draw(source.y, (), labels_per_class, sizes._replace(num_test=1))
    at_target = splits.draw(target.y, (), labels_per_class, sizes)
    for made in (source, target):
        made.y_true = made.y
    name = "synthetic/close_set"
    oracle = splits.one_graph_task(f"{name}/oracle", target, at_target, num_classes, info=info)
    return ShiftTask(
        name,
        source,
        target,
        at_source.train,
        at_target.val,
        at_target.test,
        pool=torch.arange(num_nodes),
        num_known=num_classes,
        open_set=False,
        source_val=at_source.val,
        info=info,
        oracle=oracle,
    )
