"""The estimator that all methods share: training by own random numbers, prediction, files."""
from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from dataclasses import asdict
from typing import Annotated, Any, Iterator, Sequence

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc import environment, shifts
from graphgym_srnc.api import cards, parameters
from graphgym_srnc.backbones import ACTIVATIONS, FEATURES
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.base import Method
from graphgym_srnc.options import Count, Natural, OneOf, Range, Share, Weight
from graphgym_srnc.progress import RunProgress
from graphgym_srnc.task import ShiftTask
from graphgym_srnc.train import trainer
from graphgym_srnc.train.model import TrainedModel, original_labels
from graphgym_srnc.train.selection import SELECTIONS
from graphgym_srnc.train.verdict import judge

HELD_OUT = 0.2
"""Share of the training nodes that are held out for such a cut where there is no validation."""

_training = threading.RLock()


class Estimator(BaseEstimator):
    """What every estimator has; each method has one, whose own parameters come before these.

    Args:
        backbone: ``gcn``, ``sage``, ``gat``, ``sgc``, ``mlp`` or ``dgi``; GraphGym's names
            (``gcnconv``) do as well.
        hidden: width of the hidden layers.
        layers: number of layers; the last one gives the logits.
        dropout: dropout on hidden layers.
        activation: of hidden layers: ``relu``, ``selu``, ``elu``, ``tanh``, ``swish``, ``lrelu_01``
            or ``identity``.
        heads: attention heads of ``gat``; ``hidden`` is shared among them.
        features: how features are scaled: ``row`` (sum 1), ``l2`` (length 1), ``auto`` (``l2``,
            dense ones centred) or ``none``.
        lr: learning rate of Adam.
        weight_decay: weight decay of Adam.
        selection: what the best episode is chosen by: ``target_val``, ``source_val``,
            ``target_modularity``, ``last``, or by what there is (``auto``), see :meth:`fit`.
        min_agreement: with ``target_modularity``, the least share of target nodes on which an
            episode and episode 0 agree, of those that neither calls unknown.
        max_episodes: at most so many after episode 0; -1 = as many as the method asks for.
        patience: stop after so many episodes in a row without a better score; 0 = never.
        open_set: whether the target may hold classes that training has not; None = what the
            labels say, see :meth:`fit`.
        random_state: seeds all that training draws. There is no other source of randomness.
        num_threads: threads that train and predict; ``auto`` takes one for a graph of less than a
            million directions of edges, else two. The number that torch had is put back.
        callbacks: called after each episode with it, the method and the task; they are not saved.
        verbose: show how far training is, on stderr: bars on a terminal, else a line now and then.
            Any number above 0 does as True does.
    """

    _method: type[Method]

    # Graphs are no metadata; scikit-learn would make a method set_..._request for each argument.
    __metadata_request__fit = {"source": UNUSED, "target": UNUSED}
    __metadata_request__predict = __metadata_request__predict_proba = {"graph": UNUSED}
    __metadata_request__transform = {"graph": UNUSED}

    def __init__(
        self, *, backbone: Annotated[str, OneOf(*parameters.KINDS)] = "gcn", hidden: Count = 256,
        layers: Count = 2, dropout: Annotated[float, Range(0, 1, closed="left")] = 0.5,
        activation: Annotated[str, OneOf(*ACTIVATIONS)] = "relu", heads: Count = 8,
        features: Annotated[str, OneOf(*FEATURES)] = "auto", lr: Weight = 0.01,
        weight_decay: Weight = 5e-4,
        selection: Annotated[str, OneOf("auto", *SELECTIONS)] = "auto",
        min_agreement: Share = 0.6, max_episodes: Annotated[int, Range(-1)] = -1,
        patience: Natural = 0, open_set: bool | None = None,
        random_state: Annotated[int, Range(0, 2 ** 32 - 1)] = 0,
        num_threads: Annotated[int | str, parameters.THREADS] = environment.AUTO,
        callbacks: Sequence[trainer.Callback] = (), verbose: int = False,
    ) -> None:
        raise TypeError("an estimator is made for a method: graphgym_srnc.SRNC(), ...")

    def fit(self, source: ShiftTask | Data, target: Data | None = None) -> Estimator:
        """Train, and keep the weights of the best episode.

        With ``selection="auto"`` that is the one with the largest Micro-F1 on validation nodes or,
        where there are none, with the largest modularity of the predicted classes on the target,
        which takes no label. In open-set shift where no validation node is of an unknown class,
        Micro-F1 is largest for a method that never says unknown. SRNC, which has a cut of its own,
        goes by modularity then. Other methods take the last episode and the cut that lets 95 % of
        the validation nodes through, for which, if there are none, a fifth of the training nodes of
        each class is held out.

        Training happens on the device of the data, and so does prediction afterwards; a model from
        a file predicts on the CPU. Layers draw from torch's one generator, which is put back
        afterwards, so in a process one fit runs at a time and others wait.

        Args:
            source: a :class:`~graphgym_srnc.task.ShiftTask`; or a ``Data`` with ``x`` ``[V, F]``,
                ``edge_index`` ``[2, E]``, ``y`` ``[V]`` and ``train_mask`` ``[V]``, and
                ``val_mask`` and ``test_mask`` if there are any. Labels are whole numbers, -1 where
                there is none, or words. Classes without a training node are unknown. No label
                outside the masks is used; with ``open_set`` None, there is an unknown class if any
                node has one that training has not.
            target: another graph to predict, whose labels need not be known; ``val_mask`` and
                ``test_mask`` are then its own, and the source's ``val_mask`` is held out. Without
                a ``train_mask`` all labelled nodes of the source teach.

        Raises:
            InputError: a parameter, the graphs or their labels are not what they should be.
            FloatingPointError: a loss term is NaN or infinite.
        """
        own, shared = parameters.checked(self)
        method = parameters.new_method(self._method, own, shared)
        task, classes = self._task(source, target, shared)
        rules = _selection(method, task, shared)

        threads = self._threads(task.source, task.target)
        with _alone(shared["random_state"], task.device), threads, self._shown() as shown:
            record = trainer.fit(method, task, seed=None, callbacks=(*self.callbacks, *shown),
                                 **rules)
            record.verdict = judge(method, task, record.first)._asdict()
        scores = {"val": record.val, "test": record.test}

        facts = {"params": shared, "scores": scores, "record": asdict(record)}
        self._become(TrainedModel.of(method, task, own, classes, facts), record, scores)
        for text in [*self.warnings_, *self.verdict_["sentences"].values()]:
            warnings.warn(f"{type(self).__name__}: {text}", RuntimeWarning, stacklevel=2)
        return self

    def predict(self, graph: Data) -> np.ndarray:
        """The class ``[V]`` of each node of any graph with the same features, by its label in
        training; -1 or ``unknown`` = unknown. The graph plays the target's part."""
        scores = self._scores(graph)
        return self.classes_[self.method_.decide(scores).cpu().numpy()]

    def predict_proba(self, graph: Data) -> np.ndarray:
        """Probabilities ``[V, len(classes_)]`` of the classes; the likeliest is the predicted one.

        Known classes share what the softmax gives them. The unknown one is as likely as the
        likeliest known class where the confidence is at the threshold, and the likelier the further
        below, see :meth:`~graphgym_srnc.methods.base.Method.posterior`.
        """
        scores = self._scores(graph)
        return self.method_.posterior(scores).cpu().numpy()

    def transform(self, graph: Data) -> np.ndarray:
        """The embedding ``[V, hidden]`` of each node: the last hidden layer of the cluster GNN, or
        of the classifier where there is none."""
        with self._reading(graph) as checked:
            return self._model.embedding(checked).cpu().numpy()

    def accuracy(self, graph: Data | ShiftTask, y: Any = None) -> float:
        """The share of nodes whose predicted class is right, which is Micro-F1.

        Not called ``score``, as scikit-learn does, since many methods have an option of that name.

        Args:
            graph: a task, of which the test nodes count; or a graph, of which those in its
                ``test_mask`` count, or without one all labelled nodes.
            y: labels ``[V]`` in the place of those of the graph; -1 or empty = none.

        Raises:
            InputError: no node has a label.
        """
        check_is_fitted(self, "method_")
        labels, nodes = _labelled(graph, y, self.classes_)
        if not len(nodes):
            raise InputError("y", "no node with a label", "labels to compare predictions with")
        predicted = self.predict(graph.target if isinstance(graph, ShiftTask) else graph)
        known = np.isin(labels, self.classes_)
        # A class that training did not have is rightly called unknown, where there is such a class.
        unknown = self.classes_[-1] if self.method_.task.open_set else None
        right = np.where(known, predicted == labels, predicted == unknown)
        return float(right[nodes].mean())

    @available_if(lambda self: (self._method.log_cluster_posterior
                                is not Method.log_cluster_posterior))
    def clusters(self, graph: Data) -> np.ndarray:
        """The cluster ``[V]`` of each node of a graph, by the first cluster GNN.

        Raises:
            InputError: the model has none.
        """
        with self._reading(graph) as checked:
            log_q = self.method_.log_cluster_posterior(checked)
        if log_q is None:
            raise InputError(type(self).__name__, "no cluster GNN", "a model that has one")
        return log_q[0].argmax(1).cpu().numpy()

    def save(self, path: str | os.PathLike, card: str | os.PathLike | None = None) -> None:
        """Write the trained model into one file, whole or not at all; ``load`` reads it.

        Args:
            path: the file.
            card: also write a model card here, as the Hugging Face hub shows it (``README.md``).

        Raises:
            InputError: a file cannot be written.
        """
        check_is_fitted(self, "method_")
        self._model.save(path)
        if card is not None:
            cards.write(card, self, os.path.basename(path))

    @contextlib.contextmanager
    def _shown(self) -> Iterator[tuple[trainer.Callback, ...]]:
        """A callback that shows how far training is, if somebody wants to see it."""
        if not self.verbose:
            yield ()
            return
        with RunProgress(1, sys.stderr) as bar:
            bar.start(type(self).__name__, "pre-training")

            def tell(episode: trainer.Episode, method: Method, task: ShiftTask) -> None:
                most = (method.episodes if self.max_episodes < 0 else
                        min(method.episodes, self.max_episodes))
                scores = {"val": episode.val, "test": episode.test}
                text = [f"{part} {100 * score['micro_f1']:.1f}"
                        for part, score in scores.items() if "micro_f1" in score][:1]
                bar.episode(episode.number, most, *text or ["no score"])

            yield (tell,)
            bar.finish(f"{type(self).__name__}: {bar.status or 'done'}")

    def _task(self, source: ShiftTask | Data, target: Data | None, shared: dict[str, Any]
              ) -> tuple[ShiftTask, list[Any]]:
        """The task to train on, where the data lie, and the label of each class of the method."""
        open_set = shared["open_set"]
        if not isinstance(source, (Data, ShiftTask)):
            raise InputError("source", type(source).__name__, "a ShiftTask or a PyG Data "
                             "(from_frames, from_networkx make one; OnNodes serves GridSearchCV)")
        if isinstance(source, Data):
            held_out = HELD_OUT if self._method.prior is None else 0.0
            task, classes = shifts.from_data(source, target, open_set=open_set, held_out=held_out,
                                             seed=shared["random_state"])
            task, classes = task.to(getattr(source.x, "device", "cpu")), classes.tolist()
        elif target is not None:
            allowed = "nothing beside a ShiftTask, which has its own"
            raise InputError("target", type(target).__name__, allowed)
        elif open_set not in (None, source.open_set):
            raise InputError("open_set", open_set, f"None or {source.open_set}, as the task says")
        else:
            task, classes = source, original_labels(source)
        if not self._method.oracle:
            return task, classes
        if task.oracle is None:
            raise InputError(type(self).__name__, task.name, "a ShiftTask that has an oracle")
        return task.oracle, original_labels(task.oracle)

    def _become(self, model: TrainedModel, record: trainer.RunRecord | None,
                scores: dict[str, dict[str, float]] | None) -> None:
        """Set the fitted attributes; those of training only where it is known."""
        self._model, self.method_, self.classes_ = model, model.method, np.array(model.classes)
        self.n_features_in_ = model.method.task.num_features
        if record is not None:
            self.record_, self.scores_ = record, scores
            self.warnings_, self.verdict_ = record.warnings, record.verdict

    def _scores(self, graph: Data) -> Tensor:
        with self._reading(graph) as checked:
            return self.method_.predict(checked)

    @contextlib.contextmanager
    def _reading(self, graph: Data) -> Iterator[Data]:
        """A graph as the model reads it, with the threads for it."""
        check_is_fitted(self, "method_")
        checked = self._model.checked(graph)
        with self._threads(checked):
            yield checked

    @contextlib.contextmanager
    def _threads(self, *graphs: Data) -> Iterator[None]:
        """As many threads as are wanted, or as the graphs ask for, and afterwards as before."""
        wanted, before = parameters.num_threads(self.num_threads), torch.get_num_threads()
        edges = max(graph.edge_index.size(1) for graph in graphs)
        torch.set_num_threads(environment.threads(wanted, edges))
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _labelled(graph: Data | ShiftTask, y: Any, classes: np.ndarray
              ) -> tuple[np.ndarray, np.ndarray]:
    """Labels ``[V]`` in the user's own words or numbers, and the nodes to be scored."""
    if isinstance(graph, ShiftTask):
        if graph.num_outputs != len(classes):
            raise InputError("graph", repr(graph), f"a task of the model's {len(classes)} classes")
        return classes[graph.target.y.cpu().numpy()], graph.test.cpu().numpy()
    # The graphs of a task have its own numbers in y.
    given = getattr(graph, "y_true", getattr(graph, "y", None)) if y is None else y
    labels = np.asarray(given.cpu() if isinstance(given, Tensor) else given)
    if labels.shape != (graph.num_nodes,):
        raise InputError("y", labels.shape, f"a label for each node, [{graph.num_nodes}]")
    has_label = labels >= 0 if labels.dtype.kind in "if" else labels != ""
    mask = getattr(graph, "test_mask", None)
    return labels, np.flatnonzero(has_label if mask is None else has_label & mask.cpu().numpy())


def _selection(method: Method, task: ShiftTask, shared: dict[str, Any]
               ) -> dict[str, Any]:
    """How the trainer is to select."""
    names = ("selection", "max_episodes", "patience", "min_agreement")
    rules = {name: shared[name] for name in names}
    label = task.validation.y[task.val]
    known_only = task.open_set and not bool((label == task.num_known).any())
    needs_cut = known_only and method.prior is None and method.cut != "share"
    if needs_cut and not len(label):
        raise InputError("val_mask", None, "validation nodes to cut the unknown class by, or a"
                         " class with two training nodes")
    if rules["selection"] == "auto":
        by_score = len(label) and not known_only
        rules["selection"] = ("last" if needs_cut else
                              "target_val" if by_score else "target_modularity")
    return rules


@contextlib.contextmanager
def _alone(seed: int, device: torch.device) -> Iterator[None]:
    """Train by own random numbers, one at a time; torch's generator is put back afterwards."""
    devices = [device] if device.type == "cuda" else []
    with _training, torch.random.fork_rng(devices), torch.enable_grad():
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed(seed)
        yield

