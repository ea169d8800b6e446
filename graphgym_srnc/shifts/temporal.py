"""Shift over time: labels until one year, predictions for papers of later years."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.options import Count, OneOf, Range
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data import arxiv_like, catalogue, cleaning, datasets
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits
from graphgym_srnc.shifts.splits import Nodes

# Last year (time step) of the source, of validation, and of each test period, by split.
BOUNDS = {"srnc": (2010, 2014, 2016, 2018, 2020), "elliptic": (31, 36, 42, 49)}
HELD_OUT = 0.2  # share of the labelled source nodes that is held out for selection on the source
GENERATED = "arxiv_like"
REAL = "ogbn-arxiv"
ELLIPTIC = "elliptic"


def build(
    *,
    name: str = "",
    root: str = "",
    split_seed: int = 0,
    period: Count = 1,
    split: Annotated[str, OneOf(*BOUNDS)] = "srnc",
    scale: Annotated[float, Range(0, 1, "right")] = 1.0,
) -> ShiftTask:
    """Build a task from a growing graph: the source is an early state, the target a later one.

    Each graph is induced on all nodes until its last year, and has ``node_year`` ``[V]``. Test
    nodes are those of the period. The pool contains all target nodes that are not in the source.
    The oracle also labels half of the period's nodes, and validates on a tenth and tests the rest.

    The paper counts 2,501,829 edges of the real graph: 1,166,243 citations, their reverses, and one
    self-loop per node. Without repeated edges and self-loops there are 2,315,598.

    Args:
        name: ``ogbn-arxiv``, which the package ``ogb`` loads; ``elliptic``, which PyG loads; or
            ``arxiv_like``, a synthetic graph generated from ``split_seed``.
        root: data folder.
        split_seed: seed of held-out nodes, the oracle, and the graph ``arxiv_like``.
        period: test period, 1 = the first.
        split: years of the periods, see ``BOUNDS``: ``srnc`` (the paper's), or ``elliptic`` for
            that data set, by time steps.
        scale: share of the papers of each year of ``arxiv_like``; a class keeps two source nodes.

    Raises:
        InputError: a value is impossible, the data have no years, or a class has no source node.
    """
    source_end, val_end, *ends = BOUNDS[split]
    periods = [*zip([val_end, *ends], ends)]
    if period > len(periods):
        named = (f"{i} ({begin + 1}-{end})" for i, (begin, end) in enumerate(periods, 1))
        raise InputError("period", period, ", ".join(named))
    begin, end = periods[period - 1]

    data = _load(name, root, split_seed, scale, split)
    classes = splits.classes_of(data.y)
    cleaned = dict(data.cleaned)
    years = data.node_year
    data = splits.relabelled(data, classes)
    data.node_year = years
    source, validation, target = (
        data.subgraph(data.node_year <= last) for last in (source_end, val_end, end)
    )
    train, source_val = _hold_out(source.y, len(classes), split_seed)
    val = _between(validation, source_end, val_end)
    test = _between(target, begin, end)
    names = arxiv_like.CLASS_NAMES if len(classes) == len(arxiv_like.CLASS_NAMES) else ()
    info = {
        "data": name,
        "split": split,
        "labels": f"until {source_end}",
        "validation": f"{source_end + 1}-{val_end}",
        "test": f"{begin + 1}-{end}",
        "scale": scale,
        "unseen": [],
        "split_seed": split_seed,
        "cleaned": cleaned,
    }
    title = f"temporal/{name}/{begin + 1}-{end}"
    nodes = _oracle_nodes(target, source_end, test, split_seed)
    oracle = splits.one_graph_task(
        f"{title}/oracle", target, nodes, len(classes), class_names=names, info=info
    )
    return ShiftTask(
        title,
        source,
        target,
        train,
        val,
        test,
        pool=(target.node_year > source_end).nonzero().view(-1),
        num_known=len(classes),
        open_set=False,
        val_graph=validation,
        source_val=source_val,
        class_names=names,
        info=info,
        oracle=oracle if len(nodes.test) else None,
    )


def _oracle_nodes(target: Data, source_end: int, test: Tensor, split_seed: int) -> Nodes:
    """The nodes of the oracle, which also learns half of the test nodes."""
    order = test[splits.shuffled(len(test), split_seed, "period oracle")]
    half = len(order) // 2
    tenth = math.ceil(len(order) / 10)
    labelled, val, rest = splits.cut(order, half, half + tenth)
    train = torch.cat([_between(target, 0, source_end), labelled]).sort().values
    return Nodes(train, val, rest)


def _load(name: str, root: str, split_seed: int, scale: float, split: str) -> Data:
    wanted = ELLIPTIC if split == ELLIPTIC else REAL
    if (name, wanted) == (GENERATED, REAL):
        rng = splits.generator(split_seed, "arxiv_like")
        # The first one of all splits, so that every split uses the same graph.
        papers = arxiv_like.years_and_labels(scale, BOUNDS["srnc"][0], rng)
        return cleaning.clean(arxiv_like.arxiv_like(*papers, rng), GENERATED)
    if name in ("", GENERATED) or catalogue.resolve(name) != catalogue.resolve(wanted):
        allowed = f"{REAL} or {GENERATED}, or {ELLIPTIC} with `split={ELLIPTIC!r}`"
        raise InputError("name", name, ELLIPTIC if split == ELLIPTIC else allowed)
    if scale != 1:
        raise InputError.plain(
            "scale", f"only {GENERATED} can be made smaller", f"Set scale to 1 for {name}"
        )
    return datasets.load(name, root)


def _between(graph: Data, after: int, until: int) -> Tensor:
    """Labelled nodes of the years ``after + 1`` to ``until``."""
    years = (graph.node_year > after) & (graph.node_year <= until)
    return (years & (graph.y >= 0)).nonzero().view(-1)


def _hold_out(y: Tensor, num_classes: int, split_seed: int) -> list[Tensor]:
    """Training and held-out nodes; each class keeps at least one training node."""
    order = splits.shuffled(len(y), split_seed, "nodes")
    order = order[y[order] >= 0]
    first = torch.zeros(len(order), dtype=torch.bool)
    for c in range(num_classes):
        first[(y[order] == c).nonzero().view(-1)[:1]] = True
    order = torch.cat([order[~first], order[first]])
    held, train = splits.cut(order, min(round(HELD_OUT * len(order)), int((~first).sum())))
    return [train, held]
