"""A shift scenario, frozen: two graphs, who is labelled, who is scored, and what stays hidden."""
from __future__ import annotations

import copy
import hashlib
import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Mapping

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric.data import Data

from graphgym_srnc.errors import InputError

_digests: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""Version and digest of feature matrices."""

HIDDEN = -1
"""Label of a node whose class a method must not see."""


@dataclass(frozen=True)
class Sizes:
    """What is left of a task where a trained method only predicts: the sizes of its modules.

    Args:
        num_features: :math:`F`.
        num_known: :math:`N`.
        open_set: whether there is an unknown class.
    """

    num_features: int
    num_known: int
    open_set: bool

    source = target = None
    """No graph."""

    @property
    def num_outputs(self) -> int:
        """Number of classes a prediction may name: ``N + 1`` in open-set shift, else ``N``."""
        return self.num_known + int(self.open_set)


@dataclass(frozen=True, eq=False)
class ShiftTask:
    """Source and target graph, index sets and the label space of one scenario.

    Both graphs carry ``x`` ``[V, F]``, ``edge_index`` ``[2, E]`` and ``y`` ``[V]`` with classes
    ``0 .. num_known - 1`` and ``num_known`` for the unknown class. They may also carry ``y_true``
    ``[V]``, the original classes, which only reports read.

    Args:
        name: the scenario and the data set, e.g. ``open_set/Cora``.
        source: the graph with labels; in open-set shift the same object as ``target``.
        target: the graph that predictions are wanted for.
        train: ids of the labelled source nodes :math:`D^s`, ``[|D^s|]``.
        val: ids of the validation nodes in ``validation``; ``train`` itself, the same object, where
            nothing is held out.
        test: ids of the scored nodes in ``target``.
        pool: ids of the unlabelled target nodes that pseudo-labels may be drawn from.
        num_known: :math:`N`, the number of classes with labels in the source.
        open_set: whether the target may hold the unknown class, whose label is :math:`N`.
        val_graph: the graph of the validation nodes; None = the target.
        source_val: ids of labelled source nodes held out for selection on the source.
        class_names: one name per known class, may be empty.
        info: what the shift wants to be known of the split, e.g. the masked classes.
        oracle: the same split with every class visible (the IID upper bound), if there is one.
        scored: False where validation and test nodes may be missing, as in a user's graph that is
            only to be predicted.

    Raises:
        InputError: an index set is empty or out of range, labels fall outside the label space, sets
            overlap, or features are not finite.
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

    def __post_init__(self) -> None:
        if self.num_known < 2:
            raise InputError("num_known", self.num_known, "at least 2 known classes")
        for role, graph in self.graphs().items():
            _check_graph(role, graph, self.num_outputs)
        owners = {"train": self.source, "source_val": self.source, "val": self.validation,
                  "test": self.target, "pool": self.target}
        may_be_empty = {"source_val"} if self.scored else {"source_val", "val", "test"}
        for key, graph in owners.items():
            nodes = getattr(self, key)
            if key not in may_be_empty and not len(nodes):
                raise InputError(key, "no node", "at least one node")
            _check_range(key, nodes, graph.num_nodes)
            if len(nodes.unique()) < len(nodes):
                raise InputError(key, "a node twice", "each node once")

        labels = self.source.y[self.train]
        missing = sorted({*range(self.num_known)} - {*labels.unique().tolist()})
        if missing:
            allowed = "a labelled node for each known class"
            raise InputError("train", f"no labelled node of class {missing}", allowed)
        if int(labels.min()) < 0 or int(labels.max()) >= self.num_known:
            allowed = f"labels in 0 .. {self.num_known - 1} on training nodes"
            raise InputError("train", int(labels.max()), allowed)
        for a, b in (("train", "val"), ("train", "test"), ("train", "pool"), ("val", "test")):
            if owners[a] is owners[b] and getattr(self, a) is not getattr(self, b):
                common = int(torch.isin(getattr(self, a), getattr(self, b)).sum())
                if common:
                    raise InputError(f"{a} and {b}", f"{common} common nodes", "disjoint sets")

    def __repr__(self) -> str:
        classes = f"{self.num_known} known classes" + " and unknown" * self.open_set
        sizes = ", ".join(f"{key} {len(getattr(self, key))}" for key in ("train", "val", "test"))
        nodes = " + ".join(str(graph.num_nodes) for graph in self.graphs().values())
        return f"ShiftTask({self.name}: {nodes} nodes, {classes}; {sizes})"

    @property
    def unknown(self) -> int | None:
        """The label of the unknown class, :math:`N`, or None in close-set shift."""
        return self.num_known if self.open_set else None

    @property
    def num_outputs(self) -> int:
        """Number of classes a prediction may name: ``N + 1`` in open-set shift, else ``N``."""
        return self.num_known + int(self.open_set)

    @property
    def num_features(self) -> int:
        """Number of features of a node, :math:`F`."""
        return self.source.x.size(1)

    @property
    def sizes(self) -> Sizes:
        """What a trained method needs of the task to predict."""
        return Sizes(self.num_features, self.num_known, self.open_set)

    @property
    def validation(self) -> Data:
        """The graph that holds the validation nodes."""
        return self.target if self.val_graph is None else self.val_graph

    def graphs(self) -> dict[str, Data]:
        """The distinct graphs by role; one object that plays two roles is listed once."""
        graphs = {"source": self.source}
        if self.target is not self.source:
            graphs["target"] = self.target
        if self.validation is not self.source and self.validation is not self.target:
            graphs["validation"] = self.validation
        return graphs

    def role_of(self, graph: Data) -> str:
        """The role in which a graph is predicted: ``source``, or else ``target``.

        ``source`` is the labelled graph of a task with two graphs. The target, a third graph of
        validation nodes and any other graph are predicted as the target is.
        """
        return "source" if graph is self.source and graph is not self.target else "target"

    @property
    def device(self) -> torch.device:
        """Where graphs and index sets lie."""
        return self.train.device

    def to(self, device: torch.device | str) -> "ShiftTask":
        """The task with graphs and index sets on a device; features on disk stay on disk."""
        moved: dict[int, Any] = {}

        def move(value: Any) -> Any:
            if id(value) in moved:
                return moved[id(value)]
            if isinstance(value, Tensor):
                new = value if getattr(value, "mapped", False) else value.to(device)
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

        return self if torch.device(device) == self.device else move(self)

    def blind(self) -> "ShiftTask":
        """The task as a method may see it: features, edges and training labels.

        Every other label is ``HIDDEN``, and there is neither ``info`` nor an oracle.
        """
        hidden: dict[int, Data] = {}
        for graph in self.graphs().values():
            y = torch.full((graph.num_nodes,), HIDDEN, dtype=torch.long, device=graph.y.device)
            if graph is self.source:
                y[self.train] = graph.y[self.train]
            hidden[id(graph)] = Data(x=graph.x, edge_index=graph.edge_index, y=y,
                                     num_nodes=graph.num_nodes)
        blind = object.__new__(ShiftTask)  # the checks would miss the labels
        kept = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        kept |= {key: hidden.get(id(kept[key])) for key in ("source", "target", "val_graph")}
        vars(blind).update(kept, info={}, oracle=None)
        return blind

    def fingerprint(self) -> str:
        """SHA-256 of graphs, labels and index sets: results of an equal one are comparable."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        graphs = self.graphs()
        roles = [next(role for role, graph in graphs.items() if graph is wanted)
                 for wanted in (self.target, self.validation)]
        digest = hashlib.sha256(f"{self.num_known},{self.open_set},{roles}".encode())
        tensors = [self.train, self.val, self.test, self.pool, self.source_val]
        for graph in graphs.values():
            tensors += [graph.edge_index, graph.y]
            digest.update(_features_digest(graph.x))
        for tensor in tensors:
            _hash(digest, tensor)
        return digest.hexdigest()


def all_finite(x: Tensor) -> bool:
    """Whether a tensor holds neither NaN nor infinity."""
    # A finite sum says so, and is found forty times faster than by a look at each number.
    return math.isfinite(float(x.sum())) or bool(torch.isfinite(x).all())


def _features_digest(x: Tensor) -> bytes:
    """SHA-256 of a feature matrix, kept, since several tasks of one data set share it."""
    version, known = 0 if x.is_inference() else x._version, _digests.get(x)
    if known is None or known[0] != version:
        digest, sparse = hashlib.sha256(), x.layout != torch.strided
        coo = x.to_sparse_coo().coalesce() if sparse else x
        for part in (coo.indices(), coo.values()) if sparse else (x,):
            _hash(digest, part)
        _digests[x] = known = version, digest.digest()
    return known[1]


def _hash(digest: Any, tensor: Tensor) -> None:
    digest.update(f"{tuple(tensor.shape)},{tensor.dtype}".encode())
    digest.update(tensor.detach().cpu().contiguous().numpy())  # by its buffer, without a copy


def _check_range(key: str, nodes: Tensor, num_nodes: int) -> None:
    if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < num_nodes:
        ends = [int(nodes.min()), int(nodes.max())]
        raise InputError(key, ends, f"node ids in 0 .. {num_nodes - 1}")


def _check_graph(role: str, graph: Data, num_outputs: int) -> None:
    if graph.num_nodes == 0 or graph.x is None or graph.x.size(0) == 0:
        allowed = "at least one node and a feature matrix x [V, F]"
        raise InputError(f"{role} graph", "no nodes or no features", allowed)
    if not all_finite(graph.x):
        raise InputError(f"{role} graph x", "NaN or Inf", "finite features")
    _check_range(f"{role} graph edge_index", graph.edge_index, graph.num_nodes)
    if graph.y is None or tuple(graph.y.shape) != (graph.num_nodes,):
        shape = None if graph.y is None else tuple(graph.y.shape)
        raise InputError(f"{role} graph y", shape, f"one label a node, shape [{graph.num_nodes}]")
    labels = [int(graph.y.min()), int(graph.y.max())]
    if labels[0] < HIDDEN or labels[1] >= num_outputs:
        allowed = f"labels in 0 .. {num_outputs - 1}, or {HIDDEN} where hidden"
        raise InputError(f"{role} graph y", labels, allowed)
