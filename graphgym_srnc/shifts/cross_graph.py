"""Shift between graphs: one graph is labelled, another with the same features is not; classes may be masked as well."""
from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from graphgym_srnc.data import citation, datasets, files
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits
from graphgym_srnc.task import ShiftTask


def build(*, name: str = "", root: str = "", split_seed: int = 0, source: str = "acmv9", target: str = "citationv1",
          two_labels: str = "first", val_share: float = 0.2, labels_per_class: int = -1, num_val: int = 0, open_set: bool = False,
          num_unseen: int = 0, unseen: list[int] = [], drop_nodes: bool = False) -> ShiftTask:  # noqa: B006
    """Train on one graph, predict another (the citation benchmark of cross-network classification, and a user's own pairs).

    A random ``val_share`` of the labelled source nodes is held out as ``source_val``; the others, or ``labels_per_class`` of each class,
    are the training nodes. By default no target label is used before the test: the held-out source nodes serve as validation nodes
    too, and every labelled target node is a test node. The pool holds all target nodes. The oracle trains on 60 % of the labelled
    target nodes, with every class visible, validates on 20 % and is tested on the rest.

    A node of a masked class, and of a class that only the target has, is unknown. Such source nodes are not trained on; they stay
    in the source graph, and those held out help to cut the threshold of the unknown, unless ``drop_nodes`` takes them out.

    Args:
        name: ignored.
        root: data folder.
        split_seed: decides which classes are masked and which nodes are drawn.
        source: the labelled graph: ``acmv9``, ``citationv1``, ``dblpv7``, or a path to a graph as the shift ``file`` reads it: ``.pt``,
            ``.npz`` or a folder of tables. A split in the file is not used.
        target: the graph to predict, named in the same way.
        two_labels: in a citation network, a paper with two labels has the ``first`` one, or none (``drop``).
        val_share: share of the labelled source nodes that is held out, from 0 to below 1; 0 needs ``num_val``.
        labels_per_class: training nodes of each known class; -1 = all labelled source nodes that are not held out.
        num_val: validation nodes drawn from the target instead, which are not tested; 0 = the held-out source nodes.
        open_set: whether there is an unknown class even if none is masked, for classes that only the target has; masking
            implies it.
        num_unseen: number of source classes to mask, drawn from ``split_seed``.
        unseen: original ids of the classes to mask; overrides ``num_unseen``. Named labels are numbered in alphabetical order.
        drop_nodes: whether source nodes of masked classes are removed from the source graph, with their edges.

    Raises:
        InputError: unknown graph or one graph twice; features or classes do not fit; a size is not possible.
    """
    if not 0 <= val_share < 1 or (not val_share and not num_val):
        raise InputError("cross_graph.val_share", val_share, "0 .. 1, less than 1, and more than 0 unless cross_graph.num_val is")
    if labels_per_class < 1 and labels_per_class != splits.REST:
        raise InputError("cross_graph.labels_per_class", labels_per_class, "1 or more, or -1 for all others")
    if two_labels not in citation.TWO_LABELS:
        raise InputError("cross_graph.two_labels", two_labels, ", ".join(citation.TWO_LABELS))
    source, target = (path.lower() if path.lower() in citation.NODES else path for path in (source, target))
    _refuse_twins(source, target, root)
    (graph, names), (other, other_names) = (_read(role, path, root, two_labels) for role, path in (("source", source), ("target", target)))
    if graph.num_features != other.num_features:
        raise InputError("cross_graph.target", f"{target} with {other.num_features} features", f"{graph.num_features} as {source} has")
    source_y, target_y, class_names = _one_label_space(graph.y, names, other.y, other_names, target)
    of_source, of_target = (y[y >= 0].unique().tolist() for y in (source_y, target_y))
    if len(of_source) < 2:
        raise InputError("cross_graph.source", f"{source} with classes {of_source}", "two classes or more")
    private = sorted(set(of_target) - set(of_source))
    masked = _masked(of_source, private, num_unseen, unseen, split_seed)
    open_set = open_set or bool(masked)
    if private and not open_set:
        raise InputError("cross_graph.target", f"{target} with classes {private}", f"classes of {source}, which are {of_source}, or "
                         "cross_graph.open_set True, which makes the others unknown")
    hidden = sorted({*masked, *private})
    known = [c for c in of_source if c not in hidden]
    train, source_val = _draw_source(source_y, known, val_share, labels_per_class, split_seed)
    number = _numbering([*of_source, *private], known)
    at_source, at_target = (Data(x=g.x, edge_index=g.edge_index, y=number[y], y_true=y, num_nodes=g.num_nodes)
                            for g, y in ((graph, source_y), (other, target_y)))
    if drop_nodes:
        gone = torch.isin(source_y, torch.tensor(hidden, dtype=torch.long))
        at_source, train, source_val = _without(at_source, gone, train, source_val)
        if num_val == 0 and not len(source_val):
            raise InputError("cross_graph.drop_nodes", drop_nodes, "False, or a larger cross_graph.val_share: no held-out node is left")
    labelled = _shuffled(target_y, split_seed, 1)
    if not 0 <= num_val < len(labelled):
        raise InputError("cross_graph.num_val", num_val, f"0 .. {len(labelled) - 1}: {target} has {len(labelled)} labelled nodes")
    on_source = {"val": source_val, "val_graph": at_source} if num_val == 0 else {"val": labelled[:num_val].sort().values}
    info = {"source": source, "target": target, "split_seed": split_seed, "unseen": hidden,
            "cleaned": {change: graph.cleaned[change] + other.cleaned[change] for change in graph.cleaned}}
    counts = {role: g.num_two for role, g in (("source", graph), ("target", other)) if "num_two" in g}
    info |= {"two_labels": two_labels, "nodes_with_two_labels": counts} if counts else {}
    title = f"cross_graph/{Path(source).stem}-{Path(target).stem}"
    return ShiftTask(
        name=title, source=at_source, target=at_target, train=train, source_val=source_val, test=labelled[num_val:].sort().values,
        pool=torch.arange(other.num_nodes), num_known=len(known), open_set=open_set, info=info,
        class_names=tuple(class_names[c] for c in known) if class_names else (), **on_source,
        oracle=_oracle(f"{title}/oracle", other, target_y, sorted({*of_source, *private}), class_names, split_seed, info))


def _refuse_twins(source: str, target: str, root: str) -> None:
    """Refuse one graph in both roles, by name or by file."""
    same = source == target
    if not {source, target} & set(citation.NODES):
        same = _locate("source", source, root).samefile(_locate("target", target, root))
    if same:
        raise InputError("cross_graph.target", target, f"another graph than the source, {source}")


def _locate(role: str, path: str, root: str) -> Path:
    try:
        return files.locate(path, root, f"cross_graph.{role}")
    except InputError as error:
        raise InputError(error.key, path, f"{', '.join(citation.NODES)}, or {error.allowed}") from error


def _read(role: str, path: str, root: str, two_labels: str) -> tuple[Data, tuple[str, ...]]:
    """A clean graph, and names of its classes if the file has words for labels."""
    key = f"cross_graph.{role}"
    if path in citation.NODES:
        return citation.load(path, root, two_labels, key), ()
    file = _locate(role, path, root)
    if not file.is_dir() and file.suffix not in (".pt", ".npz"):
        raise InputError(key, path, ".pt, .npz, or a folder with edges, features and labels")
    try:
        fields, names = files.load(file, "", "", root)
    except InputError as error:  # the reader names the keys of the shift ``file``
        raise InputError(f"{key} {file.name}", error.value, error.allowed) from error
    data = datasets.clean(files.as_data(fields, f"{key} {file.name}"), f"{key} {file.name}")
    if not bool((data.y >= 0).any()):
        raise InputError(f"{key} {file.name}: y", "no label", "labelled nodes")
    return data, names


def _one_label_space(source_y: Tensor, names: tuple[str, ...], target_y: Tensor, other_names: tuple[str, ...],
                     target: str) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Labels of both graphs by the same numbers; words are matched, because each file numbers only its own."""
    if bool(names) != bool(other_names):
        raise InputError("cross_graph.target", f"{target} with {'words' if other_names else 'numbers'} for labels",
                         f"{'words' if names else 'numbers'}, as the source has")
    if not names:
        return source_y, target_y, ()
    merged = sorted({*names, *other_names})
    # The last entry of a table answers for -1, no label.
    return (*(torch.tensor([*map(merged.index, own), -1])[y] for y, own in ((source_y, names), (target_y, other_names))), tuple(merged))


def _masked(classes: list[int], private: list[int], num_unseen: int, unseen: list[int], split_seed: int) -> list[int]:
    """Masked classes; one that only the target has may be named too."""
    here = [c for c in unseen if c not in private]
    chosen = splits.choose_unseen(classes, 0 if unseen else num_unseen, here, split_seed, "cross_graph")
    return sorted({*chosen, *unseen})


def _shuffled(y: Tensor, split_seed: int, purpose: int) -> Tensor:
    """Labelled nodes in random order."""
    order = torch.from_numpy(splits.generator(split_seed, purpose).permutation(len(y)))
    return order[y[order] >= 0]


def _draw_source(y: Tensor, known: list[int], val_share: float, labels_per_class: int, split_seed: int) -> tuple[Tensor, Tensor]:
    """Training and held-out nodes; a node's part does not depend on the masked classes."""
    labelled = _shuffled(y, split_seed, 2)
    held_out = round(val_share * len(labelled))
    if val_share and not held_out:
        raise InputError("cross_graph.val_share", val_share, f"a share that holds out a node: {len(labelled)} source nodes have labels")
    rest, train = labelled[held_out:], []
    for c in known:
        nodes = rest[y[rest] == c]
        if len(nodes) < max(labels_per_class, 1):
            raise InputError("cross_graph.labels_per_class", labels_per_class, f"at most {len(nodes)}, the nodes that class {c} has for "
                             "training; or mask it with cross_graph.unseen")
        train.append(nodes if labels_per_class == splits.REST else nodes[:labels_per_class])
    return torch.cat(train).sort().values, labelled[:held_out].sort().values


def _numbering(classes: list[int], known: list[int]) -> Tensor:
    """Table from original classes, and -1 for none, to ``0 .. N - 1`` and ``N`` for all others."""
    number = torch.full((max(classes) + 2,), len(known))
    number[known] = torch.arange(len(known))
    number[-1] = -1
    return number


def _without(graph: Data, gone: Tensor, train: Tensor, source_val: Tensor) -> tuple[Data, Tensor, Tensor]:
    """The graph without some nodes, and the index sets in its numbers."""
    keep = ~gone
    place = keep.cumsum(0) - 1
    edges = subgraph(keep, graph.edge_index, relabel_nodes=True, num_nodes=graph.num_nodes)[0]
    smaller = Data(x=graph.x[keep], edge_index=edges, y=graph.y[keep], y_true=graph.y_true[keep], num_nodes=int(keep.sum()))
    return smaller, place[train], place[source_val[keep[source_val]]]


def _oracle(name: str, graph: Data, y: Tensor, classes: list[int], class_names: tuple[str, ...], split_seed: int,
            info: dict) -> ShiftTask | None:
    """Training, validation and test on the target with every class visible; None where a class has no training node in it."""
    labelled = _shuffled(y, split_seed, 3)
    train, val, test = (part.sort().values for part in labelled.tensor_split([int(0.6 * len(labelled)), int(0.8 * len(labelled))]))
    if y[train].unique().tolist() != classes or not len(val):
        return None
    alone = Data(x=graph.x, edge_index=graph.edge_index, y=_numbering(classes, classes)[y], y_true=y, num_nodes=graph.num_nodes)
    pool = torch.ones(graph.num_nodes, dtype=torch.bool).index_fill(0, train, False).nonzero().view(-1)
    return ShiftTask(name=name, source=alone, target=alone, train=train, val=val, test=test, pool=pool, num_known=len(classes),
                     open_set=False, class_names=class_names, info=info | {"unseen": []})
