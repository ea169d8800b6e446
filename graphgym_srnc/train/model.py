"""Trained models, which predict without their training graphs and are saved to one file."""

from __future__ import annotations

import contextlib
import os
import textwrap
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence, get_type_hints

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc import __version__, methods, shifts
from graphgym_srnc.backbones import Encoder, EncoderSpec, prepare
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.core.options import options as options_of
from graphgym_srnc.core.task import HIDDEN, ShiftTask, Sizes
from graphgym_srnc.data.names import check_features
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import tensors
from graphgym_srnc.methods.shared.base import Method

FORMAT = 1
"""Format of model files; no other one is read."""

UNKNOWN = "unknown"
"""Name of the unknown class."""


class Prediction(NamedTuple):
    """Predictions of a model for the nodes of a graph.

    Args:
        label: predicted class, ``[V]``; :math:`N` is the unknown class.
        posterior: class probabilities ``[V, N]``, or ``[V, N + 1]`` in open-set shift; the most
            probable class is ``label``.
        confidence: confidence that the node is of a known class, ``[V]``, on the scale of the
            threshold.
        cluster: cluster assigned by the first cluster GNN, ``[V]``; None for a method without one.
        hidden: last hidden state, ``[V, H]``, of the cluster GNN, or of the classifier if there is
            no cluster GNN.
    """

    label: Tensor
    posterior: Tensor
    confidence: Tensor
    cluster: Tensor | None
    hidden: Tensor


@dataclass(eq=False)
class TrainedModel:
    """A trained method without its training graphs.

    Args:
        method, options: the method with the modules needed for prediction, and its options.
        classes: label of each class in the order of the posterior, an integer or a string. In
            open-set shift the last one is the unknown class, -1 or a string.
        dense: whether the target graph in training had dense features. Features of all other graphs
            are scaled in the same way.
        facts: additional plain values to store with the model.
    """

    method: Method
    options: dict[str, Any]
    classes: Sequence[int | str]
    dense: bool
    facts: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"TrainedModel({self.name}, {self.method.encoder.kind}: "
            f"{self.method.task.num_features} features, {len(self.classes)} classes)"
        )

    @classmethod
    def of(
        cls,
        method: Method,
        task: ShiftTask,
        options: dict[str, Any],
        classes: Sequence[int | str],
        facts: dict[str, Any],
    ) -> TrainedModel:
        """The model of a trained method, without the modules used only by the losses."""
        encoder, state = replace(method.encoder, base=None), method.state_dict()
        dense = is_dense(task.target, encoder.features)
        predictor = _rebuilt(type(method), encoder, options, task.sizes, state)
        return cls(predictor, options, classes, dense, facts)

    @property
    def name(self) -> str:
        """Name of the method for :func:`graphgym_srnc.methods.find`."""
        return self.method.key()

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes in the order of the posterior."""
        return tuple(UNKNOWN if label == HIDDEN else str(label) for label in self.classes)

    def checked(self, graph: Data) -> Data:
        """Validated features and edges of a graph to predict, on the device of the method.

        Raises:
            InputError: features or edges are invalid, or the number or names of the features
                differ from training.
        """
        given = getattr(graph, "feature_names", None)
        graph, expected = shifts.unlabelled(graph), self.method.task.num_features
        if graph.num_features != expected:
            message = f"the graph has {graph.num_features} features, and training had {expected}"
            raise InputError.plain("graph: x", message, "Make the same features as in training")
        check_features(self.facts.get("feature_names"), given)
        graph = graph.to(self.method.threshold.device)
        if is_dense(graph, self.method.encoder.features) != self.dense:
            graph.x = graph.x.view_as(graph.x)  # do not set the attribute on the caller's tensor
            graph.x.dense = self.dense
        return graph

    @torch.no_grad()
    def predict(self, graph: Data) -> Prediction:
        """Predict all nodes of a graph.

        Args:
            graph: a ``Data`` with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.

        Raises:
            InputError: see :meth:`checked`.
        """
        graph, method = self.checked(graph), self.method
        scores = method.predict(graph)
        return Prediction(
            method.decide(scores),
            method.posterior(scores),
            method.confidence(scores),
            *_cluster_and_hidden(method, graph),
        )

    @torch.no_grad()
    def embedding(self, graph: Data) -> Tensor:
        """Last hidden state ``[V, H]`` of a graph returned by :meth:`checked`."""
        return _cluster_and_hidden(self.method, graph)[1]

    def save(self, path: str | os.PathLike) -> None:
        """Save the model to one file. The file is written completely or not at all.

        Raises:
            InputError: the file cannot be written.
        """
        encoders = (module for module in self.method.modules() if isinstance(module, Encoder))
        spec = vars(self.method.encoder).items()
        about = {
            "format": FORMAT,
            "version": __version__,
            "method": self.name,
            "options": self.options,
            "encoder": {name: value for name, value in spec if name not in ("make", "base")},
            "registered": any(module.registered for module in encoders),
            "sizes": asdict(self.method.task),
            "classes": list(self.classes),
            "dense": self.dense,
            "facts": self.facts,
        }
        try:
            tensors.write(Path(path), about, self.method.state_dict())
        except OSError as error:
            message = f"{path} cannot be written ({error.strerror})"
            raise InputError.plain("path", message) from error


def is_dense(graph: Data, features: str) -> bool:
    """Whether the features of a graph are scaled as dense features; features on disk always are."""
    return not isinstance(prepare(graph, features).x, Sparse)


def load(path: str | os.PathLike, encoder: EncoderSpec | None = None) -> TrainedModel:
    """Load a file saved by :meth:`TrainedModel.save` to the CPU, without executing code in it.

    Args:
        path: the file.
        encoder: encoder specification; required if layers are registered with GraphGym, since the
            file does not contain them.

    Raises:
        InputError: the file does not exist, is damaged or of another kind, or needs ``encoder``.
    """
    with refused(path):
        about, state = tensors.read(path)
        if about["format"] != FORMAT:
            found = f"{about['format']!r}, written by version {about['version']}"
            raise ValueError(f"its format is {found}; this version reads format {FORMAT}")
        kind, options, sizes = methods.find(about["method"]), about["options"], about["sizes"]
        classes, facts = about["classes"], about["facts"]
        _check_types(options, {option.key: option.type for option in options_of(kind)})
        _check_types(sizes, get_type_hints(Sizes))
        _check_types({"classes": classes, "facts": facts}, {"classes": list, "facts": dict})
        if not about["registered"]:
            _check_types(about["encoder"], get_type_hints(EncoderSpec))
            encoder = EncoderSpec(**about["encoder"])
        elif encoder is None:
            raise ValueError(
                f"its layer {about['encoder']['kind']} is registered with GraphGym; "
                "load the folder of its run instead"
            )
        method = _rebuilt(kind, encoder, options, Sizes(**sizes), state)
        if len(classes) != method.task.num_outputs:
            raise ValueError(f"{len(classes)} classes instead of {method.task.num_outputs}")
        return TrainedModel(method, options, classes, about["dense"] is True, facts)


@contextlib.contextmanager
def refused(path: str | os.PathLike) -> Iterator[None]:
    """Convert any exception raised in the context to an ``InputError`` about a model file."""
    try:
        yield
    except Exception as error:  # the values of a foreign file may be anything
        reason = "it is damaged, or another kind of file"
        if isinstance(error, OSError):
            reason = str(error.strerror)
        elif isinstance(error, (TypeError, ValueError)):
            reason = textwrap.shorten(str(error), 200)
        message = f"{path} cannot be read as a trained model ({reason})"
        raise InputError.plain("path", message) from error


def original_labels(task: ShiftTask) -> list[int]:
    """Original class number of each known class, and -1 for the unknown class."""
    y, y_true = (
        labels[task.train]
        for labels in (task.source.y, getattr(task.source, "y_true", task.source.y))
    )
    known = [int(y_true[y == label][0]) for label in range(task.num_known)]
    return known + [HIDDEN] * task.open_set


def _check_types(values: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if type(value) is not (list if types[name] is tuple else types[name]):
            raise ValueError(f"{name} is {value!r}")


def _rebuilt(
    kind: type[Method],
    encoder: EncoderSpec,
    options: Mapping[str, Any],
    sizes: Sizes,
    state: Mapping[str, Tensor],
) -> Method:
    """Method with the given weights, ready to predict.

    Raises:
        ValueError: a weight is missing or has the wrong shape.
    """
    method = kind(encoder=encoder, **options)
    # Meta tensors draw no random numbers, so training in another thread is not affected. Layers of
    # other packages may not support them.
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
    """Whether a weight matches an untrained one in dtype, layout and shape (size 0 matches any)."""
    alike = (weight.dtype, weight.layout, weight.dim()) == (blank.dtype, blank.layout, blank.dim())
    return alike and all(size in (0, found) for found, size in zip(weight.shape, blank.shape))


def _cluster_and_hidden(method: Method, graph: Data) -> tuple[Tensor | None, Tensor]:
    """The fields ``cluster`` and ``hidden`` of :class:`Prediction`."""
    views = method.views()
    hidden, group = views.get("cluster_gnn", views["classifier"])(graph)
    return group if "cluster_gnn" in views else None, hidden
