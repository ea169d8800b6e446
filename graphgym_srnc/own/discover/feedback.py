"""Named clusters as classes of a graph folder, which the next run reads (shift ``file``)."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Collection, Mapping, NamedTuple, Sequence

import scipy.sparse as sp
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.text import aligned, counted, listed, short
from graphgym_srnc.data import folder, folder_files, read
from graphgym_srnc.data.cleaning import strided
from graphgym_srnc.data.labels import (
    ADDED,
    CHECKED,
    CHOSEN,
    DISCOVERED,
    EMPTY,
    MISSING,
    NEW_LABEL,
    SAMPLE,
    SAMPLED,
    UNKNOWN,
    cleaned,
)
from graphgym_srnc.data.names import Names, recipe_of
from graphgym_srnc.errors import ALIKE, InputError
from graphgym_srnc.own.discover import words
from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.own.sample import Sample

if TYPE_CHECKING:
    import pandas

NEAR = 0.8  # similarity of names, from 0 to 1, from which one may be a typing error of the other
SHOWN = 5  # labels of named clusters that are printed
MOST_KEPT = 1000  # nodes of a name that the next run counts again
LEAST = 5  # training nodes of a named class, as many as SRNC+ has folds of the labels


class Labels(NamedTuple):
    """Labels of nodes for the next run.

    Args:
        label: class of each node; "" = none.
        split: ``train``, ``val`` or ``test`` of each node; "" = none.
        added: nodes that the names of clusters label.
        corrected: nodes whose label a table of the user states.
        typed: those of them that had none before, and were not drawn at random.
        sampled: those of them that were drawn at random.
        changed: those of them that had another one, or none.
    """

    label: list[str]
    split: list[str]
    added: set[int]
    corrected: Sequence[int] = ()
    typed: Collection[int] = ()
    sampled: Collection[int] = ()
    changed: Collection[int] = ()


def in_words(name: str) -> str:
    """A class name that is no number, since the next run reads numbers as original labels."""
    return f"class {name}" if name.lstrip("-").isdecimal() else name


def parse_names(given: Sequence[str]) -> dict[str, str]:
    """Names by number of the new cluster or part, from words such as ``3=graph theory``.

    Raises:
        InputError: a word has no number or repeats one, or see :func:`check_name`.
    """
    names: dict[str, str] = {}
    for text in given:
        number, _, name = (side.strip() for side in text.partition("="))
        if not re.fullmatch(r"[1-9]\d*[a-z]?", number) or number in names:
            allowed = "CLUSTER=NAME with the number of a new cluster or part, once"
            raise InputError("names", text, allowed)
        check_name(name, "names", text)
        names[number] = name
    return names


def check_name(name: str, key: str, given: str) -> None:
    """Refuse the name of a new cluster that cannot be a class of the next run.

    Two clusters may share a name, which makes them one class, and a cluster may have the name of a
    known class.

    Raises:
        InputError: the name is empty, a whole number, ``unknown``, too long or not printable.
    """
    is_number = name.lstrip("+-").isdecimal()
    if name in ("", UNKNOWN) or not name.isprintable() or len(name) > 100 or is_number:
        allowed = f"a name of at most 100 characters that is neither a number nor {UNKNOWN}"
        raise InputError(key, given, allowed)


def read_labels(
    path: Path, ids: Sequence[str] | None, num_nodes: int
) -> tuple[dict[int, str], Sample]:
    """Labels by node in the column ``new_label`` of a table; "" removes a label.

    Rows with an empty cell are not read. The columns ``node`` and ``id`` have numbers of nodes and
    their ``ids``, or one of them. Without both, the only column that holds nothing but ids has
    them. Rows with a number in the column ``sample`` are of nodes that were drawn at random; there
    ``unknown`` is a class without labels.

    Raises:
        InputError: a column is missing, a row has no node, or one that is not there, a node has two
            labels, ``node`` and ``id`` disagree, or see :func:`check_name`.
    """
    every = rows = read.table(path)
    numbers = {str(node): node for node in range(num_nodes)}
    of_ids = numbers if ids is None else {name: node for node, name in enumerate(ids)}
    columns = _columns_of_nodes(rows, path, of_ids)
    rows = rows[~rows[NEW_LABEL].str.lower().isin({"", *EMPTY})]
    if rows.empty:
        message = f"{path} has no label in the column {NEW_LABEL}"
        raise InputError.plain("labels", message, "Fill in the labels to change")
    cells = {name: _without_apostrophes(rows[name]) for name in columns}
    found: dict[int, str] = {}
    of_sample: dict[int, str] = {}
    written = _without_apostrophes(rows[NEW_LABEL])
    is_drawn = [bool(cell) for cell in rows.get(SAMPLE, [""] * len(rows))]
    given, *_ = cleaned(written, NEW_LABEL)
    for place, label in enumerate(map(in_words, given)):
        names = {name: own[place] for name, own in cells.items() if own[place]}
        node = _node_of_row(names, path, numbers, of_ids)
        if label:
            check_name(label, "labels", label)
        if found.setdefault(node, label) != label:
            name = next(iter(names.values()))
            raise InputError.plain("labels", f"{path}: {name} has two labels", "Keep one of them")
        if is_drawn[place] and (label or written[place].lower() == UNKNOWN):
            of_sample[node] = label or UNKNOWN
    return found, Sample(of_sample, _skipped(every))


def _skipped(rows: pandas.DataFrame) -> int:
    """Number of rows without a label before the last one with a label, of a sample."""
    if SAMPLE not in rows:
        return 0
    of_sample = rows[rows[SAMPLE] != ""]
    has_label = ~of_sample[NEW_LABEL].str.lower().isin({"", *MISSING} - {UNKNOWN})
    before = has_label[::-1].cummax()[::-1]
    return int((before & ~has_label).sum())


def check_equal(found: Mapping[int, str], other: Mapping[int, str], file: str) -> None:
    """Refuse labels of a further file that differ from those found before.

    Raises:
        InputError: a node has two labels.
    """
    for node in found.keys() & other.keys():
        if found[node] != other[node]:
            message = (
                f"{file}: node {node} has another label, {other[node]}, than in the file before"
            )
            raise InputError.plain("labels", message, "Keep one of them")


def _node_of_row(
    names: Mapping[str, str], path: Path, numbers: Mapping[str, int], of_ids: Mapping[str, int]
) -> int:
    """The node that the filled cells of a row name, by their columns.

    Raises:
        InputError: there is none, it is not in the graph, or the cells name two.
    """
    if not names:
        message = f"{path}: a row with a label names no node"
        raise InputError.plain("labels", message, "Fill in its id, or the number of its node")
    found = {}
    for column, name in names.items():
        known = numbers if column == "node" else of_ids
        # pandas writes whole numbers beside empty cells as 12.0.
        name = name if name in known else re.sub(r"\.0+$", "", name)
        if name not in known:
            hint = "Use the nodes or ids of the predictions as text, with leading zeros"
            raise InputError.plain("labels", f"{path}: the graph has no node {name}", hint)
        found[column] = known[name]
    if len({*found.values()}) > 1:
        own = next(name for name, node in of_ids.items() if node == found["node"])
        message = f"{path}: node {names['node']} has the id {own}, not {names['id']}"
        hint = "Remove the column node, so that the ids decide, or the column id"
        raise InputError.plain("labels", message, hint)
    return next(iter(found.values()))


def _columns_of_nodes(rows: pandas.DataFrame, path: Path, of_ids: Collection[str]) -> Sequence[str]:
    """The columns of a table of labels that say which node a row is about.

    Raises:
        InputError: there is none, or no column of labels.
    """
    if NEW_LABEL not in rows:
        message = f"{path} has no column {NEW_LABEL}; its columns are {listed([*rows])}"
        raise InputError.plain("labels", message, f"Name the column of new labels {NEW_LABEL}")
    named = [name for name in ("node", "id") if name in rows]
    if named:
        return named
    every = {*of_ids, ""}
    holds = [str(name) for name in rows if name != NEW_LABEL and {*rows[name]} <= every]
    if len(holds) == 1:
        return holds
    message = f"{path}: no column holds ids of the graph; its columns are {listed([*rows])}"
    raise InputError.plain("labels", message, "Name the column of ids id")


def _without_apostrophes(cells: pandas.Series) -> list[str]:
    """Cells without the apostrophe that our tables have before what a spreadsheet would execute."""
    return [*cells.str.replace(r"^'(?=[=+@-])", "", regex=True)]


def labels(
    discovery: Discovery,
    parts: Mapping[str, Tensor],
    y: Tensor,
    corrected: Mapping[int, str] = MappingProxyType({}),
    sampled: Collection[int] = (),
) -> Labels:
    """The next run's labels: the existing ones, and some nodes of named clusters.

    As many nodes of each named cluster get labels as if it were a known class, at equal distances
    in the more typical half of the cluster, since few of these are of another class. At least
    :data:`LEAST` nodes of each name train, and at most half of a cluster gets labels. Validation
    nodes are treated alike. A named part is not labelled as its cluster.

    Validation and test nodes of no known class stay ``unknown`` outside named clusters. Inside them
    they are left out, because their class is not known.

    Args:
        discovery: the clusters, some of whose new ones have names.
        parts: nodes of ``train``, ``val`` and ``test``.
        y: classes, ``[V]``, :math:`N` for those of no known class; read at these nodes alone.
        corrected: labels by node, which replace all others; "" = none.
        sampled: nodes that were drawn at random for their labels.

    Raises:
        InputError: all nodes of a named cluster have labels.
    """
    given = {node: part for part, nodes in parts.items() for node in nodes.tolist()}
    new = {*corrected} - {*given}
    drawn = new & {*sampled}
    made = Labels([""] * len(y), [""] * len(y), set(), [*corrected], new - drawn, drawn)
    named = [new for new in discovery.proposed if new.name]
    unsure = {node for new in named for node in new.nodes.tolist()}
    classes = dict(enumerate(discovery.classes))
    for node, part in given.items():
        name = classes.get(int(y[node]), UNKNOWN)
        if name != UNKNOWN or node not in unsure:
            made.label[node] = name
            made.split[node] = part
    known = int((discovery.label < len(classes)).sum())
    shares = {
        part: int((y[parts[part]] < len(classes)).sum()) / max(known, 1)
        for part in ("train", "val")
        if part in parts
    }
    taken = {*given, *corrected}
    sizes = Counter[str]()
    for cluster in named:
        sizes[cluster.name] += len(cluster.nodes)
    for cluster in named:
        free = [node for node in cluster.reliable.tolist() if node not in taken]
        taken.update(cluster.nodes.tolist())
        if not free:
            message = f"all nodes of cluster {cluster.number} ({cluster.name}) have labels"
            raise InputError.plain("names", message, "Name another cluster")
        share = len(cluster.nodes) / sizes[cluster.name]
        _label(made, cluster.name, free, shares, math.ceil(LEAST * share))
    changed = {node for node, label in corrected.items() if made.label[node] != label}
    for node, label in corrected.items():
        made.label[node] = label
        made.split[node] = (made.split[node] or "train") if label else ""
    return made._replace(changed=changed)


def _label(
    made: Labels, name: str, nodes: Sequence[int], shares: Mapping[str, float], least: int
) -> None:
    """Label ``shares`` of the nodes of a cluster, and ``least`` or more of them for training."""
    train = max(least, round(shares.get("train", 0.0) * len(nodes)))
    val = round(shares.get("val", 0.0) * len(nodes))
    typical = nodes[: math.ceil(len(nodes) / 2)]
    chosen = _spread(typical, min(train + val, len(typical)))
    validates = {*_spread(chosen, round(len(chosen) * val / (train + val)))}
    for node in chosen:
        made.label[node] = name
        made.split[node] = "val" if node in validates else "train"
        made.added.add(node)


def _spread(nodes: Sequence[int], count: int) -> list[int]:
    """As many of the nodes at equal distances."""
    return [nodes[int((place + 0.5) * len(nodes) / count)] for place in range(count)]


def named_nodes(discovery: Discovery) -> dict[str, list[int]]:
    """Nodes of the clusters of each name, at most :data:`MOST_KEPT` at equal distances."""
    found: dict[str, list[int]] = {}
    for cluster in (new for new in discovery.proposed if new.name):
        found.setdefault(cluster.name, []).extend(cluster.nodes.tolist())
    return {name: _spread(nodes, min(len(nodes), MOST_KEPT)) for name, nodes in found.items()}


def counts(discovery: Discovery, made: Labels) -> list[str]:
    """How many nodes of each named cluster got its name as their label, and other changes."""
    lines = []
    for cluster in (new for new in discovery.proposed if new.name):
        own = made.added.intersection(cluster.nodes.tolist())
        split = [made.split[node] for node in own if made.label[node] == cluster.name]
        labelled = f"{split.count('train')} training and {split.count('val')} validation nodes"
        lines.append(f"cluster {cluster.number}: {labelled} got the label {cluster.name}")
    if made.corrected:
        names = {made.label[node] for node in made.corrected} - {"", *discovery.classes}
        new = f"; new classes: {listed(sorted(names))}" if names else ""
        lines.append(f"{counted(len(made.corrected), 'label')} as in your table{new}")
    corrected = sum(bool(made.label[node]) for node in made.corrected)
    total = sum(map(bool, made.split))
    parts = {
        "as before": total - len(made.added) - corrected,
        "typed by you": corrected,
        "from clusters": len(made.added),
    }
    found = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    return [*lines, f"{counted(total, 'label')}: {found}"]


def least_certain(discovery: Discovery, made: Labels, names: Names = Names()) -> list[str]:
    """The labels of named clusters that are most likely wrong, a line each.

    These nodes are the most like a known class, by the measure of :class:`candidates.Seeds`.
    """
    doubt = discovery.seeds.doubt
    nodes = sorted(made.added - {*made.corrected}, key=lambda node: (float(doubt[node]), node))
    if not nodes:
        return []
    lines = [["  node", "new label", discovery.seeds.measure, "title"]]
    for node in nodes[:SHOWN]:
        shown = words.shown_node(names, node)
        title = short(shown.title or shown.text, 50)
        lines.append([f"  {short(shown.id, 24)}", made.label[node], f"{doubt[node]:.2f}", title])
    text = (
        f"The least certain of these labels. If some are wrong, write a table with the columns id"
        f" and {NEW_LABEL} ({UNKNOWN} = no label), and add `labels`:"
    )
    return [text, *aligned(lines).splitlines()]


def on_near_names(made: Labels, classes: Collection[str]) -> list[str]:
    """Warnings about new classes whose name may be a typing error of another class.

    Names are compared by their letters and digits, without case. Those that differ only in digits
    are not near, nor are the names of two clusters, which stand side by side in one command.

    Args:
        made: the next run's labels.
        classes: names of the known classes.
    """
    counts = Counter(made.label)
    new = [name for name, _ in counts.most_common() if name not in {"", UNKNOWN, *classes}]
    of_clusters = {made.label[node] for node in made.added}
    others = {_letters(name): name for name in classes}
    warnings = []
    for name in new:
        letters = _letters(name)
        words = [
            word
            for word, other in others.items()
            if _without_digits(word) != _without_digits(letters)
            and not {name, other} <= of_clusters
            and _differ_by_letters(name, other)
        ]
        same = others.get(letters)
        near = difflib.get_close_matches(letters, words, 1, NEAR)
        if same or near:
            warnings.append(
                f"{name!r} ({counted(counts[name], 'label')}) becomes a new class. Did you mean"
                f" {same or others[near[0]]!r}? Then correct the name and make these labels again."
                " If it is a class of its own, do nothing."
            )
        others.setdefault(letters, name)
    return warnings


def _differ_by_letters(name: str, other: str) -> bool:
    """Whether the words that only one of two names has are alike: a typing error changes few."""
    own = name.lower().split()
    others = other.lower().split()
    rest = " ".join(word for word in own if word not in others)
    other_rest = " ".join(word for word in others if word not in own)
    return difflib.SequenceMatcher(None, rest, other_rest).ratio() >= ALIKE


def _letters(name: str) -> str:
    """Letters and digits of a name, in lower case."""
    return re.sub(r"[\W_]", "", name.lower())


def _without_digits(name: str) -> str:
    return re.sub(r"\d", "", name)


def write(
    out: Path,
    graph: Data,
    made: Labels,
    names: Names = Names(),
    overwrite: bool = False,
    source: Path | None = None,
    parent: Mapping[str, Any] | None = None,
) -> None:
    """Write a graph folder with these labels, completely or not at all.

    It also contains the recipe of the features that ``source``, the folder of the graph, contains.
    ``parent`` is what the folder keeps of the run, see ``folder.parent``. If all labels train, the
    folder has no split, so that the next run holds out labels as this one did.

    Raises:
        InputError: see :func:`graphgym_srnc.data.folder.check_place`; or it cannot be written.
    """
    x = strided(graph.x)
    weight = graph.edge_weight
    ids = names.ids or [f"node {node}" for node in range(graph.num_nodes)]
    found = folder.Graph(
        edges=graph.edge_index.numpy(),
        features=sp.csr_matrix(x.numpy()),
        words=names.words or (),
        ids=ids,
        texts=names.texts,
        labels=made.label,
        split=made.split if {"val", "test"} & {*made.split} else [""] * len(ids),
        recipe=(recipe_of(source) or None) if source else None,
        origins=origins(made, folder_files.origins(source)),
        weights=None if weight is None else weight.numpy(),
        parent=parent,
        urls=names.urls,
        dates=names.dates,
    )
    folder.write(found, out, overwrite, key="labels_out")


def origins(made: Labels, before: Mapping[int, str]) -> dict[int, str]:
    """Origin of labels by node, from that ``before`` they changed; those from the table are left
    out."""
    found = {**before} | dict.fromkeys(made.added, DISCOVERED)
    for node in made.corrected:
        if node in made.sampled or before.get(node) == SAMPLED:
            found[node] = SAMPLED
        else:
            is_chosen = node in made.typed or before.get(node) in CHOSEN
            found[node] = ADDED if is_chosen else CHECKED
    return found
