"""Immutable description of a shift scenario: graphs, node index sets and the label space."""

from __future__ import annotations

import copy
import hashlib
import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Mapping

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.core.text import listed
from graphgym_srnc.errors import InputError

MOST_CLASSES = 10_000  # scores and confusion matrices of more do not fit into memory
CHOSEN_MASK = "chosen_mask"
DRAWN_MASK = "drawn_mask"
# What a method may see of a graph.
VISIBLE = ("x", "edge_index", "edge_weight", "sample_weight", CHOSEN_MASK, DRAWN_MASK)
HIDDEN = -1  # label of a node whose class is hidden from the method
ENOUGH = 50  # number of labels that represent the nodes from which they were drawn


def covers(graph: Data, labelled: Tensor) -> bool:
    """Whether labels represent all nodes of a graph, and not only those of ``drawn_mask``.

    Then at least :data:`ENOUGH` nodes outside it have a label that was not chosen.

    Args:
        graph: a graph of a :class:`ShiftTask`.
        labelled: ids of the nodes with labels, ``[n]``.
    """
    drawn = graph.get(DRAWN_MASK)
    if drawn is None or drawn.all():
        return True
    is_other = ~drawn
    if CHOSEN_MASK in graph:
        is_other = is_other & ~graph[CHOSEN_MASK]
    return int(is_other[labelled].sum()) >= ENOUGH


class LabelSpace:
    """Classes of a task or of a trained method."""

    num_known: int
    open_set: bool
    unknown_found: bool

    @property
    def unknown(self) -> int | None:
        """Label of the unknown class, or None if there is none."""
        if self.open_set:
            return self.num_known
        return self.num_known - 1 if self.unknown_found else None

    @property
    def num_outputs(self) -> int:
        """Number of output classes: ``N + 1`` in open-set shift, else ``N``."""
        return self.num_known + int(self.open_set)


@dataclass(frozen=True)
class Sizes(LabelSpace):
    """Sizes that a trained method needs to predict without the task's graphs; see ShiftTask."""

    num_features: int
    num_known: int
    open_set: bool
    unknown_found: bool = False
    one_graph: bool = True


@dataclass(frozen=True, eq=False)
class ShiftTask(LabelSpace):
    """Source and target graph, node index sets and label space of one scenario.

    Both graphs have ``x`` ``[V, F]``, ``edge_index`` ``[2, E]`` and ``y`` ``[V]``, and may have
    ``edge_weight`` ``[E]``, ``chosen_mask`` ``[V]``: nodes that have a label because of what a
    model predicted for them, so that they are no random sample, and ``drawn_mask`` ``[V]``: nodes
    from which labels were drawn at random (default: all). Labels are ``0 .. num_known - 1``, and
    ``num_known`` for the unknown class. Graphs may also have ``y_true`` ``[V]``, the original
    classes, which only reports read.

    Args:
        name: the scenario and the data set, for example ``open_set/Cora``.
        source: the labelled graph; in open-set shift the same object as ``target``.
        target: the graph to predict.
        train: ids of the labelled source nodes, ``[n]``.
        val: ids of the validation nodes in ``validation``; ``train`` itself if none is held out.
        test: ids of the test nodes in ``target``.
        pool: ids of the unlabelled target nodes that may receive pseudo-labels.
        num_known: number ``N`` of classes with labels in the source.
        open_set: whether the target may contain the unknown class, whose label is ``N``.
        val_graph: graph of the validation nodes; None = the target.
        source_val: ids of labelled source nodes held out for selection on the source.
        class_names: names of the known classes; may be empty.
        info: information about the split for reports, for example the masked classes.
        oracle: the same split with every class visible (the IID upper bound), if there is one.
        scored: False if a graph is only predicted, so that validation and test nodes are optional.
        unknown_found: whether the last of the ``num_known`` classes is the unknown class, whose
            labels are predictions of another model, see ``graphgym_srnc.train.source_first``.
        held_out: whether the validation nodes were given as training nodes.
        val_may_teach: whether the validation nodes were drawn from the labels, so that a method
            that needs none may learn them.
        warnings: doubts about the data by code, for the record of a training.

    Attributes:
        validates_unknown: whether a validation node is of the unknown class.

    Raises:
        InputError: an index set is empty or out of range, labels are outside the label space, sets
            overlap, features are not finite, or graphs have different numbers of features.
    """

    name: str
    source: Data
    target: Data
    train: Tensor
    val: Tensor
    test: Tensor
    pool: Tensor
    num_known: int
    open_set: bool
    val_graph: Data | None = None
    source_val: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    class_names: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    oracle: "ShiftTask | None" = None
    scored: bool = True
    unknown_found: bool = False
    held_out: bool = False
    val_may_teach: bool = False
    warnings: Mapping[str, str] = field(default_factory=dict)
    validates_unknown: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if self.num_known < 2:
            raise InputError("num_known", self.num_known, "at least 2 known classes")
        check_number(self.num_known, "num_known")
        for role, graph in self.graphs().items():
            _check_graph(role, graph, self.source, self.num_outputs)
        owners = {
            "train": self.source,
            "source_val": self.source,
            "val": self.validation,
            "test": self.target,
            "pool": self.target,
        }
        for key, graph in owners.items():
            self._check_nodes(key, graph)
        self._check_training_labels()
        for a, b in (("train", "val"), ("train", "test"), ("train", "pool"), ("val", "test")):
            if owners[a] is owners[b]:
                self._check_disjoint(a, b)
        labels = self.validation.y[self.val]
        found = self.open_set and bool((labels == self.num_known).any())
        object.__setattr__(self, "validates_unknown", found)

    def _check_nodes(self, key: str, graph: Data) -> None:
        nodes = getattr(self, key)
        may_be_empty = key == "source_val" or key in ("val", "test") and not self.scored
        if not len(nodes) and not may_be_empty:
            purpose = {"val": "validation", "test": "testing", "pool": "prediction"}.get(key)
            raise InputError.plain(
                key,
                f"no node is left for {purpose or 'training'} ({len(self.train)} training"
                f" nodes, {self.num_known} known classes)",
                "Label at least two nodes per class, or lower labels_per_class",
            )
        check_ids(key, nodes, graph.num_nodes)
        if len(nodes.unique()) < len(nodes):
            raise InputError.plain(key, "a node occurs twice", "List each node once")

    def _check_disjoint(self, a: str, b: str) -> None:
        """Refuse two sets with a common node, unless they are the same object."""
        nodes = getattr(self, a)
        others = getattr(self, b)
        common = int(torch.isin(nodes, others).sum())
        if common and nodes is not others:
            raise InputError.plain(
                f"{a} and {b}", f"they have {common} nodes in common", "Make them disjoint"
            )

    def _check_training_labels(self) -> None:
        labels = self.source.y[self.train].unique().tolist()
        if labels != [*range(self.num_known)]:
            raise InputError.plain(
                "train",
                f"the labels of training nodes are {listed([*map(str, labels)])}",
                f"Label a node of each known class, from 0 to {self.num_known - 1}",
            )

    def __repr__(self) -> str:
        classes = f"{self.num_known} known classes"
        if self.open_set:
            classes += " and unknown"
        sizes = ", ".join(f"{key} {len(getattr(self, key))}" for key in ("train", "val", "test"))
        nodes = " + ".join(str(graph.num_nodes) for graph in self.graphs().values())
        return f"ShiftTask({self.name}: {nodes} nodes, {classes}; {sizes})"

    @property
    def num_features(self) -> int:
        """Number ``F`` of node features."""
        return self.source.x.size(1)

    @property
    def sizes(self) -> Sizes:
        """Sizes that a trained method needs to predict."""
        return Sizes(
            self.num_features, self.num_known, self.open_set, self.unknown_found, self.one_graph
        )

    @property
    def one_graph(self) -> bool:
        """Whether the source is the target."""
        return self.source is self.target

    @property
    def validation(self) -> Data:
        """Graph that contains the validation nodes."""
        return self.target if self.val_graph is None else self.val_graph

    def graphs(self) -> dict[str, Data]:
        """Distinct graphs by role; a graph with two roles is listed once."""
        graphs = {"source": self.source}
        if self.target is not self.source:
            graphs["target"] = self.target
        if self.validation is not self.source and self.validation is not self.target:
            graphs["validation"] = self.validation
        return graphs

    def role_of(self, graph: Data) -> str:
        """``source`` for the labelled graph of a task with two graphs, else ``target``."""
        return "source" if graph is self.source and graph is not self.target else "target"

    @property
    def device(self) -> torch.device:
        """Device of the graphs and index sets."""
        return self.train.device

    def to(self, device: torch.device | str) -> "ShiftTask":
        """The task with graphs and index sets moved to a device.

        Tensors of inference mode, which cannot be trained on, are copied.
        """
        moved: dict[int, Any] = {}

        def move(value: Any) -> Any:
            new: Any = moved.get(id(value))
            if new is not None:
                return new
            if isinstance(value, Tensor):
                new = value.to(device)
                new = new.clone() if new.is_inference() else new
            elif isinstance(value, Data):
                new = copy.copy(value).apply(move)
            elif isinstance(value, ShiftTask):
                new = copy.copy(value)
                for entry in fields(value):
                    object.__setattr__(new, entry.name, move(getattr(value, entry.name)))
            else:
                return value
            moved[id(value)] = new
            return new

        is_here = torch.device(device) == self.device and not self.train.is_inference()
        return self if is_here else move(self)

    def blind(self) -> "ShiftTask":
        """The task as a method may see it: features, edges, weights and training labels only.

        All other labels are ``HIDDEN``; ``info`` and the oracle are removed.
        """
        hidden: dict[int, Data] = {}
        for graph in self.graphs().values():
            y = torch.full((graph.num_nodes,), HIDDEN, dtype=torch.long, device=graph.y.device)
            if graph is self.source:
                y[self.train] = graph.y[self.train]
            seen = {key: graph[key] for key in VISIBLE if key in graph}
            hidden[id(graph)] = Data(**seen, y=y, num_nodes=graph.num_nodes)
        blind = object.__new__(ShiftTask)  # skip the checks, which require labels
        vars(blind).update({entry.name: getattr(self, entry.name) for entry in fields(self)})
        for key in ("source", "target", "val_graph"):
            vars(blind)[key] = hidden.get(id(getattr(self, key)))
        vars(blind).update(info={}, oracle=None)
        return blind

    def without_validation(self) -> "ShiftTask":
        """The task on one graph with the validation nodes of known classes as training nodes."""
        known = self.val[self.target.y[self.val] < self.num_known]
        train = torch.cat([self.train, known]).sort().values
        pool = self.pool[~torch.isin(self.pool, known)]
        return replace(self, train=train, val=self.val[:0], pool=pool, scored=False)

    def fingerprint(self) -> str:
        """SHA-256 of graphs, labels and index sets. Equal fingerprints mean equal tasks."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        graphs = self.graphs()
        roles = [
            next(role for role, graph in graphs.items() if graph is wanted)
            for wanted in (self.target, self.validation)
        ]
        digest = hashlib.sha256(f"{self.num_known},{self.open_set},{roles}".encode())
        tensors = [self.train, self.val, self.test, self.pool, self.source_val]
        for graph in graphs.values():
            tensors += [graph.edge_index, graph.y]
            tensors += [graph[key] for key in VISIBLE[2:] if key in graph]
            features = hashlib.sha256()
            x = graph.x
            coo = x if x.layout == torch.strided else x.to_sparse_coo().coalesce()
            for part in (x,) if coo is x else (coo.indices(), coo.values()):
                _hash(features, part)
            digest.update(features.digest())
        for tensor in tensors:
            _hash(digest, tensor)
        return digest.hexdigest()


def all_finite(x: Tensor) -> bool:
    """Whether a tensor contains neither NaN nor infinity."""
    # A finite sum implies finite entries, and is forty times faster than checking each entry.
    return math.isfinite(float(x.detach().sum())) or bool(torch.isfinite(x).all())


def check_number(classes: int, key: str) -> None:
    """Refuse more classes than any method can handle; the error names ``key``."""
    if classes > MOST_CLASSES:
        raise InputError.plain(
            key,
            f"there are {classes:,} classes, and at most {MOST_CLASSES:,} are possible",
            "Give class labels, not ids or numbers of nodes",
        )


def _hash(digest: Any, tensor: Tensor) -> None:
    digest.update(f"{tuple(tensor.shape)},{tensor.dtype}".encode())
    digest.update(tensor.detach().cpu().contiguous().numpy())  # by its buffer, without a copy


def check_ids(key: str, nodes: Tensor, num_nodes: int) -> None:
    """Refuse node ids outside a graph; the error names ``key``."""
    low, high = map(int, nodes.aminmax()) if nodes.numel() else (0, 0)
    if not 0 <= low <= high < num_nodes:
        raise InputError.plain(
            key, f"the node ids are from {low} to {high}", f"Use node ids from 0 to {num_nodes - 1}"
        )


def _check_graph(role: str, graph: Data, source: Data, num_outputs: int) -> None:
    key = f"{role} graph"
    shapes = {"x": (graph.num_nodes, source.num_features), "y": (graph.num_nodes,)}
    if graph.edge_weight is not None:
        shapes["edge_weight"] = (graph.num_edges,)
    for name, shape in shapes.items():
        found = None if graph.get(name) is None else tuple(graph[name].shape)
        if found != shape or not graph.num_nodes:
            raise InputError.plain(
                f"{key} {name}", f"it has the shape {found}", f"Give the shape {shape}"
            )
    if not all_finite(graph.x):
        raise InputError.plain(f"{key} x", "a feature is NaN or Inf", "Give finite features")
    low, high = map(int, graph.y.aminmax())
    if low < HIDDEN or high >= num_outputs:
        raise InputError.plain(
            f"{key} y",
            f"the labels are from {low} to {high}",
            f"Use labels from 0 to {num_outputs - 1}, or {HIDDEN} where hidden",
        )
    check_ids(f"{role} graph edge_index", graph.edge_index, graph.num_nodes)
