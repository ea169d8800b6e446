"""Trained models, which predict without their training graphs and are saved to one file."""

from __future__ import annotations

import contextlib
import os
import textwrap
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc import __version__, methods
from graphgym_srnc.backbones import Encoder, EncoderSpec, Scaling
from graphgym_srnc.core.options import check_types
from graphgym_srnc.core.task import HIDDEN, ShiftTask, Sizes
from graphgym_srnc.core.text import tell_once
from graphgym_srnc.data import describe, files
from graphgym_srnc.data.names import check_features, of_folder, other_features
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.io import records, tensors
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.validation import OutOfFold
from graphgym_srnc.shifts.cross_graph import own_file
from graphgym_srnc.shifts.given import unlabelled

FILE = "model.safetensors"  # in the folder of a run
FORMAT = 6  # of model files; no other one is read
UNKNOWN = "unknown"  # name of the unknown class
NO_WEIGHTS = (
    "the links of this graph have no weights, and those of training have. Predictions may be less"
    " accurate. Give the links weights that mean the same."
)
FEW_LINKS = (
    "Nodes of this graph have far fewer links than those of training, and predictions read the"
    " neighbours. If links to earlier nodes are left out, make the graph again with the earlier"
    " nodes in the node table."
)
FEWER = 0.5  # links per node, divided by those of training, below which nodes lack neighbours
HELD_OUT = "out_of_fold."  # before the names of tensors that are not weights

Result = dict[str, Any]


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
        facts: additional plain values to store with the model.
        result: the record of its run, or of the training of an estimator.
    """

    method: Method
    options: dict[str, Any]
    classes: Sequence[int | str]
    facts: dict[str, Any] = field(default_factory=dict)
    result: Result = field(default_factory=dict)

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
        encoder = replace(method.encoder, base=None)
        predictor = _rebuilt(type(method), encoder, options, method.task.sizes, method.state_dict())
        predictor.out_of_fold = method.out_of_fold
        if "edge weights" not in method.warnings:  # else it does not read them
            graphs = {"source": task.source, "target": task.target}
            weighted = [role for role, graph in graphs.items() if graph.edge_weight is not None]
            facts = {**facts, "weighted": weighted}
        facts = {**facts, "links_per_node": links_per_node(task.target)}
        return cls(predictor, options, classes, facts)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes in the order of the posterior."""
        return tuple(UNKNOWN if label == HIDDEN else str(label) for label in self.classes)

    @property
    def config(self) -> dict[str, Any]:
        """The config of its run; empty if it is not loaded from the folder of a run."""
        return self.result.get("config", {})

    def folder(self) -> Path | None:
        """Where the target graph of its run lies if it is the user's own, a folder or a file."""
        dataset = self.config.get("dataset", {})
        if dataset.get("format") == "cross_graph":
            return own_file(self.config["cross_graph"]["target"], dataset["dir"], "target")
        if dataset.get("format") != "file":
            return None
        return files.locate(self.config["file"]["path"] or dataset["name"], dataset["dir"], "graph")

    def read(self, path: str) -> tuple[Data, Path]:
        """Another graph without its labels, and where it lies.

        Args:
            path: see the shift ``file``.

        Raises:
            InputError: it cannot be read.
        """
        root = self.config.get("dataset", {}).get("dir", "")
        with renamed({"path": "graph"}):
            graph, source = files.load_unlabelled(path, root)
        graph = unlabelled(graph, exact=self.exact)
        graph.feature_names = of_folder(source, None, graph.num_features).words
        if self.lacks_weights(graph):
            tell_once(f"{source}: {NO_WEIGHTS}")
        return graph, source

    def lacks_weights(self, graph: Data, role: str = "target") -> bool:
        """Whether a graph has no weights of edges, and the training graph of its role had some."""
        return role in self.facts.get("weighted", ()) and graph.edge_weight is None

    def lacks_links(self, links: float) -> bool:
        """Whether this mean number of links per node is far below that of training."""
        return links < FEWER * self.facts.get("links_per_node", 0.0)

    @property
    def exact(self) -> bool:
        """Whether features of later graphs are read in double precision."""
        return any(bool(cast(Scaling, one).exact) for one in self.method.scaling.values())

    def checked(self, graph: Data, role: str = "target") -> Data:
        """Validated features and edges of a graph to predict, on the device of the method.

        The features are scaled by the statistics of the training graph of the ``role``.

        Raises:
            InputError: they are invalid, or the features differ from training.
        """
        given = getattr(graph, "feature_names", None)
        graph = unlabelled(graph, exact=self.exact)
        expected = self.method.task.num_features
        like = None
        with contextlib.suppress(InputError):
            like = self.folder()
        if graph.num_features != expected:
            raise other_features(
                "graph: x",
                f"the graph has {graph.num_features} features, and training had {expected}",
                like,
            )
        check_features(self.facts.get("feature_names"), given, like=like)
        return self.method.as_trained(graph.to(self.method.threshold.device), role)

    @torch.no_grad()
    def predict(self, graph: Data) -> Prediction:
        """Predict all nodes of a graph.

        Args:
            graph: a ``Data`` with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``.

        Raises:
            InputError: see :meth:`checked`.
        """
        graph = self.checked(graph)
        method = self.method
        _held = method.prepared(graph)  # as long as it lives, it is prepared once
        scores = method.predict(graph)
        views = method.views()
        hidden, group = views.get("cluster_gnn", views["classifier"])(graph)
        return Prediction(
            method.decide(scores),
            method.posterior(scores),
            method.confidence(scores),
            group if "cluster_gnn" in views else None,
            hidden,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model to one file, completely or not at all.

        Raises:
            InputError: the file cannot be written.
        """
        encoders = (module for module in self.method.modules() if isinstance(module, Encoder))
        spec = vars(self.method.encoder).items()
        about = {
            "format": FORMAT,
            "version": __version__,
            "method": self.method.key(),
            "options": self.options,
            "encoder": {name: value for name, value in spec if name not in ("make", "base")},
            "registered": any(module.registered for module in encoders),
            "sizes": asdict(self.method.task),
            "classes": list(self.classes),
            "facts": self.facts,
        }
        try:
            state = dict(self.method.state_dict())
            if self.method.out_of_fold is not None:
                own = self.method.out_of_fold._asdict()
                state |= {HELD_OUT + name: own[name] for name in own if own[name] is not None}
            tensors.write(Path(path), about, state)
        except OSError as error:
            raise InputError.plain(
                "path", f"{path} cannot be written ({error.strerror})"
            ) from error


def load(
    path: str | os.PathLike[str], encoder: Callable[[Result], EncoderSpec] | None = None
) -> TrainedModel:
    """Load a model to the CPU, without executing code in its file.

    Args:
        path: a file saved by :meth:`TrainedModel.save`, the folder of a finished run that kept its
            model, or that of an experiment, whose finished run with the lowest seed is taken.
        encoder: makes the encoder specification from the record of a run whose layers are
            registered with GraphGym.

    Raises:
        InputError: there is no model, it is damaged or of another kind or run, or needs
            ``encoder``.
    """
    path = Path(path)
    result = Result()
    if path.name == FILE and (path.parent / "result.json").is_file():
        path = path.parent
    if path.is_dir():
        path, result = records.finished_run(path)
        if not (path / FILE).is_file():
            raise InputError.plain(
                "path",
                f"{path} contains no saved model {FILE}",
                "Train with `save_model=True`",
                "no_model",
            )
        path /= FILE
    with refused(path):
        about, state = tensors.read(path)
        return _parsed(about, state, result, encoder)


def _parsed(
    about: Mapping[str, Any],
    state: Mapping[str, Tensor],
    result: Result,
    encoder: Callable[[Result], EncoderSpec] | None,
) -> TrainedModel:
    """The model in the content of a file; a ValueError if it is not as it must be."""
    if about["format"] != FORMAT:
        found = f"{about['format']!r}, written by version {about['version']}"
        raise ValueError(f"its format is {found}; this version reads format {FORMAT}")
    kind = methods.find(about["method"])
    options = about["options"]
    sizes = about["sizes"]
    check_types(kind, options)
    classes = about["classes"]
    facts = about["facts"]
    if not about["registered"]:
        spec = EncoderSpec(**about["encoder"])
    elif encoder is None or not result:
        raise ValueError(
            f"its layer {about['encoder']['kind']} is registered with GraphGym; "
            "load the folder of its run instead"
        )
    else:
        spec = encoder(result)
    method = _rebuilt(kind, spec, options, Sizes(**sizes), state)
    method.out_of_fold = _read_out_of_fold(state, method.task.num_known)
    if len(classes) != method.task.num_outputs:
        raise ValueError(f"{len(classes)} classes instead of {method.task.num_outputs}")
    record = _checked_record(facts, classes)
    if record:
        record |= {"method": about["method"], "backbone": about["encoder"]["kind"]}
    given = {**facts, "method": about["method"]}
    if result and any(given.get(key) != result[key] for key in ("method", "digest", "split")):
        raise ValueError("it belongs to another run")
    return TrainedModel(method, options, classes, facts, result or record)


@contextlib.contextmanager
def refused(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert any exception raised in the context to an ``InputError`` about a model file."""
    try:
        yield
    except Exception as error:  # the values of a foreign file may be anything
        reason = "it is damaged, or another kind of file"
        if isinstance(error, OSError):
            reason = str(error.strerror)
        elif isinstance(error, (TypeError, ValueError)):
            reason = textwrap.shorten(str(error), 200)
        raise InputError.plain(
            "path", f"{path} cannot be read as a trained model ({reason})"
        ) from error


def links_per_node(graph: Data) -> float:
    """Mean number of different neighbours of a node, in one or both directions."""
    ends = graph.edge_index.sort(0).values
    pairs = torch.unique(ends[0] * graph.num_nodes + ends[1])
    return 2 * len(pairs) / max(graph.num_nodes, 1)


def original_labels(task: ShiftTask) -> list[int]:
    """Original class number of each known class, and -1 for the unknown class."""
    known = describe.original_labels(task)
    return [*known, HIDDEN] if task.open_set else known


def _checked_record(facts: Mapping[str, Any], classes: Sequence[int | str]) -> Result:
    """The record of a training without a run, after a check of what is shown from a file."""
    words = facts.get("feature_names")
    for name in (*classes, *(words or ()), *facts.get("recipes", []), *facts.get("weighted", [])):
        if type(name) not in (int, str):
            raise ValueError(f"the name {name!r:.50} is not text")
        str(name).encode()  # a lone surrogate is no text
    if type(facts.get("links_per_node", 0.0)) is not float:
        raise ValueError("its number of links per node is no number")
    # Only the record of a run says where data lies.
    record = {key: value for key, value in (facts.get("record") or {}).items() if key != "config"}
    records.warnings_of(record)
    return record


def _read_out_of_fold(state: Mapping[str, Tensor], num_known: int) -> OutOfFold | None:
    """The predictions of held-out labels in a file; a ValueError if one is not as it must be."""
    fields = {name[len(HELD_OUT) :]: state[name] for name in state if name.startswith(HELD_OUT)}
    if not fields:
        return None
    found = OutOfFold(**fields)
    ids = torch.empty(len(found.nodes), dtype=torch.long)
    log_p = torch.empty(len(ids), num_known)
    right = torch.empty(len(ids))
    forest = None if found.forest is None else right
    blank = OutOfFold(ids, ids, ids, log_p, torch.empty(()), right, forest)
    parts = (filter(torch.is_tensor, part) for part in (found, blank))
    kinds = [[(value.dtype, value.shape) for value in part] for part in parts]
    if kinds[0] != kinds[1] or found.log_p.isnan().any() or not found.kept.isfinite():
        raise ValueError("its predictions of held-out labels are damaged")
    if len(ids) and not (0 <= found.labels.min() and found.labels.max() < num_known):
        raise ValueError("a held-out label is not of a known class")
    return found


def _rebuilt(
    kind: type[Method],
    encoder: EncoderSpec,
    options: Mapping[str, Any],
    sizes: Sizes,
    state: Mapping[str, Tensor],
) -> Method:
    """Method with the given weights, ready to predict."""
    method = kind(encoder=encoder, **options)
    # Meta tensors draw no random numbers, so training in another thread is not affected. Layers of
    # other packages may not support them.
    with torch.device("meta") if encoder.make is None else torch.random.fork_rng(devices=[]):
        method.build(sizes)
    expected = method.state_dict()
    weights = dict(method.named_parameters())
    for name, blank in expected.items():
        weight = state.get(name, torch.empty(()))
        shape = [found if size == 0 else size for found, size in zip(weight.shape, blank.shape)]
        if weight.dtype != blank.dtype or [*weight.shape] != shape or weight.dim() != blank.dim():
            raise ValueError(f"{name} is not {blank.dtype}{[*blank.shape]}")
        # A threshold, or the scale of a distribution, may be infinite.
        finite = weight.isfinite() if name in weights else ~weight.isnan()
        if not finite.all():
            raise ValueError(f"{name} contains {weight[~finite].flatten()[0]}")
    method.load_state_dict({name: state[name] for name in expected}, assign=True)
    widths = {len(cast(Scaling, scaling).mean) for scaling in method.scaling.values()}
    if not widths <= {0, sizes.num_features}:
        raise ValueError(f"a mean of {max(widths)} instead of {sizes.num_features} features")
    return method.eval()
