"""Base class of all estimators: training, prediction, saving and loading."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ContextManager, Final, Iterator, Sequence

import numpy as np
import pandas
import torch
from sklearn import get_config, utils
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data

from graphgym_srnc.api import parameters, weights
from graphgym_srnc.api.isolation import alone, plain
from graphgym_srnc.backbones.scaling import feature_warning
from graphgym_srnc.core import environment
from graphgym_srnc.core.progress import RunProgress, tell
from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.core.text import warn
from graphgym_srnc.data import names
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.io import records
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.prediction import ROLES
from graphgym_srnc.shifts.given import from_data, unlabelled
from graphgym_srnc.shifts.given import labels as labels_of
from graphgym_srnc.train import held_out, trainer
from graphgym_srnc.train.diagnostics import judge
from graphgym_srnc.train.model import FEW_LINKS, NO_WEIGHTS, TrainedModel, original_labels

if TYPE_CHECKING:
    from typing_extensions import Self

MYPY: Final = False  # mypy takes this name for True; pyright reads scikit-learn's source

if MYPY:  # scikit-learn has no types, so mypy would accept any method of these classes

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...

    class ClassifierMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...
else:
    from sklearn.base import BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin

OTHER_RECIPE = (
    "its features have other means, units or words than those of training. Make it by from_frames"
    " with like=, the training graph."
)
HELD_OUT = 0.2  # share of training nodes that set the threshold if there are no validation nodes


class Estimator(BaseEstimator):
    """Base class of the estimators, with the methods and fitted attributes that all of them have.

    Attributes:
        classes_: label of each column of ``predict_proba``; the unknown class is last.
        scores_: scores on ``val`` and ``test`` nodes; empty if there are no such nodes. Training
            nodes of known classes that ``fit`` holds out count as ``val``. ``held_out`` is, for
            SRNC+ on one graph, the ``accuracy`` on ``labels`` that its models had not learned, with
            ``low`` and ``high`` of its 95 % interval, and ``as_known``, the share that is also not
            predicted as unknown.
        record_: history of all episodes, and the selected episode.
        warnings_: problems of the fit, the sentences of ``verdict_`` included.
        verdict_: diagnostics of the predictions: ``figures``, ``sentences`` on figures beyond their
            bounds, and ``reliability`` curves.
        n_features_in_: number of features.
        method_: the trained method, without its training graphs.
    """

    _method: type[Method]
    class_weight: dict[Any, float] | str | None
    callbacks: Sequence[parameters.Callback]
    verbose: int

    classes_: np.ndarray
    scores_: dict[str, dict[str, float]]
    record_: trainer.RunRecord
    warnings_: list[str]
    verdict_: dict[str, Any]
    n_features_in_: int
    method_: Method

    # Graphs are not metadata; otherwise scikit-learn adds a set_..._request method for each.
    __metadata_request__fit = {"source": UNUSED, "target": UNUSED}
    __metadata_request__predict = {"graph": UNUSED, "role": UNUSED}
    __metadata_request__predict_proba = {"graph": UNUSED, "role": UNUSED}
    __metadata_request__decision_function = {"graph": UNUSED, "role": UNUSED}
    __metadata_request__transform = {"graph": UNUSED}
    __metadata_request__score = {"graph": UNUSED, "nodes": UNUSED}

    if not TYPE_CHECKING:  # else type checkers would accept any attribute
        _estimator_type = "classifier"  # for scikit-learn before 1.6, and tags for later ones

        def __sklearn_tags__(self) -> Any:
            tags = super().__sklearn_tags__()
            tags.estimator_type = "classifier"
            tags.classifier_tags = utils.ClassifierTags()
            return tags

    @plain()
    def fit(
        self, source: ShiftTask | Data, target: Data | None = None, sample_weight: Any = None
    ) -> Self:
        """Train on a graph or task and keep the weights of the best episode.

        ``selection="auto"`` takes the largest Micro-F1 on the validation nodes. Without any, it
        takes the largest modularity of the predicted classes on the target, which needs no labels.
        In open-set shift without a validation node of an unknown class, methods that learn the
        unknown class themselves, such as SRNC, use modularity. Others use the last episode and the
        threshold that accepts 95 % of the validation nodes, or else of a fifth of the training
        nodes of each class, which is then held out.

        Training and later predictions run on the device of the data. A model loaded from a file
        predicts on the CPU. Layers draw from torch's global generator, which is restored
        afterwards. Therefore only one fit runs at a time in a process, and concurrent calls wait.

        Args:
            source: a ``ShiftTask``, or a ``Data`` with ``x`` ``[V, F]``, ``edge_index`` ``[2, E]``,
                ``y`` ``[V]`` and ``train_mask`` ``[V]``. ``val_mask``, ``test_mask`` and weights of
                edges, ``edge_weight`` ``[E]``, are optional. Masks hold booleans, or 0 and 1.
                Labels are integers or strings; -1, NaN, None, an empty string and words such
                as ``?`` mean no label. Classes without a training node are unknown. Labels outside
                the masks are only used to infer ``open_set`` if it is None: there is an unknown
                class if a node has a label that no training node has or, on one graph, no label.
            target: another graph to predict; its labels are optional. ``val_mask`` and
                ``test_mask`` are then those of the target, and the source's ``val_mask`` is held
                out. Without a ``train_mask`` all labelled source nodes are training nodes.
            sample_weight: weight ``[V]`` of each source node in the cross-entropy of the labels,
                of which those of training nodes are read. ``class_weight`` multiplies them.

        Raises:
            InputError: a parameter, a graph or its labels are invalid.
            FloatingPointError: a loss term is NaN or infinite.
        """
        own, shared = parameters.checked(self._method, self.get_params(deep=False))
        in_python = {f"{self._method.key()}.{name}": name for name in own}
        with renamed(in_python):
            method = parameters.new_method(self._method, own, shared)
        task, classes = self._task(source, target, shared)
        task = weights.weighted(method, task, classes, sample_weight, self.class_weight)
        rules = _selection(method, task, shared)

        threads = limited_threads(self, task.source, task.target)
        stopping = [_Stopping(callback) for callback in self.callbacks]
        display = Steps() if self.verbose > 1 else contextlib.nullcontext(None)
        with alone(shared["random_state"], task.device), threads, renamed(in_python), display as on:
            callbacks = [*stopping, partial(_tell, on)] if self.verbose else stopping
            record = trainer.fit(method, task, seed=None, callbacks=callbacks, **rules)
            record.verdict = judge(method, task, record.first)
            if method.out_of_fold is not None:
                record.held_out = held_out.judge(method, task, with_controls=False)
        if any(callback.stopped for callback in stopping):
            record.stopped = "a callback returned True"
        recipes = [_recipe(graph) for graph in (source, target) if graph is not None]
        differ = "" not in recipes and len({*recipes}) > 1
        record.warnings = {**task.warnings, **record.warnings}
        if differ:
            record.warnings["other features"] = f"target x: {OTHER_RECIPE}"

        names = getattr(source, "feature_names", None)
        facts = {"params": shared, "record": asdict(record), "feature_names": names}
        facts["recipes"] = recipes
        self._become(TrainedModel.of(method, task, own, classes, facts), record)
        for text in self.warnings_:
            warn(f"{type(self).__name__}: {text}")
        return self

    @plain()
    def predict(self, graph: Data, role: str = "target") -> np.ndarray:
        """Predicted class of each node of a graph.

        Nodes are predicted alike, whether or not the graph has other components: features are
        centred by the mean of training, and classes are corrected by the class shares of training.
        After ``fit(source, target)`` these are those of the target. ``fit`` again if the new graph
        has other class shares, or features of another mean.

        Args:
            graph: a ``Data`` with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``. It may differ
                from the training graph but has the same features.
            role: after ``fit(source, target)``, the graph that ``graph`` is like: ``source`` or
                ``target``.

        Returns:
            Classes ``[V]`` as labelled in training. The unknown class is -1 or ``unknown``.
        """
        scores = self._scores(graph, role)
        return self.classes_[self.method_.decide(scores).cpu().numpy()]

    @plain()
    def predict_proba(self, graph: Data, role: str = "target") -> np.ndarray:
        """Class probabilities ``[V, len(classes_)]``; the most probable class is the predicted one.

        The softmax distributes the probability of the known classes. At the threshold, the unknown
        class is as probable as the most probable known class. It becomes more probable as the
        confidence falls below the threshold, see ``Method.posterior``. The arguments are those of
        ``predict``.
        """
        scores = self._scores(graph, role)
        return self.method_.posterior(scores).cpu().numpy()

    def predict_log_proba(self, graph: Data, role: str = "target") -> np.ndarray:
        """Logarithms ``[V, len(classes_)]`` of ``predict_proba``."""
        return np.log(self.predict_proba(graph, role))

    def fit_predict(
        self, source: ShiftTask | Data, target: Data | None = None, sample_weight: Any = None
    ) -> np.ndarray:
        """Train, and predict the class ``[V]`` of each node of the target, see ``fit``."""
        self.fit(source, target, sample_weight)
        if isinstance(source, ShiftTask):
            return self.predict(source.target)
        return self.predict(source if target is None else target)

    @plain()
    def decision_function(self, graph: Data, role: str = "target") -> np.ndarray:
        """Confidence ``[V]`` that each node is of a known class.

        In open-set shift, nodes whose confidence is below ``method_.threshold`` are predicted as
        unknown. ``unknown_auroc``, ``unknown_aupr``, ``unknown_fpr95`` and ``oscr`` of ``scores_``
        are computed from it. ``unknown_fpr95`` is, of all thresholds that accept at least 95 % of
        the known nodes, the least share of unknown nodes that are accepted as known. The arguments
        are those of ``predict``.
        """
        scores = self._scores(graph, role)
        return self.method_.confidence(scores).cpu().numpy()

    @plain()
    def score(self, graph: ShiftTask | Data, y: Any = None, nodes: Any = None) -> float:
        """Accuracy, that is Micro-F1, of the predicted classes on labelled nodes.

        A label that no training node had is the unknown class, or an error if there is none.

        Args:
            graph: a ``Data`` as for ``predict``, or a ``ShiftTask``, whose test nodes are scored.
            y: labels ``[V]``, by default ``graph.y``; nodes without one do not count.
            nodes: node numbers ``[n]`` or a mask ``[V]``. By default ``graph.test_mask``, or else
                all labelled nodes, without those of ``graph.train_mask`` if others are left.

        Raises:
            InputError: no node has a label, or the labels are of another kind than in training.
        """
        graph, true, scored = truth(self, graph, y, nodes)
        scores = self._scores(graph, "target")
        decided = self.method_.decide(scores).cpu().numpy()
        return float((decided == true)[scored].mean())

    @plain()
    def transform(self, graph: Data) -> Any:
        """Embedding ``[V, hidden]`` of each node, an array or as ``set_output`` says.

        This is the last hidden layer of the cluster GNN, or else of the classifier.
        """
        with self._reading(graph) as checked:
            found = self._model.predict(checked).hidden.cpu().numpy()
        if self._output() == "default":
            return found
        name = type(self).__name__.lower()
        columns = [f"{name}{number}" for number in range(found.shape[1])]
        return pandas.DataFrame(found, columns=columns, index=getattr(graph, "ids", None))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set whether ``transform`` returns an array (``default``) or a ``pandas`` frame.

        The index of the frame are the ``ids`` of the graph, if it has some. None changes nothing.
        """
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
            self._output()
        return self

    def _output(self) -> str:
        """The container of ``transform``, by ``set_output`` or scikit-learn's setting."""
        own = getattr(self, "_sklearn_output_config", {})
        chosen = own.get("transform", get_config().get("transform_output", "default"))
        if chosen not in ("default", "pandas"):
            raise InputError("transform", chosen, "default, pandas")
        return chosen

    @plain()
    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the trained model to one file that ``load`` reads, completely or not at all.

        Raises:
            InputError: the file cannot be written, for example since its folder does not exist.
        """
        check_is_fitted(self, "method_")
        if Path(path).is_dir() or not Path(path).absolute().parent.is_dir():
            raise InputError.plain(
                "path", f"{str(path)!r} cannot be written", "Name a file in a folder that exists"
            )
        if os.path.exists(path) and records.is_part(Path(path).resolve()):
            raise InputError.plain(
                "path", f"{path} belongs to results or a graph", "Name another file"
            )
        self._model.save(path)

    def _task(
        self, source: ShiftTask | Data, target: Data | None, shared: dict[str, Any]
    ) -> tuple[ShiftTask, list[Any]]:
        """The task to train on, on the device of the data, and the label of each of its classes."""
        open_set = shared["open_set"]
        if isinstance(source, ShiftTask):
            if target is not None:
                raise InputError.plain(
                    "target", "a ShiftTask contains its own target", "Leave it out"
                )
            if open_set not in (None, source.open_set):
                raise InputError("open_set", open_set, f"None or {source.open_set}, as in the task")
            task = source.to(source.device)
            if not self._method.oracle:
                return task, original_labels(task)
            if task.oracle is not None:
                return task.oracle, original_labels(task.oracle)
        elif not isinstance(source, Data):
            raise InputError.plain(
                "source",
                f"fit needs a ShiftTask or a PyG Data, not a {type(source).__name__}",
                "Make one with from_frames or from_networkx, take dataset[0] of a data set of "
                "PyG, or use OnNodes with GridSearchCV",
            )
        elif not self._method.oracle:
            own = getattr(source, "feature_names", None)
            names.check_features(own, getattr(target, "feature_names", None), "target: x")
            # A method cross-fits on one graph alone.
            needs_none = not self._method.calibrated or self._method.cross_fits and target is None
            held_out = 0.0 if needs_none else HELD_OUT
            task, labels = from_data(
                source, target, open_set=open_set, held_out=held_out, seed=shared["random_state"]
            )
            return task.to(getattr(source.x, "device", "cpu")), labels.tolist()
        raise InputError.plain(
            type(self).__name__, "this method needs a ShiftTask that has an oracle task"
        )

    def _become(self, model: TrainedModel, record: trainer.RunRecord | None) -> None:
        """Set the fitted attributes; those of training only if ``record`` is given."""
        self._model = model
        self.method_ = model.method
        self.classes_ = np.array(model.classes)
        self.n_features_in_ = model.method.task.num_features
        if record is not None:
            self.record_ = record
            self.scores_ = {"val": record.val, "test": record.test}
            if record.held_out:
                figures = record.held_out.items()
                self.scores_["held_out"] = {k: v for k, v in figures if k != "alone"}
            self.verdict_ = record.verdict
            told = record.warnings | record.verdict.get("sentences", {})
            self.warnings_ = [*told.values()]

    def _scores(self, graph: Data, role: str) -> torch.Tensor:
        """Scores ``[V, K]`` of the nodes of a graph."""
        with self._reading(graph, role) as checked:
            return self.method_.predict(checked, role)

    @contextlib.contextmanager
    def _reading(self, graph: Data, role: str = "target") -> Iterator[Data]:
        """Yield the checked graph while the threads are set for it."""
        check_is_fitted(self, "method_")
        if role not in ROLES:
            raise InputError("role", role, ", ".join(ROLES))
        checked = self._model.checked(graph, role)
        known = self._model.facts.get("recipes", [])
        told = [feature_warning(checked.x, self.method_.encoder.features)]
        if any(known) and _recipe(graph) not in ("", *known):
            told.append(OTHER_RECIPE)
        told = [f"graph x: {text}" for text in told if text]
        if self._model.lacks_weights(checked, role):
            told.append(f"graph: {NO_WEIGHTS}")
        # A checked graph has each edge in both directions.
        if self._model.lacks_links(checked.num_edges / max(checked.num_nodes, 1)):
            told.append(FEW_LINKS)
        for text in told:
            warn(f"{type(self).__name__}: {text}")
        with limited_threads(self, checked):
            yield checked


def limited_threads(model: Estimator, *graphs: Data) -> ContextManager[None]:
    """The threads of an estimator for computations on graphs, see ``environment.limited``."""
    wanted = parameters.checked(model._method, model.get_params(deep=False))[1]["num_threads"]
    edges = max(graph.edge_index.size(1) for graph in graphs)
    return environment.limited(environment.threads(wanted, edges))


def node_numbers(nodes: Any, size: int, is_mask: bool = True) -> np.ndarray:
    """Node numbers ``[n]`` as an array, from numbers or, with ``is_mask``, also a mask ``[V]``.

    Raises:
        InputError: a node number is out of range.
    """
    ids = np.asarray(nodes)
    if is_mask and ids.dtype == bool and ids.shape == (size,):
        return np.flatnonzero(ids)
    if ids.shape[1:] == (1,):  # a column of samples
        ids = ids[:, 0]
    are_numbers = ids.ndim == 1 and ids.dtype.kind in "iu"
    outside = ids[~np.isin(ids, np.arange(size))].tolist() if are_numbers else []
    if outside or not are_numbers:
        found = outside[0] if outside else f"{ids.dtype} {ids.shape}"
        raise InputError(
            "nodes",
            found,
            f"node numbers from 0 to {size - 1}, [n]; that of an id is graph.ids.index(id)",
        )
    return ids


def _recipe(graph: Any) -> str:
    """Checksum of how ``from_frames`` made the features of a graph; empty for other graphs."""
    recipe = getattr(graph, "recipe", None)
    if not recipe:
        return ""
    return hashlib.sha256(json.dumps(recipe, default=str).encode()).hexdigest()


class _Stopping:
    """A callback of a user, after whose True there are no further episodes."""

    def __init__(self, callback: parameters.Callback) -> None:
        self.callback = callback
        self.stopped = False

    def __call__(self, episode: trainer.Episode, method: Method, task: ShiftTask) -> None:
        answer = self.callback(episode, method, task)
        if isinstance(answer, (bool, np.bool_)) and answer:  # some loggers return an object
            self.stopped = True
            method.max_episodes = episode.number


class Steps(RunProgress):
    """Progress of the gradient steps of a fit on stderr: a bar, or a line every ten seconds."""

    def __init__(self) -> None:
        super().__init__(1, sys.stderr)

    def step(self, number: int, count: int) -> None:
        self.status = f"step {number + 1} of {count}"
        super().step(number, count)


def _tell(display: Steps | None, episode: trainer.Episode, method: Method, task: ShiftTask) -> None:
    """Print an episode and its score, if there is one."""
    score = episode.val.get("micro_f1", episode.test.get("micro_f1"))
    shown = "" if score is None else f", Micro-F1 {100 * score:.1f}"
    line = f"{type(method).__name__}: episode {episode.number} of {method.planned}{shown}"
    if display is None:
        tell(line, sys.stderr)
    else:
        display.say(line)
        display.episode(episode.number, method.planned, "")


def _selection(method: Method, task: ShiftTask, shared: dict[str, Any]) -> dict[str, Any]:
    """Selection settings for the trainer, with ``auto`` resolved."""
    rules = {name: shared[name] for name in ("selection", "max_episodes", "patience")}
    label = task.validation.y[task.val]
    known_only = task.open_set and not bool((label == task.num_known).any())
    needs_cut = known_only and method.calibrated and method.cut != "share"
    if needs_cut and not len(label) and not method.cross_fits:
        raise InputError.plain(
            "val_mask",
            "no validation node is left to set the unknown-class threshold",
            "Add a val_mask, label at least two nodes of a class, or set open_set=False if every"
            " node belongs to a class with training nodes",
        )
    if rules["selection"] == "auto":
        by_score = "target_val" if len(label) and not known_only else "target_modularity"
        rules["selection"] = "last" if needs_cut else by_score
    return rules


def truth(model: Estimator, graph: Any, y: Any, nodes: Any) -> tuple[Data, np.ndarray, np.ndarray]:
    """Graph, class ``[V]`` (-1 = none of the model) and scored nodes, as ``score`` says."""
    check_is_fitted(model, "method_")
    if isinstance(graph, ShiftTask):
        task = (model._method.oracle and graph.oracle) or graph
        return task.target, task.target.y.cpu().numpy(), task.test.cpu().numpy()
    every = np.arange(unlabelled(graph).num_nodes)
    if nodes is None and "test_mask" in graph:
        nodes = torch.as_tensor(graph.test_mask).cpu().numpy() == 1
    learned = every[:0]
    if nodes is None and "train_mask" in graph:
        learned = np.flatnonzero(torch.as_tensor(graph.train_mask).cpu().numpy() == 1)
    scored = every if nodes is None else node_numbers(nodes, len(every))
    held = np.isin(every, scored) & (nodes is not None)
    # A given label may be the name of the unknown class, as in predictions.
    kept = () if y is None else model.classes_.tolist()
    y = graph.y if y is None else y
    given = labels_of(y, len(every), "y", kept, held.tolist())
    if (given.dtype.kind == "U") != (model.classes_.dtype.kind == "U"):
        raise InputError.plain(
            "y",
            "the labels are words, and those of training are numbers, or the other way round",
            f"Give labels such as {model.classes_[0]!s}",
        )
    none = "" if given.dtype.kind == "U" else HIDDEN
    unknown = -1 if model.method_.task.unknown is None else model.method_.task.unknown
    place = {label: k for k, label in enumerate(model.classes_.tolist())}
    true = np.array([place.get(label, unknown) for label in given.tolist()])
    scored = scored[given[scored] != none]
    if not len(scored):
        raise InputError.plain("y", "no node to score has a label", "Give labels of some nodes")
    rest = np.setdiff1d(scored, learned)
    if len(learned) and not len(rest):
        warn("all scored nodes are in train_mask: the score of learned nodes is too high")
    return graph, true, rest if len(rest) else scored
