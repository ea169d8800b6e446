"""Tasks of graphs made in memory: a block model with known classes and a known shift."""
from __future__ import annotations

from typing import Annotated

import torch

from graphgym_srnc.data.block_model import class_shares, class_topics, dcsbm
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.options import Count, Natural, OneOf, Positive, Range, Share, Weight
from graphgym_srnc.shifts import splits
from graphgym_srnc.shifts.splits import CountOrRest
from graphgym_srnc.task import ShiftTask


def build(*, name: str = "", root: str = "", split_seed: int = 0,
          mode: Annotated[str, OneOf("open_set", "close_set")] = "open_set",
          num_nodes: Count = 2000, num_classes: Annotated[int, Range(2)] = 7,
          num_unseen: Natural = 2, unseen: list[int] = [], avg_degree: Positive = 5.0,  # noqa: B006
          homophily: Share = 0.8, degree_exponent: Weight = 2.8,
          class_imbalance: Annotated[float, Range(1)] = 3.0, blocks_per_class: Count = 1,
          num_features: Annotated[int, Range(2)] = 500, signal: Share = 0.25, shift: Share = 0.2,
          labels_per_class: CountOrRest = 20, num_val: Count = 300,
          num_test: CountOrRest = 1000) -> ShiftTask:
    """Make a task of synthetic graphs; the defaults are about as hard as Cora.

    ``open_set`` masks classes of one graph, as the shift of that name does. ``close_set`` makes two
    graphs of the same classes: the source is labelled, the target is not, and class shares and
    class words of the target differ by ``shift``; ``num_val`` labelled source nodes are held out as
    ``source_val``, and validation and test nodes are drawn from the target.

    Args:
        name, root: ignored.
        split_seed: decides the graphs and the split.
        mode: ``open_set`` or ``close_set``.
        num_nodes: number of nodes of each graph.
        num_classes: number of classes, masked ones included.
        num_unseen: number of classes to mask, drawn from ``split_seed``.
        unseen: the classes to mask; overrides ``num_unseen``.
        avg_degree: mean degree of a node.
        homophily: share of edges inside classes.
        degree_exponent: exponent of the power law of degrees, above 2; 0 = all alike.
        class_imbalance: size of the largest class over that of the smallest.
        blocks_per_class: communities that a class falls into.
        num_features: number of binary word features.
        signal: share of a node's words that tell its class, 0 to 1.
        shift: in ``close_set``, how far the target is from the source, 0 to 1: the share of each
            class's words that others replace, and how far class shares move towards those in
            another order.
        labels_per_class: labelled nodes of each known class; -1 = all that are neither validation
            nor test.
        num_val: validation nodes, less on a small graph.
        num_test: test nodes, less on a small graph; -1 = all other nodes.

    Raises:
        InputError: a value out of its range, or too few nodes.
    """
    rng = splits.generator(split_seed, "synthetic")
    shape = {"num_nodes": num_nodes, "avg_degree": avg_degree, "homophily": homophily,
             "degree_exponent": degree_exponent, "blocks_per_class": blocks_per_class}
    shares = class_shares(num_classes, class_imbalance, rng)
    topics = class_topics(num_classes, num_features, signal, rng)
    source = clean(dcsbm(shares=shares, topics=topics, rng=rng, **shape))
    sizes = {"labels_per_class": labels_per_class, "num_val": num_val, "split_seed": split_seed}
    info = {"split_seed": split_seed, "mode": mode}
    if mode == "open_set":
        masked = splits.choose_unseen(range(num_classes), num_unseen, unseen, split_seed)
        nodes = splits.draw(source.y, masked, num_test=num_test, **sizes)
        return splits.masked_task("synthetic/open_set", source, masked, nodes, info=info)

    shares = (1 - shift) * shares + shift * rng.permutation(shares)
    replaced = class_topics(num_classes, num_features, signal, rng)
    topics = (1 - shift) * topics + shift * replaced
    target = clean(dcsbm(shares=shares, topics=topics, rng=rng, **shape))
    at_source = splits.draw(source.y, num_test=1, **sizes)
    at_target = splits.draw(target.y, num_test=num_test, **sizes)
    for graph in (source, target):
        graph.y_true = graph.y
    oracle = splits.one_graph_task("synthetic/close_set/oracle", target, at_target, num_classes,
                                   info=info)
    return ShiftTask(name="synthetic/close_set", source=source, target=target,
                     train=at_source.train, source_val=at_source.val, val=at_target.val,
                     test=at_target.test, pool=torch.arange(num_nodes), num_known=num_classes,
                     open_set=False, info=info, oracle=oracle)
