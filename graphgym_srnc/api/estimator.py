"""The estimator that all methods share: training in its own random numbers, prediction without the training graph, files."""
from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import threading
import warnings
from pathlib import Path
from typing import Any, Iterator, Sequence

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc import __version__, atomic, shifts
from graphgym_srnc.api import parameters
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.base import Method
from graphgym_srnc.task import HIDDEN, ShiftTask, Sizes
from graphgym_srnc.train import trainer
from graphgym_srnc.train.verdict import judge

FORMAT = 1
"""Of model files; another one is not read."""

KEPT = 0.95
"""Share of the known validation nodes that stay known where no validation node tells what an unknown one looks like."""

HELD_OUT = 0.2
"""Share of the training nodes that are held out for such a cut where there is no validation node at all."""

_training = threading.RLock()


class Estimator(BaseEstimator):
    """What every estimator has; there is one for each method, and its parameters come before these.

    Args:
        backbone: ``gcn``, ``sage``, ``gat``, ``sgc``, ``mlp`` or ``dgi``; GraphGym's names (``gcnconv``) do as well.
        hidden: width of the hidden layers.
        layers: number of layers; the last one gives the logits.
        dropout: dropout on hidden layers.
        activation: activation of hidden layers: ``relu``, ``selu``, ``elu``, ``tanh``, ``swish``, ``lrelu_01`` or ``identity``.
        heads: attention heads of ``gat``; ``hidden`` is shared among them.
        features: how features are scaled: ``row`` (sum 1), ``l2`` (length 1), ``auto`` (``l2``, dense ones centred) or ``none``.
        lr: learning rate of Adam.
        weight_decay: weight decay of Adam.
        selection: what the best episode is chosen by: ``target_val``, ``source_val``, ``target_modularity``, ``last``, or by what there is
            to choose by (``auto``), see :meth:`fit`.
        min_agreement: with ``target_modularity``, the least share of target nodes on which an episode and episode 0 agree.
        max_episodes: at most so many after episode 0; -1 = as many as the method asks for.
        patience: stop after so many episodes in a row without a better score; 0 = never.
        open_set: whether the target may hold classes that training has not; None = what the labels say, see :meth:`fit`.
        random_state: seeds all that training draws. There is no other source of randomness.
        callbacks: functions that are called after each episode with it, the method and the task; they are not saved.
    """

    _method: type[Method]

    # Graphs are no metadata; scikit-learn would make a method set_..._request for each of these arguments.
    __metadata_request__fit = {"source": UNUSED, "target": UNUSED}
    __metadata_request__predict = __metadata_request__predict_proba = {"graph": UNUSED}

    def __init__(self, *, backbone: str = "gcn", hidden: int = 256, layers: int = 2, dropout: float = 0.5, activation: str = "relu",
                 heads: int = 8, features: str = "auto", lr: float = 0.01, weight_decay: float = 5e-4, selection: str = "auto",
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0, open_set: bool | None = None, random_state: int = 0,
                 callbacks: Sequence[trainer.Callback] = ()) -> None:
        raise TypeError("an estimator is made for a method: graphgym_srnc.SRNC(), graphgym_srnc.ERM(), ...")

    def fit(self, source: ShiftTask | Data, target: Data | None = None) -> Estimator:
        """Train, and keep the weights of the best episode.

        With ``selection="auto"`` that is the one with the largest Micro-F1 on the validation nodes. Where there is none, it is that with
        the largest modularity of the predicted classes on the target, for which no label is needed. In open-set shift where no validation
        node is of an unknown class it is the same for SRNC, which has a cut of its own, whatever ``min_agreement`` says: on known classes
        alone that episode scores best which never says unknown. Other methods take the last episode and the cut that lets 95 % of
        the validation nodes through, for which, if there is none, a fifth of the training nodes of each class is held out.

        Training happens on the device that the data lie on, and so does prediction afterwards; a model that was read from a file
        predicts on the CPU.

        One fit runs at a time in a process, and others wait: layers draw from torch's one generator, which is put back afterwards.

        Args:
            source: a :class:`~graphgym_srnc.task.ShiftTask`; or a ``Data`` with ``x`` ``[V, F]``, ``edge_index`` ``[2, E]``, ``y`` ``[V]``
                and ``train_mask`` ``[V]``, and ``val_mask`` and ``test_mask`` if there are any. Labels are whole numbers, -1 where there
                is none, or words. Classes without a training node are unknown. No label outside the masks is used; with ``open_set``
                None, there is an unknown class if any node has one that training has not.
            target: another graph to predict, whose labels need not be known; ``val_mask`` and ``test_mask`` are then its own, and the
                source's ``val_mask`` is held out. Without a ``train_mask`` all labelled nodes of the source teach.

        Returns:
            The estimator.

        Raises:
            InputError: a parameter, the graphs or their labels are not what they should be; a ``ValueError``.
            FloatingPointError: a loss term is NaN or infinite.
        """
        plain = parameters.checked(self._method, self.get_params(deep=False))
        method = parameters.new_method(self._method, plain)
        given, classes = self._task(source, target, plain)
        given = given.to(_device(source))
        task = given.oracle if method.oracle else given
        label = task.validation.y[task.val]
        known_only = task.open_set and not bool((label == task.num_known).any())
        cut = known_only and method.prior is None
        if cut and not len(label):
            raise InputError("val_mask", None, "validation nodes to cut the unknown class by, or a class with two training nodes")
        rule = {name: plain[name] for name in ("selection", "max_episodes", "patience", "min_agreement")}
        if plain["selection"] == "auto":
            rule["selection"] = "last" if cut else "target_val" if len(label) and not known_only else "target_modularity"
            if known_only:
                # An episode that says unknown differs from episode 0, which cannot.
                rule["min_agreement"] = 0.0
        with _alone(plain["random_state"], task.device):
            record = trainer.fit(method, given, seed=None, callbacks=tuple(self.callbacks), **rule)
        on_val, on_test = method.predict(method.task.validation)[task.val], method.predict(method.task.target)[task.test]
        if cut:
            method.threshold.fill_(method.confidence(on_val).quantile(1 - KEPT))
            record.warnings.append(f"no validation node is of an unknown class: the cut lets {KEPT:.0%} of the known ones through")
            record.verdict = judge(method, task, record.verdict["figures"].get("agreement"))._asdict()
        scores = {"val": trainer.rate(method, task, on_val, label), "test": trainer.rate(method, task, on_test, task.target.y[task.test])}
        self._become(plain, method.state_dict(), task.sizes, classes, record, scores)
        for text in [*self.warnings_, *self.verdict_["sentences"].values()]:
            warnings.warn(f"{type(self).__name__}: {text}", RuntimeWarning, stacklevel=2)
        return self

    def predict(self, graph: Data) -> np.ndarray:
        """The class ``[V]`` of each node of any graph with the same features, by its label in training; -1 or ``unknown`` = unknown.

        The graph plays the part of the target, also if it was the source.
        """
        scores = self._scores(graph)
        return self.classes_[self.method_.decide(scores).cpu().numpy()]

    def predict_proba(self, graph: Data) -> np.ndarray:
        """Probabilities ``[V, len(classes_)]`` of the classes; the likeliest one is what :meth:`predict` says.

        Known classes share what the softmax gives them. The unknown one has the probability that makes it as likely as the likeliest
        known class where the confidence is at the threshold, and the likelier the further below, see
        :meth:`graphgym_srnc.methods.base.Method.posterior`.
        """
        scores = self._scores(graph)
        return self.method_.posterior(scores).cpu().numpy()

    @available_if(lambda self: hasattr(self._method, "cluster"))
    def clusters(self, graph: Data) -> np.ndarray:
        """The cluster of each node of any graph with the same features, ``[V]``, by the (first) cluster GNN.

        Raises:
            InputError: the method was trained without one.
        """
        graph = self._checked(graph)
        return self.method_.cluster(graph).cpu().numpy()

    def save(self, path: str | os.PathLike) -> None:
        """Write the trained model into one file, whole or not at all; :func:`load` reads it.

        Raises:
            InputError: the file cannot be written.
        """
        check_is_fitted(self, "method_")
        about = {"format": FORMAT, "version": __version__, "method": self._method.__name__, "params": self._plain,
                 "sizes": dataclasses.asdict(self.method_.task), "classes": self.classes_.tolist(), "scores": self.scores_,
                 "record": dataclasses.asdict(self.record_)}
        buffer = io.BytesIO()
        torch.save({"about": json.dumps(about, default=float), "state": self.method_.state_dict()}, buffer)
        try:
            atomic.write_bytes(Path(path), buffer.getvalue())
        except OSError as error:
            raise InputError("path", str(path), f"a file that can be written ({error.strerror})") from error

    def _task(self, source: ShiftTask | Data, target: Data | None, plain: dict[str, Any]) -> tuple[ShiftTask, np.ndarray]:
        """The task to train on, and the label of each class that the method is shown."""
        if not isinstance(source, ShiftTask):
            task, classes = shifts.from_data(source, target, open_set=plain["open_set"], seed=plain["random_state"],
                                             held_out=HELD_OUT if self._method.prior is None else 0.0)
        elif target is not None:
            raise InputError("target", type(target).__name__, "nothing beside a ShiftTask, which has its own")
        elif plain["open_set"] not in (None, source.open_set):
            raise InputError("open_set", plain["open_set"], f"None or {source.open_set}, as the task says")
        else:
            task, classes = source, None
        if not self._method.oracle:
            return task, _classes(task) if classes is None else classes
        if task.oracle is None:
            raise InputError(type(self).__name__, task.name, "a ShiftTask that has an oracle")
        return task, _classes(task.oracle)

    def _become(self, plain: dict[str, Any], state: dict[str, Tensor], sizes: Sizes, classes: Sequence[Any], record: trainer.RunRecord,
                scores: dict[str, dict[str, float]]) -> None:
        """Set the fitted attributes. Of the method nothing is kept but what predicts, so that a loaded model is the same one."""
        method = parameters.new_method(self._method, plain)
        with torch.device("meta"):  # draws nothing, and waits for nobody who does
            method.build(sizes)
        method.load_state_dict({name: state[name] for name in method.state_dict()}, assign=True)
        self.method_, self.record_, self.scores_, self.warnings_ = method.eval(), record, scores, record.warnings
        self.verdict_ = record.verdict
        self.classes_, self.n_features_in_, self._plain = np.array(classes), sizes.num_features, plain

    def _checked(self, graph: Data) -> Data:
        check_is_fitted(self, "method_")
        graph = shifts.unlabelled(graph)
        if graph.num_features != self.n_features_in_:
            raise InputError("graph: x", f"{graph.num_features} features", f"{self.n_features_in_}, as in training")
        return graph.to(self.method_.threshold.device)

    def _scores(self, graph: Data) -> Tensor:
        graph = self._checked(graph)
        return self.method_.predict(graph)


@contextlib.contextmanager
def _alone(seed: int, device: torch.device) -> Iterator[None]:
    """Train by own random numbers: one at a time, and torch's generator is put back afterwards."""
    with _training, torch.random.fork_rng([device] if device.type == "cuda" else []), torch.enable_grad():
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        yield


def _device(source: ShiftTask | Data) -> torch.device | str:
    """Where the data lie, and so where training happens."""
    return source.device if isinstance(source, ShiftTask) else getattr(source.x, "device", "cpu")


def _classes(task: ShiftTask) -> np.ndarray:
    """The original number of each known class, and -1 for the unknown one."""
    label, original = (y[task.train] for y in (task.source.y, getattr(task.source, "y_true", task.source.y)))
    return np.array([int(original[label == k][0]) for k in range(task.num_known)] + [HIDDEN] * task.open_set)
