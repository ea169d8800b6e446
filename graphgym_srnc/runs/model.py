"""The model that a finished run keeps: written beside its record, and read back to predict any graph with the same features."""
from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data
from yacs.config import CfgNode

from graphgym_srnc import __version__, atomic, shifts, store
from graphgym_srnc.backbones import prepare
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym.build import build_method, build_task
from graphgym_srnc.gym.config import data_root, load_config
from graphgym_srnc.methods.base import Method
from graphgym_srnc.task import ShiftTask, Sizes

FILE = "model.pt"
"""Name of the file in the directory of a run."""

FORMAT = 1
"""Of these files; another one is not read."""

UNKNOWN = "unknown"
"""Name of the unknown class."""


class Prediction(NamedTuple):
    """What a model says of the nodes of a graph.

    Args:
        label: the class, ``[V]``; :math:`N` is the unknown one.
        posterior: probabilities ``[V, N]`` or, in open-set shift, ``[V, N + 1]``; the likeliest class is ``label``.
        confidence: how sure the method is that the node is of a known class, ``[V]``, on its own scale; the threshold and the AUROC of
            the unknown class are those of this figure.
        cluster: the cluster by the (first) cluster GNN, ``[V]``; None for a method without one.
        hidden: the last hidden state, ``[V, H]``, of that cluster GNN, which tells unknown classes apart best, or else of the classifier.
    """

    label: Tensor
    posterior: Tensor
    confidence: Tensor
    cluster: Tensor | None
    hidden: Tensor


class Model:
    """A trained method, without the graphs it was trained on.

    Args:
        method: the method, built and filled.
        classes: names of the classes in the order of the posterior; in open-set shift the last one is ``unknown``.
        cfg: the config of the run, with its seed; None where it was no run of a config.
        result: the record of the run.
        dense: whether the features of the target were dense, on which their scaling may depend; None = it is not known.
    """

    def __init__(self, method: Method, classes: tuple[str, ...], cfg: CfgNode | None = None, result: store.Result | None = None,
                 dense: bool | None = None) -> None:
        self.method, self.classes, self.cfg, self.result, self.dense = method.eval(), classes, cfg, result, dense

    @torch.no_grad()
    def predict(self, graph: Data) -> Prediction:
        """Predict all nodes of a graph with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``, also one that training never saw.

        Raises:
            InputError: the graph is not what it should be, or has another number of features than that of training.
        """
        graph, wanted = shifts.unlabelled(graph), self.method.task.num_features
        if graph.num_features != wanted:
            raise InputError("graph: x", f"{graph.num_features} features", f"{wanted}, as in training")
        scores, views = self.method.predict(graph), self.method.views()
        hidden, group = views.get("cluster_gnn", views["classifier"])(graph)
        return Prediction(self.method.decide(scores), self.method.posterior(scores), self.method.confidence(scores),
                          group if "cluster_gnn" in views else None, hidden)

    def task(self) -> ShiftTask:
        """The task of the run, made again from its config.

        Raises:
            InputError: it was no run of a config, its data cannot be read, or they are no longer those of the run.
        """
        if self.cfg is None:
            raise InputError("--graph", None, "a graph, since a model that an estimator saved does not know that of its training")
        task = build_task(self.cfg)
        if task.fingerprint() != self.result["split"]:
            raise InputError("dataset.dir", self.cfg.dataset.dir, f"the data of the run (split {self.result['split'][:12]}, found "
                             f"{task.fingerprint()[:12]})")
        return task


def save(path: Path, cfg: CfgNode, method: Method, task: ShiftTask, digest: str) -> None:
    """Write the model of a run into its directory, whole or not at all.

    Args:
        path: the directory of the run.
        cfg: its config.
        method: the trained method.
        task: what it was trained on.
        digest: that of the config, see :class:`graphgym_srnc.store.Experiment`.
    """
    seen = task.oracle if method.oracle else task
    about = {"format": FORMAT, "version": __version__, "method": cfg.train.mode, "digest": digest, "split": task.fingerprint(),
             "sizes": vars(seen.sizes), "classes": _classes(seen),
             "dense": isinstance(prepare(seen.target, method.encoder.features).x, Tensor)}
    # What only the losses need is left behind.
    state, wanted = method.state_dict(), _blank(cfg, seen.sizes).state_dict()
    buffer = io.BytesIO()
    torch.save({"about": json.dumps(about), "state": {name: state[name] for name in wanted}}, buffer)
    atomic.write_bytes(path / FILE, buffer.getvalue())


def load(path: str | Path) -> Model:
    """The model of a finished run; no code in a file is run. The run's config becomes GraphGym's own.

    Args:
        path: the directory of a run, ``<out_dir>/<name>/<seed>``, or that of an experiment, whose finished run with the lowest seed is
            taken.

    Raises:
        InputError: there is no finished run, it kept no model, or the model is not that of its record.
    """
    run = Path(path)
    result = store.read_result(run.absolute())
    if result is None:
        finished = store.read_results(run)
        if not finished:
            raise InputError("RUN", str(path), "the directory of a finished run or of an experiment with one")
        seed = min(finished)
        run, result = run / str(seed), finished[seed]
    if not (run / FILE).is_file():
        reason = ("a run of a method, since GraphGym's own training (train.mode standard) keeps none" if result["method"] == "standard"
                  else "a run with train.save_model true, which is off in a grid unless its command line says so")
        raise InputError("RUN", f"{run} without {FILE}", reason)
    try:
        with torch.sparse.check_sparse_tensor_invariants():
            content = torch.load(run / FILE, weights_only=True, map_location="cpu")
        about = json.loads(content["about"])
        if about["format"] != FORMAT:
            raise ValueError(f"format {about['format']} of version {about['version']}, this one reads {FORMAT}")
        if any(about[key] != result[key] for key in ("method", "digest", "split")):
            raise ValueError("it belongs to another run")
        cfg = _config(result)
        method = _blank(cfg, Sizes(**about["sizes"]))
        method.load_state_dict(content["state"])
        classes, dense = tuple(map(str, about["classes"])), about["dense"]
    except InputError:
        raise
    except Exception as error:  # torch has no error of its own for a file that is none of its own
        # Of a foreign pickle torch says that it could run the code in the file.
        story = f" ({error})" if type(error) is ValueError else ""
        raise InputError("RUN", str(run / FILE), f"the model of this run{story}; this file is damaged, or of something else") from error
    return Model(method, classes, cfg, result, dense)


def _blank(cfg: CfgNode, sizes: Sizes) -> Method:
    """The method of a config with its modules for predictions untrained; draws no random number of others."""
    method = build_method(cfg)
    with torch.random.fork_rng(devices=[]):
        method.build(sizes)
    return method


def _config(result: store.Result) -> CfgNode:
    """The config of a run from its record; blocks that are no part of it have their defaults."""
    cfg = load_config()
    _merge(cfg, result["config"])
    cfg.seed, cfg.dataset.dir = result["seed"], data_root(cfg.dataset.dir)
    return cfg


def _merge(cfg: CfgNode, tree: dict[str, Any]) -> None:
    for key, value in tree.items():
        if isinstance(value, dict) and isinstance(cfg.get(key), CfgNode):
            _merge(cfg[key], value)
        else:
            cfg[key] = value


def _classes(task: ShiftTask) -> list[str]:
    """Names of the classes, or their original numbers where there are none, and that of the unknown one."""
    label, original = (y[task.train] for y in (task.source.y, getattr(task.source, "y_true", task.source.y)))
    names = task.class_names or [str(int(original[label == k][0])) for k in range(task.num_known)]
    return [*names, *[UNKNOWN if UNKNOWN not in names else f"{UNKNOWN} class"] * task.open_set]
