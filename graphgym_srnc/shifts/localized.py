"""Localised training data: the labelled nodes of each class lie around one seed node."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphgym_srnc.core.options import Count, Natural, Range
from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.data import catalogue, datasets
from graphgym_srnc.shifts import splits
from graphgym_srnc.shifts.splits import CountOrRest, Nodes, Sizes, Split

TOLERANCE = 1e-9  # personalised PageRank is iterated until its total change is below this value


def build(
    *,
    name: str = "Cora",
    root: str = "",
    split_seed: int = 0,
    restart: Annotated[float, Range(0, 1, "neither")] = 0.1,
    labels_per_class: Count = 20,
    num_unseen: Natural = 0,
    unseen: list[int] = [],  # noqa: B006
    split: Split = "auto",
    num_val: Count = 500,
    num_test: CountOrRest = 1000,
) -> ShiftTask:
    """Label the nodes of each class that are nearest to a random seed node of that class.

    This is the shift of Zhu et al., Shift-Robust GNNs, NeurIPS 2021. The training nodes of a class
    are the ``labels_per_class`` nodes with the largest personalised PageRank from the seed, on
    :math:`D^{-1}A`. If the seed reaches fewer nodes, random nodes of the class are added.

    Classes may be masked as in open-set shift. The oracle sees every class, and its training nodes
    (the same number per class) are drawn uniformly.

    Args:
        name: data set, for example ``Cora`` or ``Photo``, see ``graphgym-srnc data list``.
        root: data folder.
        split_seed: seed of the seed nodes, masked classes and sampled nodes.
        restart: probability that the random walk returns to the seed, above 0 and below 1. Larger
            values select training nodes closer to the seed.
        labels_per_class: number of training nodes of each known class.
        num_unseen: number of classes to mask, drawn with ``split_seed``; 0 = close-set shift.
        unseen: original ids of the classes to mask; overrides ``num_unseen``.
        split: validation and test nodes: the data set's own (``public``; ``split_seed`` selects one
            of several splits), drawn (``random``), or ``auto``, which uses public nodes if any.
        num_val: number of validation nodes of a random split; reduced on a small graph.
        num_test: number of test nodes of a random split, as ``num_val``; -1 = all others, always.

    Raises:
        InputError: the data set, split or a class is unknown, or there are too few nodes.
    """
    data = datasets.load(name, root)
    classes = splits.classes_of(data.y)
    masked = splits.choose_unseen(classes, num_unseen, unseen, split_seed)
    val, test = splits.public(data, split, split_seed, name)
    sizes = Sizes(num_val, num_test, split_seed)
    uniform = splits.draw(data.y, masked, labels_per_class, sizes, val, test)
    everywhere = torch.cat([uniform.train, uniform.extra]).sort().values

    y = data.y
    order = splits.shuffled(len(data.y), split_seed, "localized seeds")
    free = order[splits.free_nodes(y, val, test)[order]]
    of_class = [free[y[free] == c] for c in classes if c not in masked]
    seeds = torch.stack([nodes[0] for nodes in of_class])
    near = torch.from_numpy(personalised_pagerank(data.edge_index, len(y), seeds, restart))
    # A stable sort keeps unreachable nodes, whose share is 0, in random order.
    chosen = [
        nodes[share[nodes].argsort(descending=True, stable=True)[:labels_per_class]]
        for share, nodes in zip(near, of_class)
    ]
    train = torch.cat(chosen).sort().values

    # The task and its oracle share validation and test nodes, so neither trains on them.
    rest = y.index_fill(0, torch.cat([train, everywhere]), HIDDEN)
    public = val is not None
    test = None if num_test == splits.REST else test
    val, test = splits.draw_val_test(rest, sizes, val, test, stream="validation")
    full_name = catalogue.full_name(name)
    info = {"data": full_name, "split": "public" if public else "random", "split_seed": split_seed}
    return splits.masked_task(
        f"localized/{name}",
        data,
        masked,
        Nodes(train, val, test),
        open_set=bool(masked),
        class_names=catalogue.CLASS_NAMES.get(full_name, ()),
        info=info | {"restart": restart, "seeds": seeds.tolist()},
        oracle_train=everywhere,
    )


def personalised_pagerank(
    edge_index: Tensor, num_nodes: int, seeds: Tensor, restart: float
) -> np.ndarray:
    r"""Personalised PageRank of every node for each seed, by power iteration.

    Row :math:`s` solves :math:`\pi = a e_s + (1 - a)\, \pi D^{-1} A`: the share of steps that a
    random walk from the seed spends at each node. Returns :math:`\pi` ``[S, V]``.
    """
    row, column = edge_index.numpy()
    degree = np.bincount(row, minlength=num_nodes)
    entries = (1 - restart) / degree[row], (column, row)
    step = sp.csr_matrix(entries, shape=(num_nodes, num_nodes))
    start = np.zeros((num_nodes, len(seeds)))
    start[seeds.numpy(), np.arange(len(seeds))] = restart
    share = start
    moved = start
    reached = 0
    # A large restart probability converges before the walk reaches far nodes.
    while moved.sum(0).max() > TOLERANCE or np.count_nonzero(share) > reached:
        reached = int(np.count_nonzero(share))
        moved = step @ moved
        share = share + moved
    return share.T
