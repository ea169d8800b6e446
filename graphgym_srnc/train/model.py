"""A trained model: a method without its training graphs, which predicts and fits into one file."""
from __future__ import annotations

import contextlib
import io
import json
import os
import textwrap
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence, get_type_hints

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc import __version__, atomic, methods, seal, shifts
from graphgym_srnc.backbones import Encoder, EncoderSpec, prepare
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.data import untrusted
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.base import Method
from graphgym_srnc.options import options as options_of
from graphgym_srnc.task import HIDDEN, ShiftTask, Sizes

FORMAT = 3
"""Format of model files. Estimators and runs each had another one of number 1; 2 had no seal."""

UNSEALED = 2
"""The format without a seal, which is still read."""

UNKNOWN = "unknown"
"""Name of the unknown class."""


class Prediction(NamedTuple):
    """What a model predicts for the nodes of a graph.

    Args:
        label: the class, ``[V]``; :math:`N` is the unknown one.
        posterior: probabilities ``[V, N]`` or, in open-set shift, ``[V, N + 1]``; the likeliest
            class is ``label``.
        confidence: how sure the method is that the node is of a known class, ``[V]``, on the scale
            of its threshold.
        cluster: the cluster by the first cluster GNN, ``[V]``; None for a method without one.
        hidden: the last hidden state, ``[V, H]``, of that cluster GNN or else of the classifier.
    """

    label: Tensor
    posterior: Tensor
    confidence: Tensor
    cluster: Tensor | None
    hidden: Tensor


@dataclass(eq=False)
class TrainedModel:
    """A trained method without the graphs it was trained on.

    Args:
        method, options: the method with the modules that predictions need, and its options.
        classes: the label of each class in the order of the posterior, a number or a word; in
            open-set shift the last one is that of the unknown class, -1 or a word.
        dense: whether the target graph in training had dense features, which are scaled otherwise;
            those of any other graph are scaled as these were.
        facts: plain values that the writer of a file wants to keep beside the model.
    """

    method: Method
    options: dict[str, Any]
    classes: Sequence[int | str]
    dense: bool
    facts: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (f"TrainedModel({self.name}, {self.method.encoder.kind}: "
                f"{self.method.task.num_features} features, {len(self.classes)} classes)")

    @classmethod
    def of(cls, method: Method, task: ShiftTask, options: dict[str, Any],
           classes: Sequence[int | str], facts: dict[str, Any]) -> TrainedModel:
        """The model of a method that was trained on a task; modules of the losses are left out."""
        encoder, state = replace(method.encoder, base=None), method.state_dict()
        dense = is_dense(task.target, encoder.features)
        predictor = _rebuilt(type(method), encoder, options, task.sizes, state)
        return cls(predictor, options, classes, dense, facts)

    @property
    def name(self) -> str:
        """The name by which :func:`graphgym_srnc.methods.find` finds the method."""
        return self.method.key()

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes as text, in the order of the posterior."""
        return tuple(UNKNOWN if label == HIDDEN else str(label) for label in self.classes)

    def checked(self, graph: Data) -> Data:
        """The features and edges of a graph that is to be predicted, on the method's device.

        Raises:
            InputError: they are not what they should be, or not as many features as in training.
        """
        graph, expected = shifts.unlabelled(graph), self.method.task.num_features
        if graph.num_features != expected:
            allowed = f"{expected}, as in training"
            raise InputError("graph: x", f"{graph.num_features} features", allowed)
        graph = graph.to(self.method.threshold.device)
        if is_dense(graph, self.method.encoder.features) != self.dense:
            graph.x = graph.x.view_as(graph.x)  # the caller's tensor stays without the mark
            graph.x.dense = self.dense
        return graph

    @torch.no_grad()
    def predict(self, graph: Data) -> Prediction:
        """Predict all nodes of any graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.

        Raises:
            InputError: see :meth:`checked`.
        """
        graph, method = self.checked(graph), self.method
        scores = method.predict(graph)
        return Prediction(method.decide(scores), method.posterior(scores),
                          method.confidence(scores), *_cluster_and_hidden(method, graph))

    @torch.no_grad()
    def embedding(self, graph: Data) -> Tensor:
        """The last hidden state ``[V, H]`` of a graph that :meth:`checked` gave."""
        return _cluster_and_hidden(self.method, graph)[1]

    def save(self, path: str | os.PathLike) -> None:
        """Write the model into one file, whole or not at all.

        Raises:
            InputError: the file cannot be written.
        """
        encoders = (module for module in self.method.modules() if isinstance(module, Encoder))
        spec = vars(self.method.encoder).items()
        about = json.dumps({
            "format": FORMAT, "version": __version__, "method": self.name, "options": self.options,
            "encoder": {name: value for name, value in spec if name not in ("make", "base")},
            "registered": any(module.registered for module in encoders),
            "sizes": asdict(self.method.task), "classes": list(self.classes), "dense": self.dense,
            "facts": self.facts}, default=float)
        content = io.BytesIO()
        torch.save({"about": about, "state": self.method.state_dict()}, content)
        seal.seal(content)
        try:
            atomic.write_bytes(Path(path), content.getvalue())
        except OSError as error:
            allowed = f"a file that can be written ({error.strerror})"
            raise InputError("path", str(path), allowed) from error


def is_dense(graph: Data, features: str) -> bool:
    """Whether features are scaled as dense ones are, or, on disk, are read as such."""
    return not isinstance(prepare(graph, features).x, Sparse)


def load(path: str | os.PathLike, encoder: EncoderSpec | None = None) -> TrainedModel:
    """Read a file that :meth:`TrainedModel.save` has written, to the CPU; no code in it is run.

    Args:
        path: the file.
        encoder: used where layers are registered with GraphGym, which the file alone cannot give.

    Raises:
        InputError: there is no such file, it is damaged or of another kind, or needs ``encoder``.
    """
    with refused(path):
        about, state = _read(Path(path))
        kind, options, sizes = methods.find(about["method"]), about["options"], about["sizes"]
        classes, facts = about["classes"], about["facts"]
        _check_types(options, {option.key: option.type for option in options_of(kind)})
        _check_types(sizes, get_type_hints(Sizes))
        _check_types({"classes": classes, "facts": facts}, {"classes": list, "facts": dict})
        if not about["registered"]:
            _check_types(about["encoder"], get_type_hints(EncoderSpec))
            encoder = EncoderSpec(**about["encoder"])
        elif encoder is None:
            raise ValueError(f"its layer {about['encoder']['kind']} is registered with GraphGym, so"
                             " that only the folder of its run tells how it is made")
        method = _rebuilt(kind, encoder, options, Sizes(**sizes), state)
        if len(classes) != method.task.num_outputs:
            raise ValueError(f"{len(classes)} classes where there are {method.task.num_outputs}")
        return TrainedModel(method, options, classes, about["dense"] is True, facts)


def facts_of(path: str | os.PathLike) -> dict[str, Any]:
    """The facts, and the method as ``method``, that a file keeps beside its weights.

    Raises:
        InputError: there is no such file, or it is damaged or of another kind or format.
    """
    with refused(path):
        about, _ = _read(Path(path))
        _check_types({"facts": about["facts"]}, {"facts": dict})
        return {**about["facts"], "method": about["method"]}


@contextlib.contextmanager
def refused(path: str | os.PathLike) -> Iterator[None]:
    """Whatever goes wrong in here becomes an ``InputError`` about a model file."""
    try:
        yield
    except Exception as error:  # torch has no error of its own for a file that it did not write
        reason = "it is damaged, or of something else"
        if isinstance(error, OSError):
            reason = error.strerror
        elif isinstance(error, (TypeError, ValueError)):
            # Not of other errors: of a foreign pickle torch says how to run the code in it.
            reason = textwrap.shorten(str(error), 200)
        raise InputError("path", str(path), f"the file of a trained model ({reason})") from error


def original_labels(task: ShiftTask) -> list[int]:
    """The number of each known class in the data, and -1 for the unknown one."""
    y, y_true = (labels[task.train] for labels in
                 (task.source.y, getattr(task.source, "y_true", task.source.y)))
    known = [int(y_true[y == label][0]) for label in range(task.num_known)]
    return known + [HIDDEN] * task.open_set


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a file says of its model, and the weights."""
    found, is_sealed = untrusted.saved(atomic.regular(path).read_bytes(), "cpu")
    about = json.loads(found["about"])
    number = about["format"]
    if number not in (UNSEALED, FORMAT):
        age = "newer " * (isinstance(number, int) and number > FORMAT)
        raise ValueError(f"its format is {number}, of {age}version {about['version']}; this"
                         f" version reads format {FORMAT}")
    if is_sealed != (number == FORMAT):
        raise ValueError("it is damaged, its checksum is missing")
    return about, found["state"]


def _check_types(values: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if type(value) is not (list if types[name] is tuple else types[name]):
            raise ValueError(f"{name} is {value!r}")


def _rebuilt(kind: type[Method], encoder: EncoderSpec, options: Mapping[str, Any], sizes: Sizes,
             state: Mapping[str, Tensor]) -> Method:
    """A method that predicts by given weights; ValueError where they are not of its shapes."""
    method = kind(encoder=encoder, **options)
    # Meta tensors draw no random numbers, so that a training in another thread is not disturbed.
    # Layers of others may not know them.
    with torch.device("meta") if encoder.make is None else torch.random.fork_rng(devices=[]):
        method.build(sizes)
    expected = method.state_dict()
    for name, blank in expected.items():
        weight = state.get(name)
        if not isinstance(weight, Tensor) or weight.is_meta or not _fits(weight, blank):
            raise ValueError(f"{name} is not {blank.dtype}{list(blank.shape)}")
    method.load_state_dict({name: state[name] for name in expected}, assign=True)
    return method.eval()


def _fits(weight: Tensor, blank: Tensor) -> bool:
    """Whether a weight may take the place of an untrained one, of which size 0 means any."""
    alike = (weight.dtype, weight.layout, weight.dim()) == (blank.dtype, blank.layout, blank.dim())
    return alike and all(size in (0, found) for found, size in zip(weight.shape, blank.shape))


def _cluster_and_hidden(method: Method, graph: Data) -> tuple[Tensor | None, Tensor]:
    """Two fields of :class:`Prediction`."""
    views = method.views()
    hidden, group = views.get("cluster_gnn", views["classifier"])(graph)
    return group if "cluster_gnn" in views else None, hidden
