"""Drawing classes and nodes from the split seed, and making the task from them.

The global random generators stay untouched. Errors name an option by its bare name, such as
``labels_per_class``; :func:`graphgym_srnc.shifts.find` puts the shift's name before it.
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
from torch_geometric.utils import subgraph

from graphgym_srnc.errors import InputError
from graphgym_srnc.options import OneOf, Range
from graphgym_srnc.task import HIDDEN, ShiftTask

REST = -1
"""Instead of a count: as many as there are."""

MANY_SETS = 100_000
"""How many sets of masked classes are taken in turn at most."""

STREAMS = {
    "classes": 0, "nodes": 1, "synthetic": 2, "source nodes": 2, "arxiv_like": 3,
    "localized seeds": 3, "target oracle": 3, "period oracle": 4, "held-out nodes": 4, "example": 5,
}
"""Numbers of the random streams by what they draw; no task draws from two of one number."""


class _CountOrRest(Range):
    def allows(self, value: Any) -> bool:
        return value == REST or super().allows(value)

    def __str__(self) -> str:
        return f"{super().__str__()}, or {REST} for all others"


CountOrRest = Annotated[int, _CountOrRest(1)]
Split = Annotated[str, OneOf("auto", "public", "random")]


class Nodes(NamedTuple):
    """Ids of training, validation and test nodes.

    ``extra`` are the labelled nodes of masked classes that only the oracle sees.
    """

    train: Tensor
    val: Tensor
    test: Tensor
    extra: Tensor = torch.empty(0, dtype=torch.long)


def generator(split_seed: int, stream: str) -> np.random.RandomState:
    """A generator of its own for each purpose, whose stream NumPy promises never to change.

    Args:
        split_seed: from 0 to 2³² - 1.
        stream: a key of :data:`STREAMS`, or any other name, which has a number by its hash.
    """
    if not 0 <= split_seed < 2 ** 32:
        raise InputError("split_seed", split_seed, f"0 .. {2 ** 32 - 1}")
    by_hash = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:4], "big")
    return np.random.RandomState([split_seed, STREAMS.get(stream, by_hash)])


def shuffled(count: int, split_seed: int, stream: str) -> Tensor:
    """The numbers ``0 .. count - 1`` in the random order of a :func:`generator`."""
    return torch.from_numpy(generator(split_seed, stream).permutation(count))


def classes_of(y: Tensor) -> list[int]:
    """The classes that have a node, sorted."""
    return y[y >= 0].unique().tolist()


def others(num_nodes: int, nodes: Tensor) -> Tensor:
    """Ids of all nodes but some."""
    free = torch.ones(num_nodes, dtype=torch.bool).index_fill(0, nodes, False)
    return free.nonzero().view(-1)


def renumbered(y: Tensor, known: Sequence[int]) -> Tensor:
    """Labels ``[V]``: known classes as ``0 .. N - 1``, others as ``N``, and -1 as it is."""
    number = torch.full((max(int(y.max()), *known) + 2,), len(known))
    number[list(known)] = torch.arange(len(known))
    number[-1] = HIDDEN
    return number[y]


def induced(graph: Data, keep: Tensor) -> Data:
    """The graph of some nodes, ``keep`` ``[V]``, and the edges between them."""
    edges, _ = subgraph(keep, graph.edge_index, relabel_nodes=True, num_nodes=graph.num_nodes)
    return Data(x=graph.x[keep], edge_index=edges, y=graph.y[keep], y_true=graph.y_true[keep],
                num_nodes=int(keep.sum()))


def choose_unseen(classes: Sequence[int], num_unseen: int, unseen: Sequence[int],
                  split_seed: int) -> list[int]:
    """The classes to mask: ``unseen`` if it names any, else ``num_unseen`` by the split seed.

    Split seeds take the sets of classes in turn, in random order: seeds from 0 on mask each set
    once before any is masked twice, so that splits are as independent as they can be. Where there
    are more than a hundred thousand sets, each seed draws one.

    Raises:
        InputError: a class that does not exist or is named twice, or fewer than two would stay.
    """
    most = len(classes) - 2
    if unseen:
        if len(set(unseen)) != len(unseen) or not set(unseen) <= set(classes):
            allowed = f"different classes out of {list(classes)}"
            raise InputError("unseen", list(unseen), allowed)
        if len(unseen) > most:
            allowed = f"at most {most} of {len(classes)} classes: two must stay"
            raise InputError("unseen", list(unseen), allowed)
        return sorted(unseen)
    if not 0 <= num_unseen <= most:
        allowed = f"0 .. {most}: two of {len(classes)} classes must stay known"
        raise InputError("num_unseen", num_unseen, allowed)
    count = math.comb(len(classes), num_unseen)
    if count > MANY_SETS:
        order = generator(split_seed, "classes").permutation(list(classes))
        return sorted(int(c) for c in order[:num_unseen])
    turn, position = divmod(split_seed, count)
    chosen = generator(turn, "masked sets").permutation(count)[position]
    return list(next(itertools.islice(itertools.combinations(sorted(classes), num_unseen),
                                      int(chosen), None)))


def too_few(labels_per_class: int, available: int, label: int) -> InputError:
    """The error for a class that has fewer nodes to train on than asked."""
    allowed = (f"at most {available}, the nodes that class {label} has for training; "
               "or mask the class by unseen")
    return InputError("labels_per_class", labels_per_class, allowed)


def public(data: Data, split: str, split_seed: int,
           name: str) -> tuple[Tensor | None, Tensor | None]:
    """The data set's own validation and test nodes; None for both where they are to be drawn.

    Args:
        data: a graph; if it has public splits, with ``val_mask`` and ``test_mask`` ``[V]`` or, one
            column a split, ``[V, K]``.
        split: ``public``, ``random``, or ``auto`` for the former where there are any.
        split_seed: chooses among several public splits.
        name: data set that errors name.

    Raises:
        InputError: ``public`` without public nodes.
    """
    has_public = "val_mask" in data and "test_mask" in data
    if split == "public" and not has_public:
        allowed = f"random: {name} has no public validation and test nodes"
        raise InputError("split", split, allowed)
    if split == "random" or not has_public:
        return None, None
    masks = (_column(mask, split_seed) for mask in (data.val_mask, data.test_mask))
    return tuple((mask & (data.y >= 0)).nonzero().view(-1) for mask in masks)


def draw(y: Tensor, unseen: Sequence[int] = (), *, labels_per_class: int, num_val: int,
         num_test: int, split_seed: int, val: Tensor | None = None,
         test: Tensor | None = None) -> Nodes:
    """Draw what is not given: labelled nodes of each class, then validation and test nodes.

    One random order of the nodes decides all, so that a class keeps its labelled nodes whichever
    classes are masked. On a small graph validation and test shrink in proportion.

    Args:
        y: original classes, ``[V]``, -1 = unlabelled.
        unseen: masked classes.
        labels_per_class: labelled nodes of each known class, -1 = all that are neither validation
            nor test.
        num_val, num_test: sizes, where ``val`` or ``test`` is not given; ``num_test`` -1 = all
            nodes left.
        split_seed: decides everything.
        val, test: fixed ids.

    Raises:
        InputError: a known class has fewer nodes than asked.
    """
    order, free = shuffled(len(y), split_seed, "nodes"), _free(y, val, test)
    if labels_per_class == REST:
        val, test = _val_test(order[free[order]], num_val, num_test, val, test, share=0.5)
        for c in set(classes_of(y)) - set(unseen):
            nodes = order[(free & (y == c))[order]]
            if len(nodes) and torch.isin(nodes, torch.cat([val, test])).all():
                # A rare class keeps a node to train on.
                val, test = val[val != nodes[0]], test[test != nodes[0]]
        free[torch.cat([val, test])] = False

    train, extra = [], []
    for c in classes_of(y):
        nodes = order[(free & (y == c))[order]]
        most = len(nodes) if labels_per_class == REST else labels_per_class
        if c in unseen:
            # A small masked class keeps half of its nodes for validation and test.
            extra.append(nodes[:min(most, len(nodes) // 2)])
        elif len(nodes) < max(most, 1):
            raise too_few(labels_per_class, len(nodes), c)
        else:
            train.append(nodes[:most])
    train, extra = torch.cat(train).sort().values, torch.cat([order[:0], *extra]).sort().values

    if labels_per_class != REST:
        rest = y.index_fill(0, torch.cat([train, extra]), HIDDEN)
        test = None if num_test == REST else test
        val, test = draw_val_test(rest, num_val=num_val, num_test=num_test, split_seed=split_seed,
                                  val=val, test=test)
    return Nodes(train, val.sort().values, test.sort().values, extra)


def draw_val_test(y: Tensor, *, num_val: int, num_test: int, split_seed: int,
                  val: Tensor | None = None, test: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Validation and test nodes out of the labelled ones, as :func:`draw` makes them."""
    order = shuffled(len(y), split_seed, "nodes")
    val, test = _val_test(order[_free(y, val, test)[order]], num_val, num_test, val, test)
    return val.sort().values, test.sort().values


def publicly_labelled(nodes: Nodes, data: Data, unseen: Sequence[int], split_seed: int,
                      name: str) -> Nodes:
    """The same split, in which the data set's own training nodes are the labelled ones.

    Raises:
        InputError: it has none, or one of them is a validation or test node.
    """
    if "train_mask" not in data:
        raise InputError("labelled", "public", f"drawn: {name} has no public training nodes")
    train = _column(data.train_mask, split_seed) & (data.y >= 0)
    if train[torch.cat([nodes.val, nodes.test])].any():
        allowed = "drawn, since drawn validation or test nodes are among the public training nodes"
        raise InputError("labelled", "public", allowed)
    masked = torch.isin(data.y, torch.tensor(unseen, dtype=torch.long))
    return nodes._replace(train=(train & ~masked).nonzero().view(-1),
                          extra=(train & masked).nonzero().view(-1))


def with_unseen(nodes: Nodes, y: Tensor, unseen: Sequence[int], kind: str, unscored: Sequence[int],
                *, num_val: int, num_test: int, split_seed: int) -> Nodes:
    """The same split with other nodes of masked classes in validation and test.

    Args:
        nodes: the split.
        y: original classes, ``[V]``, -1 = unlabelled.
        unseen: masked classes.
        kind: ``split`` (as they are), ``all`` (each one is a test node, none is in validation) or
            ``balanced`` (validation and test drawn anew, half of either from masked classes).
        unscored: masked classes without a node in validation and test.
        num_val, num_test, split_seed: of the nodes drawn anew.
    """
    ids = torch.tensor([c for c in unseen if c not in unscored], dtype=torch.long)
    never = torch.isin(y, torch.tensor(list(unscored), dtype=torch.long))
    masked = torch.isin(y, ids)
    if kind == "all":
        every = masked.nonzero().view(-1)
        val, test = (part[~masked[part]] for part in (nodes.val, nodes.test))
        nodes = nodes._replace(val=val, test=torch.cat([test, every]).sort().values,
                               extra=nodes.extra[:0])
    if kind == "balanced":
        rest = y.index_fill(0, torch.cat([nodes.train, nodes.extra]), HIDDEN)
        halves = [draw_val_test(rest.masked_fill(~side, HIDDEN), num_val=num_val // 2,
                                num_test=num_test if num_test == REST else num_test // 2,
                                split_seed=split_seed) for side in (masked, ~masked & ~never)]
        val, test = (torch.cat(parts).sort().values for parts in zip(*halves))
        nodes = nodes._replace(val=val, test=test)
    return nodes._replace(val=nodes.val[~never[nodes.val]], test=nodes.test[~never[nodes.test]])


def one_graph_task(name: str, graph: Data, nodes: Nodes, num_known: int, *, open_set: bool = False,
                   **fields: Any) -> ShiftTask:
    """A task on one graph, whose pool are all nodes but the training ones; see ShiftTask."""
    return ShiftTask(name=name, source=graph, target=graph, train=nodes.train, val=nodes.val,
                     test=nodes.test, pool=others(graph.num_nodes, nodes.train),
                     num_known=num_known, open_set=open_set, **fields)


def masked_task(name: str, data: Data, unseen: Sequence[int], nodes: Nodes, *,
                open_set: bool = True, class_names: Sequence[str] = (),
                info: Mapping[str, Any]) -> ShiftTask:
    """One graph whose masked classes are relabelled unknown, with its oracle.

    Known classes are renumbered ``0 .. N - 1`` in order; ``y_true`` keeps the original ones.

    Args:
        name: name of the task.
        data: a clean graph with original classes ``y`` ``[V]``.
        unseen: masked classes.
        nodes: the split.
        open_set: whether there is an unknown class.
        class_names: a name for each original class, by its number.
        info: what to tell beside the masked classes.
    """
    classes = classes_of(data.y)

    def make(name: str, known: list[int], nodes: Nodes, **fields: Any) -> ShiftTask:
        graph = Data(x=data.x, edge_index=data.edge_index, y=renumbered(data.y, known),
                     y_true=data.y, num_nodes=data.num_nodes)
        masking = {"unseen": [c for c in classes if c not in known], "cleaned": dict(data.cleaned)}
        names = tuple(class_names[c] for c in known) if class_names else ()
        return one_graph_task(name, graph, nodes, len(known), class_names=names,
                              info={**masking, **info}, **fields)

    every = torch.cat([nodes.train, nodes.extra]).sort().values
    oracle = None
    if open_set and classes_of(data.y[every]) == classes:
        oracle = make(f"{name}/oracle", classes, nodes._replace(train=every))
    known = [c for c in classes if c not in unseen]
    return make(name, known, nodes, open_set=open_set, oracle=oracle)


def _column(mask: Tensor, split_seed: int) -> Tensor:
    """The mask ``[V]`` of one of several public splits ``[V, K]``, or of the only one."""
    return mask if mask.dim() == 1 else mask[:, split_seed % mask.size(1)]


def _free(y: Tensor, val: Tensor | None, test: Tensor | None) -> Tensor:
    """Which labelled nodes are neither validation nor test, ``[V]``."""
    free = y >= 0
    for nodes in (val, test):
        if nodes is not None:
            free[nodes] = False
    return free


def _val_test(nodes: Tensor, num_val: int, num_test: int, val: Tensor | None, test: Tensor | None,
              share: float = 1.0) -> tuple[Tensor, Tensor]:
    """Validation and test nodes, where they are not given, out of a share of ``nodes``."""
    room = int(len(nodes) * share)
    if val is None and test is None:
        if num_test == REST:
            num_val = min(num_val, max(room // 3, 1))
        elif num_val + num_test > room:
            num_val = max(room * num_val // (num_val + num_test), 1)
    if val is None:
        val, nodes = nodes[:num_val], nodes[num_val:]
        room -= len(val)
    if test is None:
        test = nodes[:room if num_test == REST else min(num_test, room)]
    return val, test
