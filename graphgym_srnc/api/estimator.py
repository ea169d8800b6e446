"""Base class of all estimators: training, prediction, saving and loading."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.api import cards, parameters
from graphgym_srnc.api.isolation import alone, plain
from graphgym_srnc.backbones.features import feature_warnings
from graphgym_srnc.core import environment
from graphgym_srnc.core.progress import RunProgress
from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.data import cleaning, files, names
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.shifts.given import from_data, unlabelled
from graphgym_srnc.shifts.given import labels as given_labels
from graphgym_srnc.train import trainer
from graphgym_srnc.train.diagnostics import judge
from graphgym_srnc.train.model import TrainedModel, original_labels

if TYPE_CHECKING:
    from typing_extensions import Self

HELD_OUT = 0.2
"""Share of the training nodes held out to set the threshold if there are no validation nodes."""


class Estimator(BaseEstimator):
    """Base class of the estimators, with the methods and fitted attributes that all of them have.

    Attributes:
        classes_: label of each class, in the column order of ``predict_proba``; in open-set shift
            the unknown class is last.
        scores_: scores on ``val`` and ``test`` nodes; empty if there are no such nodes.
        record_: history of all episodes, and the selected episode.
        warnings_: problems that did not stop the training.
        verdict_: diagnostics of the predictions: ``figures``, ``sentences`` on figures beyond their
            bounds, and ``reliability`` curves.
        n_features_in_: number of features.
        method_: the trained method, without its training graphs.
    """

    _method: type[Method]

    classes_: np.ndarray
    scores_: dict[str, dict[str, float]]
    record_: trainer.RunRecord
    warnings_: list[str]
    verdict_: dict[str, Any]
    n_features_in_: int
    method_: Method

    # Graphs are not metadata; otherwise scikit-learn adds a set_..._request method for each.
    __metadata_request__fit = {"source": UNUSED, "target": UNUSED}
    __metadata_request__predict = __metadata_request__predict_proba = {"graph": UNUSED}
    __metadata_request__transform = {"graph": UNUSED}

    @plain()
    def fit(self, source: ShiftTask | Data, target: Data | None = None) -> Self:
        """Train on a graph or task and keep the weights of the best episode.

        ``selection="auto"`` chooses the criterion from the labels:

        - Validation nodes exist: the largest Micro-F1 on them.
        - No validation nodes: the largest modularity of the predicted classes on the target. This
          needs no labels.
        - Open-set shift, but no validation node of an unknown class: Micro-F1 would favour a method
          that never predicts unknown. Methods that learn the unknown class themselves, such as
          SRNC, use modularity. Other methods use the last episode and the threshold that accepts
          95 % of the validation nodes. If there are no validation nodes, a fifth of the training
          nodes of each class is held out.

        Training and later predictions run on the device of the data. A model loaded from a file
        predicts on the CPU. Layers draw from torch's global generator, which is restored
        afterwards. Therefore only one fit runs at a time in a process, and concurrent calls wait.

        Args:
            source: a :class:`~graphgym_srnc.core.task.ShiftTask`, or a ``Data`` with ``x``
                ``[V, F]``, ``edge_index`` ``[2, E]``, ``y`` ``[V]`` and ``train_mask`` ``[V]``.
                ``val_mask`` and ``test_mask`` are optional. Masks hold booleans, or 0 and 1.
                Labels are integers or strings; -1, NaN, None, an empty string and words such
                as ``?`` mean no label.
                Classes without a training node are unknown. Labels outside the masks
                are not used, except to infer ``open_set`` if it is None: there is an unknown class
                if any node has a label that no training node has.
            target: another graph to predict; its labels are optional. ``val_mask`` and
                ``test_mask`` are then those of the target, and the source's ``val_mask`` is held
                out. Without a ``train_mask`` all labelled source nodes are training nodes.

        Returns:
            The fitted estimator itself.

        Raises:
            InputError: a parameter, a graph or its labels are invalid.
            FloatingPointError: a loss term is NaN or infinite.
        """
        own, shared = parameters.checked(self)
        method = parameters.new_method(self._method, own, shared)
        task, classes = self._task(source, target, shared)
        rules = _selection(method, task, shared)

        threads = self._threads(task.source, task.target)
        with alone(shared["random_state"], task.device), threads, self._shown() as shown:
            record = trainer.fit(
                method, task, seed=None, callbacks=(*self.callbacks, *shown), **rules
            )
            record.verdict = judge(method, task, record.first)._asdict()

        names = getattr(source, "feature_names", None)
        facts = {"params": shared, "record": asdict(record), "feature_names": names}
        self._become(TrainedModel.of(method, task, own, classes, facts), record)
        for text in [*self.warnings_, *self.verdict_["sentences"].values()]:
            warnings.warn(f"{type(self).__name__}: {text}", RuntimeWarning, stacklevel=3)
        return self

    @plain()
    def predict(self, graph: Data) -> np.ndarray:
        """Predicted class of each node of a graph, in the role of the target.

        Args:
            graph: a ``Data`` with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``. It may differ
                from the training graph but has the same features.

        Returns:
            Classes ``[V]`` as labelled in training. The unknown class is -1 for integer labels and
            ``unknown`` for strings.
        """
        scores = self._scores(graph)
        return self.classes_[self.method_.decide(scores).cpu().numpy()]

    @plain()
    def predict_proba(self, graph: Data) -> np.ndarray:
        """Class probabilities ``[V, len(classes_)]``; the most probable class is the predicted one.

        The softmax distributes the probability of the known classes. At the threshold, the unknown
        class is as probable as the most probable known class. It becomes more probable as the
        confidence falls below the threshold, see
        :meth:`~graphgym_srnc.methods.shared.base.Method.posterior`.
        """
        scores = self._scores(graph)
        return self.method_.posterior(scores).cpu().numpy()

    @plain()
    def transform(self, graph: Data) -> np.ndarray:
        """Embedding ``[V, hidden]`` of each node.

        This is the last hidden layer of the cluster GNN, or of the classifier if there is no
        cluster GNN.
        """
        with self._reading(graph) as checked:
            return self._model.predict(checked).hidden.cpu().numpy()

    @plain()
    def accuracy(self, graph: Data | ShiftTask, y: Any = None) -> float:
        """Share of correctly predicted nodes, which equals Micro-F1.

        A class that training did not have counts as correct if it is predicted as unknown. The
        method is not named ``score`` as in scikit-learn, because many methods have an option of
        that name.

        Args:
            graph: a task, which is evaluated on its test nodes; or a graph, which is evaluated on
                its ``test_mask``, or on all labelled nodes if it has none.
            y: labels ``[V]`` that replace those of the graph; -1, NaN, None or an empty string =
                no label.

        Returns:
            The accuracy, between 0 and 1.

        Raises:
            InputError: no node has a label.
        """
        check_is_fitted(self, "method_")
        labels, nodes = _labelled(graph, y, self.classes_)
        if not len(nodes):
            raise InputError.plain(
                "y",
                "no node has a label to compare predictions with",
                "Give y, or label some nodes",
            )
        predicted = self.predict(graph.target if isinstance(graph, ShiftTask) else graph)
        known = np.isin(labels, self.classes_)
        # "Unknown" is the correct prediction for a class that training did not have.
        unknown = self.classes_[-1] if self.method_.task.open_set else None
        right = np.where(known, predicted == labels, predicted == unknown)
        return float(right[nodes].mean())

    @available_if(
        lambda self: self._method.log_cluster_posterior is not Method.log_cluster_posterior
    )
    @plain()
    def clusters(self, graph: Data) -> np.ndarray:
        """Cluster ``[V]`` of each node, assigned by the first cluster GNN.

        Raises:
            InputError: the model has no cluster GNN.
        """
        with self._reading(graph) as checked:
            log_q = self.method_.log_cluster_posterior(checked)
        if log_q is None:
            raise InputError.plain(type(self).__name__, "this model has no cluster GNN")
        return log_q[0].argmax(1).cpu().numpy()

    @plain()
    def save(self, path: str | os.PathLike, card: str | os.PathLike | None = None) -> None:
        """Save the trained model to one file that ``load`` reads.

        The file is written completely or not at all.

        Args:
            path: the file.
            card: file of a model card (``README.md`` of the Hugging Face hub) to write too.

        Raises:
            InputError: a file cannot be written.
        """
        check_is_fitted(self, "method_")
        cards.check(path, card)
        self._model.save(path)
        if card is not None:
            cards.write(card, self, os.path.basename(path))

    @contextlib.contextmanager
    def _shown(self) -> Iterator[tuple[trainer.Callback, ...]]:
        """Yield the callback that shows progress, or none if ``verbose`` is off."""
        if not self.verbose:
            yield ()
            return
        with RunProgress(1, sys.stderr) as bar:
            bar.start(type(self).__name__, "pre-training")

            def tell(episode: trainer.Episode, method: Method, task: ShiftTask) -> None:
                most = method.planned
                part = "val" if "micro_f1" in episode.val else "test"
                score = getattr(episode, part).get("micro_f1")
                text = "no score" if score is None else f"{part} {100 * score:.1f}"
                bar.episode(episode.number, most, text)

            yield (tell,)
            bar.finish(f"{type(self).__name__}: {bar.status or 'done'}")

    def _task(
        self, source: ShiftTask | Data, target: Data | None, shared: dict[str, Any]
    ) -> tuple[ShiftTask, list[Any]]:
        """The task to train on, on the device of the data, and the label of each of its classes."""
        open_set = shared["open_set"]
        if isinstance(source, ShiftTask):
            if target is not None:
                message = "a ShiftTask contains its own target"
                raise InputError.plain("target", message, "Leave it out")
            if open_set not in (None, source.open_set):
                allowed = f"None or {source.open_set}, as the task says"
                raise InputError("open_set", open_set, allowed)
            task = source.to(source.device)
            if not self._method.oracle:
                return task, original_labels(task)
            if task.oracle is not None:
                return task.oracle, original_labels(task.oracle)
        elif not isinstance(source, Data):
            raise InputError.plain(
                "source",
                f"fit needs a ShiftTask or a PyG Data, not a {type(source).__name__}",
                "Make one with from_frames or from_networkx, take dataset[0] of a data set of PyG, "
                "or use OnNodes with GridSearchCV",
            )
        elif not self._method.oracle:
            own = getattr(source, "feature_names", None)
            names.check_features(own, getattr(target, "feature_names", None), "target: x")
            held_out = HELD_OUT if self._method.prior is None else 0.0
            task, labels = from_data(
                source, target, open_set=open_set, held_out=held_out, seed=shared["random_state"]
            )
            return task.to(getattr(source.x, "device", "cpu")), labels.tolist()
        message = "this method needs a ShiftTask that has an oracle task"
        raise InputError.plain(type(self).__name__, message)

    def _become(self, model: TrainedModel, record: trainer.RunRecord | None) -> None:
        """Set the fitted attributes; those of training only if ``record`` is given."""
        self._model, self.method_, self.classes_ = model, model.method, np.array(model.classes)
        self.n_features_in_ = model.method.task.num_features
        if record is not None:
            self.record_, self.scores_ = record, {"val": record.val, "test": record.test}
            self.warnings_, self.verdict_ = record.warnings, record.verdict

    def _scores(self, graph: Data) -> Tensor:
        with self._reading(graph) as checked:
            return self.method_.predict(checked)

    @contextlib.contextmanager
    def _reading(self, graph: Data) -> Iterator[Data]:
        """Yield the checked graph while the threads are set for it."""
        check_is_fitted(self, "method_")
        checked = self._model.checked(graph)
        for text in feature_warnings(checked.x, self.method_.encoder.features):
            warnings.warn(f"{type(self).__name__}: graph x: {text}", RuntimeWarning, stacklevel=2)
        with self._threads(checked):
            yield checked

    @contextlib.contextmanager
    def _threads(self, *graphs: Data) -> Iterator[None]:
        """Set the number of threads for the graphs, and restore it afterwards."""
        wanted, before = parameters.checked(self)[1]["num_threads"], torch.get_num_threads()
        edges = max(graph.edge_index.size(1) for graph in graphs)
        torch.set_num_threads(environment.threads(wanted, edges))
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _labelled(
    graph: Data | ShiftTask, y: Any, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Labels ``[V]`` as given by the user, and the ids of the nodes to score."""
    if isinstance(graph, ShiftTask):
        if graph.num_outputs != len(classes):
            message = f"{graph!r} does not have the {len(classes)} classes of the model"
            raise InputError.plain("graph", message)
        return classes[graph.target.y.cpu().numpy()], graph.test.cpu().numpy()
    # In the graphs of a task, y holds renumbered classes and y_true the original ones.
    given = getattr(graph, "y_true", getattr(graph, "y", None)) if y is None else y
    nodes = unlabelled(graph).num_nodes
    labels = given_labels(given, nodes, "y", set(classes.tolist()))
    has_label = labels != ("" if labels.dtype.kind == "U" else HIDDEN)
    if has_label.any() and labels.dtype.kind != classes.dtype.kind:
        words = ("words", "numbers") if labels.dtype.kind == "U" else ("numbers", "words")
        raise InputError.plain(
            "y",
            f"the labels are {words[0]}, and the classes of the model are {words[1]}",
            "Give labels as in training",
        )
    for mask in files.tensors(graph, ("test_mask",), "graph").values():
        has_label = has_label & cleaning.mask(mask, nodes, "graph: test_mask").numpy()
    return labels, np.flatnonzero(has_label)


def _selection(method: Method, task: ShiftTask, shared: dict[str, Any]) -> dict[str, Any]:
    """Selection settings for the trainer, with ``auto`` resolved."""
    names = ("selection", "max_episodes", "patience", "min_agreement")
    rules = {name: shared[name] for name in names}
    label = task.validation.y[task.val]
    known_only = task.open_set and not bool((label == task.num_known).any())
    needs_cut = known_only and method.prior is None and method.cut != "share"
    if needs_cut and not len(label):
        raise InputError.plain(
            "val_mask",
            "no validation node is left to set the unknown-class threshold",
            "Add a val_mask, or label at least two nodes of a class",
        )
    if rules["selection"] == "auto":
        by_score = len(label) and not known_only
        rules["selection"] = (
            "last" if needs_cut else "target_val" if by_score else "target_modularity"
        )
    return rules
