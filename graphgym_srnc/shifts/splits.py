"""Random choice of masked classes and nodes, and construction of tasks from them.

All randomness derives from the split seed; global random generators are not used. Errors name an
option without its shift, which ``graphgym_srnc.shifts.find`` adds.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from typing import Annotated, Any, Mapping, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.options import OneOf, Range
from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.errors import InputError

REST = -1  # value of a count option that means "all remaining nodes"
KEPT = 5  # minimum number of training labels of a class with twice as many labels
MANY_SETS = 100_000  # maximum number of sets of masked classes that are enumerated

# Number of the random stream for each purpose; no task uses two streams with the same number.
STREAMS = {
    "classes": 0,
    "nodes": 1,
    "synthetic": 2,
    "source nodes": 2,
    "arxiv_like": 3,
    "localized seeds": 3,
    "target oracle": 3,
    "period oracle": 4,
    "held-out nodes": 4,
    "example": 5,
}


class _CountOrRest(Range):
    def allows(self, value: Any) -> bool:
        return value == REST or super().allows(value)

    def __str__(self) -> str:
        return f"{super().__str__()}, or {REST} for all others"


CountOrRest = Annotated[int, _CountOrRest(1)]
SizeOrRest = Annotated[int, _CountOrRest(0)]
Split = Annotated[str, OneOf("auto", "public", "random")]


class Sizes(NamedTuple):
    """Number of validation and test nodes of a random split, and its seed."""

    num_val: int
    num_test: int
    split_seed: int


class Nodes(NamedTuple):
    """Ids of training, validation and test nodes; the oracle also trains on ``extra``."""

    train: Tensor
    val: Tensor
    test: Tensor
    extra: Tensor = torch.empty(0, dtype=torch.long)


def generator(split_seed: int, stream: str) -> np.random.RandomState:
    """Random generator for one purpose; NumPy guarantees that its stream never changes.

    ``stream`` is a key of ``STREAMS``, or any other name, whose number is a hash of the name.
    """
    if not 0 <= split_seed < 2**32:
        raise InputError("split_seed", split_seed, f"0 to {2**32 - 1}")
    by_hash = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:4], "big")
    return np.random.RandomState([split_seed, STREAMS.get(stream, by_hash)])


def shuffled(count: int, split_seed: int, stream: str) -> Tensor:
    """The numbers ``0 .. count - 1`` in the random order of a ``generator``."""
    return torch.from_numpy(generator(split_seed, stream).permutation(count))


def cut(order: Tensor, *ends: int) -> list[Tensor]:
    """Consecutive parts of an order, each sorted."""
    return [part.sort().values for part in order.tensor_split(ends)]


def cleaned(*graphs: Data) -> dict[str, int]:
    """How much was cleaned in all graphs together, by what it is."""
    return {key: sum(graph.cleaned[key] for graph in graphs) for key in graphs[0].cleaned}


def classes_of(y: Tensor) -> list[int]:
    """Sorted classes that have at least one node."""
    return y[y >= 0].unique().tolist()


def is_in(y: Tensor, classes: Sequence[int]) -> Tensor:
    """Mask ``[V]`` of the nodes of some classes."""
    return torch.isin(y, torch.tensor([*classes], dtype=torch.long))


def others(num_nodes: int, nodes: Tensor) -> Tensor:
    """Ids of all nodes that are not in ``nodes``."""
    free = torch.ones(num_nodes, dtype=torch.bool).index_fill(0, nodes, False)
    return free.nonzero().view(-1)


def renumbered(y: Tensor, known: Sequence[int]) -> Tensor:
    """Labels ``[V]`` with known classes as ``0 .. N - 1``, others as ``N`` and -1 unchanged."""
    ordered, number = torch.tensor([*known]).sort()
    place = torch.searchsorted(ordered, y).clamp(max=len(known) - 1)
    found = torch.where(ordered[place] == y, number[place], len(known))
    return torch.where(y < 0, HIDDEN, found)


def relabelled(graph: Data, known: Sequence[int]) -> Data:
    """The graph with ``renumbered`` labels; ``y_true`` keeps the original classes."""
    return Data(
        x=graph.x,
        edge_index=graph.edge_index,
        edge_weight=graph.edge_weight,
        domain=graph.get("domain"),
        chosen_mask=graph.get("chosen_mask"),
        drawn_mask=graph.get("drawn_mask"),
        y=renumbered(graph.y, known),
        y_true=graph.y,
        num_nodes=graph.num_nodes,
    )


def choose_unseen(
    classes: Sequence[int], num_unseen: int, unseen: Sequence[int], split_seed: int
) -> list[int]:
    """Classes to mask: ``unseen`` if it is not empty, else ``num_unseen`` random classes.

    Consecutive split seeds from 0 mask every set once before a set repeats, in random order. If
    there are more than 100,000 sets, each seed draws independently.
    """
    most = len(classes) - 2
    if unseen:
        is_set = len({*unseen}) == len(unseen)
        if not is_set or not {*unseen} <= {*classes} or len(unseen) > most:
            raise InputError(
                "unseen",
                list(unseen),
                f"at most {most} different classes out of {list(classes)}, two stay known",
            )
        return sorted(unseen)
    if not 0 <= num_unseen <= most:
        raise InputError(
            "num_unseen",
            num_unseen,
            f"0 to {most}, since two of {len(classes)} classes must stay known",
        )
    count = math.comb(len(classes), num_unseen)
    if count > MANY_SETS:
        order = generator(split_seed, "classes").permutation(list(classes))
        return sorted(int(c) for c in order[:num_unseen])
    turn, position = divmod(split_seed, count)
    chosen = int(generator(turn, "masked sets").permutation(count)[position])
    sets = itertools.combinations(sorted(classes), num_unseen)
    return list(next(itertools.islice(sets, chosen, None)))


def column(mask: Tensor, split_seed: int) -> Tensor:
    """Mask ``[V]`` of the selected public split out of ``[V, K]``, or the only one."""
    return mask if mask.dim() == 1 else mask[:, split_seed % mask.size(1)]


def public(
    data: Data, split: str, split_seed: int, name: str
) -> tuple[Tensor | None, Tensor | None]:
    """The data set's own validation and test nodes; None for both if they are to be drawn."""
    has_public = "val_mask" in data and "test_mask" in data
    if split == "public" and not has_public:
        raise InputError.plain(
            "split", f"{name} has no public validation and test nodes", "Set split to random"
        )
    if split == "random" or not has_public:
        return None, None
    masks = (column(mask, split_seed) for mask in (data.val_mask, data.test_mask))
    val, test = ((mask & (data.y >= 0)).nonzero().view(-1) for mask in masks)
    return val, test


def draw(
    y: Tensor,
    unseen: Sequence[int],
    labels_per_class: int,
    sizes: Sizes,
    val: Tensor | None = None,
    test: Tensor | None = None,
) -> Nodes:
    """Draw the labelled nodes of each class, and the validation and test nodes that are not given.

    The first nodes of each class in a random order are labelled, so they do not depend on which
    classes are masked. Validation and test nodes come in another order: the next nodes of the first
    one would lack rare classes. On a small graph, validation and test shrink in proportion, but
    test nodes get half of the room if they need it. If all remaining labels are for training, half
    of them are for validation and test at most, and a class keeps :data:`KEPT` labels for training,
    or half of them if it has fewer.

    Args:
        y: original classes, ``[V]``, -1 = unlabelled.
        unseen: masked classes.
        labels_per_class: number of labelled nodes of each known class, -1 = all that remain.
        sizes: sizes of what is not given; ``num_test`` -1 = all remaining nodes.
        val, test: given ids.
    """
    order = shuffled(len(y), sizes.split_seed, "nodes")
    free = free_nodes(y, val, test)
    if labels_per_class == REST:
        # Validation and test nodes come first in the order, so that large classes lose none here.
        kept = y.clone()
        for c in set(classes_of(y)) - set(unseen):
            nodes = order[(free & (y == c))[order]]
            kept[nodes[len(nodes) - min(KEPT, (len(nodes) + 1) // 2) :]] = HIDDEN
        val, test = draw_val_test(kept, sizes, val, test, most=int(free.sum()) // 2)
        free[torch.cat([val, test])] = False

    parts = [order[:0]]
    rare = [order[:0]]
    for c in classes_of(y):
        nodes = order[(free & (y == c))[order]]
        most = len(nodes) if labels_per_class == REST else labels_per_class
        if c in unseen:
            # A small masked class keeps half of its nodes for validation and test.
            rare.append(nodes[: min(most, len(nodes) // 2)])
            continue
        if len(nodes) < max(most, 1):
            raise InputError.plain(
                "labels_per_class",
                f"class {c} has {len(nodes)} nodes for training, fewer than {max(most, 1)}",
                "Use fewer, or mask the class with unseen",
            )
        parts.append(nodes[:most])
    train = torch.cat(parts).sort().values
    extra = torch.cat(rare).sort().values
    rest = y.index_fill(0, torch.cat([train, extra]), HIDDEN)
    if labels_per_class != REST and sizes.num_test == REST:
        test = None
    return Nodes(train, *draw_val_test(rest, sizes, val, test, stream="validation"), extra)


def draw_val_test(
    y: Tensor,
    sizes: Sizes,
    val: Tensor | None = None,
    test: Tensor | None = None,
    most: int | None = None,
    stream: str = "nodes",
) -> tuple[Tensor, Tensor]:
    """Draw what is not given of validation and test nodes, at most ``most`` of the labelled nodes.

    ``stream`` is ``validation`` after labels were drawn per class, see ``draw``.
    """
    order = shuffled(len(y), sizes.split_seed, stream)
    free = free_nodes(y, val, test)
    nodes = order[free[order]]
    (num_val, num_test, _) = sizes
    room = len(nodes) if most is None else min(most, len(nodes))
    if val is None and test is None:
        if num_test == REST:
            num_val = min(num_val, max(room // 3, 1))
        elif num_val + num_test > room:
            num_val = room * num_val // (num_val + num_test)
            # Test nodes that were asked for get half of the room.
            num_val = max(min(num_val, max(room - num_test, room - room // 2)), 1)
    if val is None:
        val = nodes[:num_val]
        nodes = nodes[num_val:]
        room -= len(val)
    if test is None:
        test = nodes[: room if num_test == REST else min(num_test, room)]
    return val.sort().values, test.sort().values


def one_graph_task(
    name: str,
    graph: Data,
    nodes: Nodes,
    num_known: int,
    *,
    open_set: bool = False,
    **options: Any,
) -> ShiftTask:
    """A task on one graph, whose pool contains all nodes except the training nodes.

    ``options`` are other fields of the task.
    """
    return ShiftTask(
        name,
        graph,
        graph,
        nodes.train,
        nodes.val,
        nodes.test,
        pool=others(graph.num_nodes, nodes.train),
        num_known=num_known,
        open_set=open_set,
        **options,
    )


def masked_task(
    name: str,
    data: Data,
    unseen: Sequence[int],
    nodes: Nodes,
    *,
    open_set: bool = True,
    class_names: Sequence[str] = (),
    info: Mapping[str, Any],
    oracle_train: Tensor | None = None,
    **options: Any,
) -> ShiftTask:
    """A task on one graph whose classes ``unseen`` are relabelled as unknown, with its oracle.

    ``data`` has the original classes, and ``class_names`` their names. By default only a task in
    open-set shift has an oracle, which trains on ``nodes.train`` and ``nodes.extra``. ``options``
    are ``val_may_teach`` and ``scored``.
    """
    classes = classes_of(data.y)
    known = [c for c in classes if c not in unseen]
    if open_set and oracle_train is None:
        oracle_train = torch.cat([nodes.train, nodes.extra]).sort().values
    oracle = None
    if oracle_train is not None and classes_of(data.y[oracle_train]) == classes:
        oracle = masked_task(
            f"{name}/oracle",
            data,
            (),
            nodes._replace(train=oracle_train),
            open_set=False,
            class_names=class_names,
            info=info,
            **options,
        )
    masking = {"unseen": [c for c in classes if c not in known], "cleaned": dict(data.cleaned)}
    return one_graph_task(
        name,
        relabelled(data, known),
        nodes,
        len(known),
        open_set=open_set,
        class_names=tuple(class_names[c] for c in known) if class_names else (),
        info={**masking, **info},
        oracle=oracle,
        **options,
    )


def free_nodes(y: Tensor, val: Tensor | None, test: Tensor | None) -> Tensor:
    """Mask ``[V]`` of labelled nodes that are neither validation nor test nodes."""
    free = y >= 0
    for nodes in (val, test):
        if nodes is not None:
            free[nodes] = False
    return free
