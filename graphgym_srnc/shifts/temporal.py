"""Shift over time: labels until one year, predictions for papers of years after it, on ogbn-arxiv or on a graph like it."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.data import arxiv_histogram, arxiv_like, datasets
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits
from graphgym_srnc.task import ShiftTask

BOUNDS = {"srnc": (2010, 2014, 2016, 2018, 2020), "eerm": (2011, 2014, 2016, 2018, 2020), "ogb": (2017, 2018, 2020)}
"""Last year of the source, of validation, and of each test period."""

NODES = (12_974, 28_151, 28_374, 51_241, 48_603)
"""Papers of the real ogbn-arxiv between the bounds of ``srnc``, as the paper counts them."""

GENERATED, REAL = "arxiv_like", "ogbn-arxiv"


def build(*, name: str = "", root: str = "", split_seed: int = 0, period: int = 1, split: str = "srnc", scale: float = 1.0,
          num_unseen: int = 0, unseen: list[int] = [], source_val_share: float = 0.2) -> ShiftTask:  # noqa: B006
    """Make a task of a graph that grows: the source is what there was at first, the target what there is at the end of a period.

    ============ ============== ============== ====================================
    split        labels until   validation     test periods
    ============ ============== ============== ====================================
    ``srnc``     2010           2011-2014      2015-2016, 2017-2018, 2019-2020
    ``eerm``     2011           2012-2014      the same
    ``ogb``      2017           2018           2019-2020
    ============ ============== ============== ====================================

    Each graph is induced on all nodes until its last year, so the source lies in the validation graph and that in the target.
    Test nodes are those of the period; all target nodes that are not in the source may serve as unlabelled ones. Graphs also carry
    ``node_year`` ``[V]``. In the oracle half of the period's nodes are labelled too, a tenth of them validate, and it is scored on
    the others.

    ``arxiv_like`` has the years and classes of the real papers, but invented features and citations. The paper counts 2,501,829
    edges for the real graph: its 1,166,243 citations with their reverses, repeated ones included, and a self-loop a node. Here
    repeated edges are merged, as on every other graph (2,315,598 remain), and a backbone adds the self-loops that it wants.

    Args:
        name: ``ogbn-arxiv``, read by the package ``ogb``; or ``arxiv_like``, made in memory from ``split_seed``.
        root: the data folder of ``ogbn-arxiv``.
        split_seed: decides masked classes, held-out nodes, the oracle, and all of ``arxiv_like``.
        period: which test period, 1 for the first.
        split: ``srnc`` (the paper's), ``eerm`` or ``ogb``: whose years.
        scale: share of the papers of each year, for ``arxiv_like`` only; each class keeps two source nodes at least.
        num_unseen: number of classes without labels, drawn from ``split_seed``; 0 = close-set shift.
        unseen: ids of the classes without labels; overrides ``num_unseen``.
        source_val_share: share of the labelled source nodes that are held out for selection on the source.

    Raises:
        InputError: a value out of its range, a data set without years or other than the real one, or a class without a source node.
    """
    for key, value, right, allowed in (
            ("split", split, split in BOUNDS, ", ".join(BOUNDS)),
            ("period", period, split not in BOUNDS or 1 <= period <= len(BOUNDS[split]) - 2, _periods(split)),
            ("scale", scale, 0 < scale <= 1, "more than 0, at most 1"),
            ("source_val_share", source_val_share, 0 <= source_val_share < 1, "0 or more, less than 1")):
        if not right:
            raise InputError(f"temporal.{key}", value, allowed)
    source_end, val_end, *ends = BOUNDS[split]
    begin, end = (val_end, *ends)[period - 1], ends[period - 1]
    data = _load(name, root, split_seed, scale, split)
    classes = data.y[data.y >= 0].unique().tolist()
    masked = splits.choose_unseen(classes, num_unseen, unseen, split_seed, "temporal")
    known = [c for c in classes if c not in masked]
    source, validation, target = (_until(last, data, known) for last in (source_end, val_end, end))
    train, source_val = _hold_out(source.y, len(known), source_val_share, split_seed)
    missing = sorted(set(range(len(known))) - set(source.y[train].tolist()))
    if missing:
        raise InputError("temporal.unseen", masked, f"also {[known[i] for i in missing]}: no node of these classes until {source_end}")
    val, test = _between(validation, source_end, val_end), _between(target, begin, end)
    for part, nodes, first, last in (("validation", val, source_end + 1, val_end), ("test", test, begin + 1, end)):
        if not len(nodes):
            raise InputError("dataset.name", name, f"a graph with {part} nodes of {first}-{last}, instead of {_histogram(data.node_year)}")
    title = f"temporal/{name}/{begin + 1}-{end}"
    names = arxiv_histogram.CLASS_NAMES if len(classes) == len(arxiv_histogram.CLASS_NAMES) else ()
    info = {"data": name, "split": split, "labels": f"until {source_end}", "validation": f"{source_end + 1}-{val_end}",
            "test": f"{begin + 1}-{end}", "scale": scale, "unseen": masked, "split_seed": split_seed, "cleaned": dict(data.cleaned)}
    return ShiftTask(
        name=title, source=source, target=target, val_graph=validation, train=train, source_val=source_val, val=val, test=test,
        pool=(target.node_year > source_end).nonzero().view(-1), num_known=len(known), open_set=bool(masked),
        class_names=tuple(names[c] for c in known) if names else (), info=info,
        oracle=_oracle(f"{title}/oracle", _until(end, data, classes), len(classes), test, source_end, names, split_seed, info))


def _periods(split: str) -> str:
    _, *ends = BOUNDS.get(split, (0,))
    return ", ".join(f"{i} ({a + 1}-{b})" for i, (a, b) in enumerate(zip(ends, ends[1:]), 1))


def _load(name: str, root: str, split_seed: int, scale: float, split: str) -> Data:
    if name == GENERATED:
        rng = splits.generator(split_seed, 3)
        known_until = min(years[0] for years in BOUNDS.values())  # of all, so that each split is one of the same graph
        graph = arxiv_like.arxiv_like(*arxiv_like.years_and_labels(scale, known_until, rng), rng=rng)
        return datasets.clean(graph, GENERATED)
    if not name or datasets.resolve(name) != ("OGB", REAL):
        raise InputError("dataset.name", name, f"{REAL} or {GENERATED}")
    if scale != 1:
        raise InputError("temporal.scale", scale, f"1 for {name}: only {GENERATED} can be made smaller")
    data = datasets.load(name, root)
    bounds = torch.tensor(BOUNDS["srnc"])
    counts = tuple(torch.bincount(torch.bucketize(data.node_year, bounds), minlength=len(bounds)).tolist())
    if split == "srnc" and counts != NODES:
        raise InputError("dataset.name", name, f"the real {REAL} with {NODES} papers until {tuple(bounds.tolist())}, instead of "
                         f"{counts}; the years here are {_histogram(data.node_year)}")
    return data


def _histogram(year: Tensor) -> str:
    return ", ".join(f"{y}: {n}" for y, n in zip(*(part.tolist() for part in year.unique(return_counts=True))))


def _until(last: int, data: Data, known: list[int]) -> Data:
    """The graph induced on all nodes until a year, with known classes renumbered in order and all others as the unknown one."""
    nodes = data.node_year <= last
    number = torch.full((int(data.y.max()) + 2,), len(known))
    number[known] = torch.arange(len(known))
    number[-1] = -1
    place = nodes.cumsum(0) - 1
    return Data(x=data.x[nodes], edge_index=place[data.edge_index[:, nodes[data.edge_index].all(0)]], y=number[data.y[nodes]],
                y_true=data.y[nodes], node_year=data.node_year[nodes], num_nodes=int(nodes.sum()))


def _between(graph: Data, after: int, until: int) -> Tensor:
    return ((graph.node_year > after) & (graph.node_year <= until) & (graph.y >= 0)).nonzero().view(-1)


def _hold_out(y: Tensor, num_known: int, share: float, split_seed: int) -> tuple[Tensor, Tensor]:
    """Training nodes and held-out ones out of the labelled nodes of known classes; the first of each class always trains."""
    order = torch.from_numpy(splits.generator(split_seed, 1).permutation(len(y)))
    order = order[(y[order] >= 0) & (y[order] < num_known)]
    first = torch.zeros(len(order), dtype=torch.bool)
    for c in range(num_known):
        first[(y[order] == c).nonzero().view(-1)[:1]] = True
    order = torch.cat([order[~first], order[first]])
    held = min(round(share * len(order)), int((~first).sum()))
    return order[held:].sort().values, order[:held].sort().values


def _oracle(name: str, graph: Data, num_classes: int, test: Tensor, source_end: int, class_names: tuple[str, ...], split_seed: int,
            info: dict[str, Any]) -> ShiftTask | None:
    """The target graph with half of the period's nodes labelled; None where they are too few, or a class would have no label."""
    order = test[torch.from_numpy(splits.generator(split_seed, 4).permutation(len(test)))]
    half, tenth = len(order) // 2, -(-len(order) // 10)
    known_before = ((graph.node_year <= source_end) & (graph.y >= 0)).nonzero().view(-1)
    train, val, rest = torch.cat([known_before, order[:half]]).sort().values, order[half:half + tenth], order[half + tenth:]
    if not len(rest) or len(graph.y[train].unique()) < num_classes:
        return None
    pool = torch.ones(graph.num_nodes, dtype=torch.bool)
    pool[train] = False
    return ShiftTask(name=name, source=graph, target=graph, train=train, val=val.sort().values, test=rest.sort().values,
                     pool=pool.nonzero().view(-1), num_known=num_classes, open_set=False, class_names=class_names,
                     info={**info, "unseen": []})
