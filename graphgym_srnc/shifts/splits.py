"""Drawing classes and nodes from the split seed, and making the task from them; the global random generators stay untouched."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.errors import InputError
from graphgym_srnc.task import ShiftTask

SPLITS = ("auto", "public", "random")
"""Where validation and test nodes come from."""

REST = -1
"""Instead of a count: as many as there are."""


@dataclass(frozen=True)
class Nodes:
    """Ids of training, validation and test nodes; ``extra`` are the labelled nodes of masked classes that only the oracle sees."""

    train: Tensor
    val: Tensor
    test: Tensor
    extra: Tensor


def generator(split_seed: int, purpose: int) -> np.random.RandomState:
    """A generator of its own for each purpose; ``RandomState``, because NumPy promises that its stream never changes."""
    if not 0 <= split_seed < 2 ** 32:
        raise InputError("split_seed", split_seed, f"0 .. {2 ** 32 - 1}")
    return np.random.RandomState([split_seed, purpose])


def choose_unseen(classes: Sequence[int], num_unseen: int, unseen: Sequence[int], split_seed: int, section: str) -> list[int]:
    """The classes to mask: ``unseen`` if it names any, else ``num_unseen`` drawn ones.

    Raises:
        InputError: a class that does not exist or is named twice, or fewer than two classes would stay.
    """
    if unseen:
        if len(set(unseen)) != len(unseen) or not set(unseen) <= set(classes):
            raise InputError(f"{section}.unseen", list(unseen), f"different classes out of {list(classes)}")
        if len(classes) - len(unseen) < 2:
            raise InputError(f"{section}.unseen", list(unseen), f"at most {len(classes) - 2} of {len(classes)} classes: two must stay")
        return sorted(unseen)
    if not 0 <= num_unseen <= len(classes) - 2:
        raise InputError(f"{section}.num_unseen", num_unseen, f"0 .. {len(classes) - 2}: two of {len(classes)} classes must stay known")
    return sorted(int(c) for c in generator(split_seed, 0).permutation(list(classes))[:num_unseen])


def check_split(split: str, section: str) -> None:
    """Refuse a kind of split that does not exist, before any data is read."""
    if split not in SPLITS:
        raise InputError(f"{section}.split", split, ", ".join(SPLITS))


def public(data: Data, split: str, split_seed: int, section: str, name: str) -> tuple[Tensor | None, Tensor | None]:
    """The data set's own validation and test nodes, or None for both where they are to be drawn.

    Args:
        data: a graph, with ``val_mask`` and ``test_mask`` ``[V]`` or, one column a split, ``[V, K]``, if it has public splits.
        split: ``public``, ``random``, or ``auto`` for the former where there are any.
        split_seed: chooses among several public splits.
        section, name: config section and data set that errors name.

    Raises:
        InputError: ``public`` without public nodes.
    """
    has_public = "val_mask" in data and "test_mask" in data
    if split == "public" and not has_public:
        raise InputError(f"{section}.split", split, f"random: {name} has no public validation and test nodes")
    if split == "random" or not has_public:
        return None, None
    masks = (mask if mask.dim() == 1 else mask[:, split_seed % mask.size(1)] for mask in (data.val_mask, data.test_mask))
    return tuple((mask & (data.y >= 0)).nonzero().view(-1) for mask in masks)


def draw(y: Tensor, unseen: Sequence[int], *, labels_per_class: int, num_val: int, num_test: int, split_seed: int, section: str,
         val: Tensor | None = None, test: Tensor | None = None) -> Nodes:
    """Draw what is not given: labelled nodes of each class, then validation and test from the other nodes of all classes.

    One random order of the nodes decides all, so that a class keeps its labelled nodes whichever classes are masked. On a small
    graph validation and test shrink in proportion.

    Args:
        y: original classes, ``[V]``, -1 = unlabelled.
        unseen: masked classes.
        labels_per_class: labelled nodes of each known class, -1 = all that are neither validation nor test.
        num_val, num_test: sizes, where ``val`` or ``test`` is not given; ``num_test`` -1 = all nodes left.
        split_seed: decides everything.
        section: config section that errors name.
        val, test: fixed ids.

    Raises:
        InputError: a size is not possible, or a known class has fewer nodes than asked.
    """
    _check_sizes(section, labels_per_class=labels_per_class, num_val=num_val, num_test=num_test)
    order = torch.from_numpy(generator(split_seed, 1).permutation(len(y)))
    free = y >= 0
    for given in (val, test):
        if given is not None:
            free[given] = False
    if labels_per_class == REST:
        val, test = _val_test(order[free[order]], num_val, num_test, val, test, share=0.5)
        for c in set(y[free].tolist()) - set(unseen):
            own = order[(free & (y == c))[order]]
            if torch.isin(own, torch.cat([val, test])).all():  # a rare class keeps a node to train on
                val, test = val[val != own[0]], test[test != own[0]]
        free[torch.cat([val, test])] = False
    train, extra = [], []
    for c in y[y >= 0].unique().tolist():
        nodes = order[(free & (y == c))[order]]
        if c in unseen:
            # A small masked class keeps half of its nodes for validation and test.
            extra.append(nodes[:len(nodes) // 2 if labels_per_class == REST else min(labels_per_class, len(nodes) // 2)])
        elif len(nodes) < max(labels_per_class, 1):
            raise InputError(f"{section}.labels_per_class", labels_per_class,
                             f"at most {len(nodes)}, the nodes that class {c} has for training; or mask it with {section}.unseen")
        else:
            train.append(nodes if labels_per_class == REST else nodes[:labels_per_class])
    train, extra = torch.cat(train), torch.cat([order[:0], *extra])
    free[torch.cat([train, extra])] = False
    if labels_per_class != REST:
        if test is not None and num_test == REST:
            free[test], test = True, None
        val, test = _val_test(order[free[order]], num_val, num_test, val, test)
    return Nodes(*(nodes.sort().values for nodes in (train, val, test, extra)))


def draw_val_test(y: Tensor, *, num_val: int, num_test: int, split_seed: int, section: str, val: Tensor | None = None,
                  test: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Validation and test nodes out of the labelled ones, as :func:`draw` makes them once the training nodes are taken."""
    _check_sizes(section, num_val=num_val, num_test=num_test)
    free = y >= 0
    for given in (val, test):
        if given is not None:
            free[given] = False
    order = torch.from_numpy(generator(split_seed, 1).permutation(len(y)))
    val, test = _val_test(order[free[order]], num_val, num_test, val, test)
    return val.sort().values, test.sort().values


def _check_sizes(section: str, **sizes: int) -> None:
    for key, value in sizes.items():
        if value < 1 and (value != REST or key == "num_val"):
            raise InputError(f"{section}.{key}", value, "1 or more" + ("" if key == "num_val" else ", or -1 for all others"))


def _val_test(nodes: Tensor, num_val: int, num_test: int, val: Tensor | None, test: Tensor | None,
              share: float = 1.0) -> tuple[Tensor, Tensor]:
    room = int(len(nodes) * share)
    if val is None and test is None:
        if num_test == REST:
            num_val = min(num_val, max(room // 3, 1))
        elif num_val + num_test > room:
            num_val = max(room * num_val // (num_val + num_test), 1)
    if val is None:
        val, nodes = nodes[:num_val].clone(), nodes[num_val:]
        room -= len(val)
    if test is None:
        test = nodes[:room if num_test == REST else min(num_test, room)]
    return val, test


def open_set_task(name: str, data: Data, unseen: Sequence[int], nodes: Nodes, *, open_set: bool = True, class_names: Sequence[str] = (),
                  info: Mapping[str, Any] | None = None) -> ShiftTask:
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
    classes = data.y[data.y >= 0].unique().tolist()
    known = [c for c in classes if c not in unseen]

    def make(name: str, shown: list[int], train: Tensor, open_set: bool, oracle: ShiftTask | None) -> ShiftTask:
        number = torch.full((max(classes) + 2,), len(shown))
        number[shown] = torch.arange(len(shown))
        number[-1] = -1
        graph = Data(x=data.x, edge_index=data.edge_index, y=number[data.y], y_true=data.y, num_nodes=data.num_nodes)
        pool = torch.ones(data.num_nodes, dtype=torch.bool)
        pool[train] = False
        return ShiftTask(
            name=name, source=graph, target=graph, train=train, val=nodes.val, test=nodes.test, pool=pool.nonzero().view(-1),
            num_known=len(shown), open_set=open_set, class_names=tuple(class_names[c] for c in shown) if class_names else (),
            info={"unseen": [c for c in classes if c not in shown], "cleaned": dict(data.cleaned), **(info or {})}, oracle=oracle)

    shown = torch.cat([nodes.train, nodes.extra]).sort().values
    all_labelled = set(data.y[shown].tolist()) == set(classes)
    oracle = make(f"{name}/oracle", classes, shown, False, None) if open_set and all_labelled else None
    return make(name, known, nodes.train, open_set, oracle)
