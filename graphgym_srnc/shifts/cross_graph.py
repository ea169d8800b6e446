"""Shift between graphs: train on a labelled graph and predict another one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.options import Natural, Range
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data import catalogue, datasets, files
from graphgym_srnc.data.names import check_features, of_folder
from graphgym_srnc.data.networks import BLOG, CITATION, mag_file
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.shifts import splits
from graphgym_srnc.shifts.splits import Nodes, classes_of, relabelled
from graphgym_srnc.shifts.union import one_label_space, union

NETWORKS = {name: family for family in (CITATION, BLOG) for name in family.nodes}
# Networks of PyG that have the same features and classes within a family.
OF_PYG = [name for name in catalogue.known_names() if name.startswith(("Airports", "Twitch"))]
PUBLIC = (*NETWORKS, *catalogue.NETWORKS["mag"], *OF_PYG)

# Share of the labelled source nodes that stays unlabelled if classes are masked. If only nodes of
# masked classes were unlabelled, the index sets would reveal them.
UNLABELLED = 0.4


def build(
    *,
    name: str = "",
    root: str = "",
    split_seed: int = 0,
    source: str = "acmv9",
    target: str = "citationv1",
    val_share: Annotated[float, Range(0, 1 - UNLABELLED, "left")] = 0.2,
    num_val: Natural = 0,
    open_set: bool = False,
    num_unseen: Natural = 0,
    unseen: list[int] = [],  # noqa: B006
) -> ShiftTask:
    """Train on one graph and predict another: public networks, or your own pair of graphs.

    By default no target label is used before the test. The oracle trains on 60 % of the labelled
    target nodes with every class visible, validates on 20 % and is tested on the rest.

    Nodes of masked classes, and of classes that occur only in the target, are unknown. Held-out
    ones help to set the unknown-class threshold. If classes are masked, 40 % of the labelled source
    nodes of all classes stay unlabelled, and other nodes of masked classes leave the source.

    Args:
        name: ignored.
        root: data folder.
        split_seed: seed of the masked classes and of all sampled nodes.
        source: the labelled graph: ``acmv9``, ``citationv1``, ``dblpv7``; ``Blog1``, ``Blog2``;
            ``MAG_US``, ``MAG_CN``, ``MAG_DE``, ``MAG_FR``, ``MAG_JP`` or ``MAG_RU``; a network of
            PyG such as ``Airports/USA`` or ``Twitch/DE``; or the path of a ``.pt`` or ``.npz`` file
            or a folder of tables, in the formats of the shift ``file``. Masks are ignored. Several
            names, separated by commas, are one graph of all their nodes; its ``domain`` ``[V]`` is
            the number of the name.
        target: the graph to predict, named in the same way. Your own needs no labels; then there
            are no test scores.
        val_share: share of the labelled source nodes to hold out; 0 requires ``num_val``.
        num_val: number of untested target nodes for validation; 0 = the held-out source nodes.
        open_set: whether there is an unknown class even if no class is masked, for classes that
            occur only in the target; masking a class implies True.
        num_unseen: number of source classes to mask, drawn with ``split_seed``.
        unseen: original ids of the source classes to mask; overrides ``num_unseen``. Named labels
            are numbered in alphabetical order.

    Raises:
        InputError: a graph is unknown or used twice, graphs do not match, or a size is impossible.
    """
    source = _public_name(source)
    target = _public_name(target)
    graph, other, class_names, unread = _read_pair(source, target, root)
    of_source = classes_of(graph.y)
    if len(of_source) < 2:
        raise InputError.plain(
            "source", f"{source} has the classes {of_source} only", "Label two classes or more"
        )
    masked = splits.choose_unseen(of_source, num_unseen, unseen, split_seed)
    open_set = open_set or bool(masked)
    private = sorted({*classes_of(other.y)} - {*of_source})
    if private and not open_set:
        raise InputError.plain(
            "target",
            f"{target} has the classes {private}, which {source} does not have",
            "Set `open_set=True` to treat them as unknown",
        )
    hidden = sorted([*masked, *private])
    known = [c for c in of_source if c not in hidden]
    names = tuple(class_names[c] for c in known) if class_names else ()

    at_source, train, source_val = _split_source(graph, known, masked, val_share, split_seed)
    val, test = splits.cut(_shuffled(other.y, split_seed, "nodes"), num_val)
    info: dict[str, Any] = {
        "source": source,
        "target": target,
        "split_seed": split_seed,
        "unseen": hidden,
        "cleaned": splits.cleaned(graph, other),
    }
    if unread:
        info["unread"] = unread
    stems = "+".join(Path(part).stem for part in parts_of(source))
    title = f"cross_graph/{stems}-{Path(target).stem}"
    every = sorted({*of_source, *private})
    return ShiftTask(
        title,
        at_source,
        relabelled(other, known),
        train,
        val if num_val else source_val,
        test,
        pool=torch.arange(other.num_nodes),
        num_known=len(known),
        open_set=open_set,
        val_graph=None if num_val else at_source,
        source_val=source_val,
        class_names=names,
        info=info,
        oracle=_oracle(f"{title}/oracle", other, every, split_seed, class_names, info),
        scored=len(val) + len(test) > 0,
    )


def _read_pair(source: str, target: str, root: str) -> tuple[Data, Data, tuple[str, ...], str]:
    """The source, perhaps of several graphs, and the target, class names, and fields not read.

    All graphs have the same features and the same label space.
    """
    sources = parts_of(source)
    parts = [*sources, target]
    roles = ["source" for _ in sources] + ["target"]
    read = [_read(role, part, root) for role, part in zip(roles, parts)]
    graphs, words, unread, places = zip(*read)
    columns = [of_folder(Path(place)).words for place in places]
    width = graphs[0].num_features
    for number, (role, part, graph) in enumerate(zip(roles, parts, graphs)):
        if places[number] in places[:number]:
            raise InputError.plain(
                role,
                f"{part} is given twice, as a source or as source and target",
                "Choose different graphs",
            )
        if graph.num_features != width:
            raise InputError.plain(
                role,
                f"{part} has {graph.num_features} features, and {parts[0]} has {width}",
                "Give all graphs the same features",
            )
        check_features(columns[0], columns[number], role)
    if not classes_of(graphs[-1].y):
        words = (*words[:-1], words[0])  # a target without labels has no names
    class_names = one_label_space(graphs, words, parts)
    graph = union(graphs[:-1]) if len(sources) > 1 else graphs[0]
    return graph, graphs[-1], class_names, "; ".join(sum(unread, []))


def _split_source(
    graph: Data, known: list[int], masked: list[int], val_share: float, split_seed: int
) -> tuple[Data, Tensor, Tensor]:
    """The source with labels of known classes, its training nodes, and its held-out nodes."""
    # The role of a node does not depend on which classes are masked.
    order = _shuffled(graph.y, split_seed, "source nodes")
    held_out = round(val_share * len(order))
    val = order[:held_out].sort().values
    unlabelled = round(UNLABELLED * len(order)) if masked else 0
    annotated = order[held_out + unlabelled :]
    is_known = splits.is_in(graph.y[annotated], known)
    train = annotated[is_known].sort().values
    source = relabelled(graph, known)
    if not masked:
        return source, train, val
    keep = torch.ones(graph.num_nodes, dtype=torch.bool)
    keep[annotated] = is_known
    number = keep.cumsum(0) - 1
    return source.subgraph(keep), number[train], number[val]


def _oracle(
    name: str,
    target: Data,
    classes: list[int],
    split_seed: int,
    class_names: tuple[str, ...],
    info: dict[str, Any],
) -> ShiftTask | None:
    """The target with every class labelled; None if a class has no training node."""
    order = _shuffled(target.y, split_seed, "target oracle")
    nodes = Nodes(*splits.cut(order, int(0.6 * len(order)), int(0.8 * len(order))))
    if classes_of(target.y[nodes.train]) != classes or not len(nodes.val):
        return None
    return splits.masked_task(
        name, target, (), nodes, open_set=False, class_names=class_names, info=info | {"unseen": []}
    )


def _public_name(path: str) -> str:
    names = {name.lower(): name for name in PUBLIC}
    return ",".join(names.get(part.lower(), part) for part in parts_of(path))


def parts_of(source: str) -> list[str]:
    """The names of one or several sources, which commas separate unless a file has such a name."""
    return [source] if Path(source).expanduser().exists() else source.split(",")


def own_file(path: str, root: str, role: str) -> Path | None:
    """Where a graph of the user's own lies, a file or a folder; None of a public network.

    Of several sources it is the first one of the user's own.

    Raises:
        InputError: there is no such file; names the ``role``, source or target.
    """
    own = [part for part in parts_of(path) if _public_name(part) not in PUBLIC]
    if not own:
        return None
    try:
        return files.locate(own[0], root, role)
    except InputError as error:
        raise error.noted(f"or use one of {', '.join(PUBLIC)}") from error


def _read(role: str, path: str, root: str) -> tuple[Data, tuple[str, ...], list[str], str]:
    """A clean graph, class names if labels are text, fields not read, and the graph's place."""
    family = NETWORKS.get(path)
    if family is not None:
        return family.load(path, root, role), (), [], path
    if path in OF_PYG:
        with renamed({"name": role}):
            return datasets.load(path, root), (), [], path
    is_mag = path in catalogue.NETWORKS["mag"]
    file = mag_file(path, root, role) if is_mag else own_file(path, root, role)
    assert file is not None  # public networks have been read above
    key = f"cross_graph.{role} {file.name}"
    try:
        fields, names = files.load(file, need_labels=role == "source")
    except InputError as error:
        raise error.at(key) from error
    data = files.as_data(fields, key)
    unread = files.unread(fields, files.FIELDS)
    return data, names, [f"{unread} of {file.name}"] if unread else [], str(file.resolve())


def _shuffled(y: Tensor, split_seed: int, stream: str) -> Tensor:
    """Labelled nodes in random order."""
    order = splits.shuffled(len(y), split_seed, stream)
    return order[y[order] >= 0]
