"""The model that a finished run keeps beside its record, and the graphs that it predicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from graphgym_srnc import shifts
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data import files
from graphgym_srnc.data.names import of_folder
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.gym.build import build_task
from graphgym_srnc.gym.config import CfgNode, activate, data_root, load_config, values
from graphgym_srnc.gym.encoder import encoder_spec
from graphgym_srnc.io import store
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import model as models
from graphgym_srnc.train.model import UNKNOWN, TrainedModel, original_labels

FILE = "model.safetensors"
"""Name of the file in the directory of a run."""


@dataclass(eq=False)
class RunModel(TrainedModel):
    """A trained model and the run that it is of.

    Args:
        cfg: the config of the run, with its seed; None for a model file without a run.
        result: the record of the run, or of the training of an estimator.
    """

    cfg: CfgNode | None = None
    result: store.Result = field(default_factory=dict)

    def task(self) -> ShiftTask:
        """The task of the run, made again from its config.

        Raises:
            InputError: there is no run, its data cannot be read, or they are no longer the same.
        """
        if self.cfg is None:
            raise InputError.plain(
                "--graph",
                "a model saved by an estimator does not contain its training graph",
                "Give a graph with --graph",
            )
        task, expected = build_task(self.cfg), self.result["split"]
        if task.fingerprint() != expected:
            message = (
                f"{self.cfg.dataset.dir} has changed since the run was trained (split "
                f"{expected[:12]}, found {task.fingerprint()[:12]})"
            )
            raise InputError.plain("dataset.dir", message, "Restore the data of the run")
        return task

    def folder(self) -> Path | None:
        """Where the target graph of the run lies if it is the user's own, a folder or a file."""
        if self.cfg is None:
            return None
        dataset = self.cfg.dataset
        if dataset.format != "file":
            return None
        return files.locate(self.cfg.file.path or dataset.name, dataset.dir, "file.path")

    def read(self, path: str, features: str) -> tuple[Data, Path]:
        """Another graph without its labels, and where it lies.

        Args:
            path, features: see the shift ``file``.

        Raises:
            InputError: it cannot be read; names the command line's options.
        """
        root = "" if self.cfg is None else self.cfg.dataset.dir
        with renamed({"path": "--graph", "features": "--features"}):
            graph, source = files.load_unlabelled(path, features, root)
        graph = shifts.unlabelled(graph)
        graph.feature_names = of_folder(source, None, graph.num_features).words
        return graph, source


def save(path: Path, cfg: CfgNode, method: Method, task: ShiftTask, digest: str) -> None:
    """Write the model of a run into its directory, whole or not at all.

    Args:
        path, cfg: the directory of the run, and its config.
        method, task: the trained method, and what it was trained on.
        digest: that of the config, see :class:`graphgym_srnc.io.store.Experiment`.

    Raises:
        InputError: the file cannot be written.
    """
    seen = task.oracle if method.oracle and task.oracle else task
    names = list(seen.class_names)
    classes: list[int] | list[str] = original_labels(seen)
    if names:
        unknown = UNKNOWN if UNKNOWN not in names else f"{UNKNOWN} class"
        classes = names + [unknown] * seen.open_set
    rules = ("selection", "min_agreement", "max_episodes", "patience")
    params = {
        "lr": cfg.optim.base_lr,
        "weight_decay": cfg.optim.weight_decay,
        "random_state": cfg.seed,
        **{name: cfg.train[name] for name in rules},
    }
    facts: dict[str, Any] = {"digest": digest, "split": task.fingerprint(), "params": params}
    if cfg.dataset.format == "file":
        place = files.locate(cfg.file.path or cfg.dataset.name, cfg.dataset.dir, "file.path")
        facts["feature_names"] = of_folder(place).words
    options = values(cfg, cfg.train.mode, type(method))
    TrainedModel.of(method, seen, options, classes, facts).save(path / FILE)


def load(path: str | Path) -> RunModel:
    """A saved model; no code in its file is run. The config of its run becomes GraphGym's own.

    Args:
        path: the directory of a run, ``<out_dir>/<name>/<seed>``; that of an experiment, whose
            finished run with the lowest seed is taken; or a model file.

    Raises:
        InputError: there is no finished run, it kept no model, the model is not that of its
            record, or the file is damaged.
    """
    path = Path(path)
    if path.name == FILE and (path.parent / "result.json").is_file():
        path = path.parent
    with renamed({"path": "RUN"}):
        if path.is_file():
            model = models.load(path)
            return RunModel(**vars(model), result=model.facts.get("record", {}))
        run, result = _finished(path)
        settings = flatten(result["config"])
        cfg = load_config(None, [word for pair in settings.items() for word in pair], stored=True)
        cfg.seed, cfg.dataset.dir = result["seed"], data_root(cfg.dataset.dir)
        activate(cfg)  # GraphGym's own layers read it
        model = models.load(run / FILE, encoder_spec(cfg))
    found = {**model.facts, "method": model.name}
    if any(found.get(key) != result[key] for key in ("method", "digest", "split")):
        raise InputError.plain("RUN", f"the model {run / FILE} belongs to another run")
    return RunModel(**vars(model), cfg=cfg, result=result)


def _finished(path: Path) -> tuple[Path, store.Result]:
    """The directory of a run that kept its model, and its record."""
    path, result = store.finished_run(path)
    if not (path / FILE).is_file():
        hint = (
            "GraphGym's own training (train.mode standard) saves none; train a method"
            if result["method"] == "standard"
            else "Train with train.save_model true; `grid` and `tune` set it to false by default"
        )
        raise InputError.plain("RUN", f"{path} contains no saved model {FILE}", hint)
    return path, result
