"""From a config to a task and a trained method."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Sequence

from torch_geometric.graphgym import register
from torch_geometric.graphgym.optim import create_optimizer

from graphgym_srnc import methods, shifts
from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data import files
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.gym.config import CfgNode, activate, data_root, load_config
from graphgym_srnc.gym.keys import KEYS, TRAINING, values
from graphgym_srnc.gym.spec import encoder_spec
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import MakeOptimizer, adam
from graphgym_srnc.train import model as models
from graphgym_srnc.train import trainer
from graphgym_srnc.train.model import TrainedModel


@renamed(KEYS)
def build_task(cfg: CfgNode) -> ShiftTask:
    """The scenario ``dataset.format`` on the data set ``dataset.name``."""
    build = shifts.find(cfg.dataset.format)
    return build(name=cfg.dataset.name, root=cfg.dataset.dir, **shift_options(cfg, cfg.seed))


def own_graph(cfg: CfgNode) -> Path:
    """Where the user's own graph lies, of a config whose ``dataset.format`` is ``file``."""
    key = "file.path" if cfg.file.path else "dataset.name"
    return files.locate(cfg.file.path or cfg.dataset.name, cfg.dataset.dir, key)


def shift_options(cfg: CfgNode, seed: int) -> dict[str, Any]:
    """The options of the shift of a config; a ``split_seed`` of -1 is the seed of the run."""
    options = values(cfg, cfg.dataset.format, shifts.find(cfg.dataset.format))
    return options | ({"split_seed": seed} if options.get("split_seed") == -1 else {})


def build_method(cfg: CfgNode) -> Method:
    """The method of a config, with its encoder and optimiser; the config becomes GraphGym's own."""
    activate(cfg)  # GraphGym's own layers read it
    method = methods.find(cfg.train.mode)
    optim = cfg.optim
    # Our Adam makes the steps of GraphGym's, and is faster.
    make_optimizer: MakeOptimizer = (
        partial(adam, lr=optim.base_lr, weight_decay=optim.weight_decay)
        if optim.optimizer == "adam"
        else partial(create_optimizer, cfg=optim)
    )
    options = values(cfg, cfg.train.mode, method)
    return method(encoder=encoder_spec(cfg), make_optimizer=make_optimizer, **options)


def visible_task(method: Method | type[Method], task: ShiftTask) -> ShiftTask:
    """The task that a method is trained on.

    For an oracle it is the one where every class is visible. A method that holds out labels itself
    learns the validation nodes that were drawn at random, unless one of them is unknown or all
    other nodes have labels, so that no node would be left to predict.
    """
    if not method.oracle:
        may_teach = task.val_may_teach and not task.validates_unknown
        learns_all = method.cross_fits and may_teach and len(task.pool) > len(task.val)
        return task.without_validation() if learns_all else task
    if task.oracle is None:
        message = f"{method.key()} needs the labels of all classes, and {task.name} has no oracle"
        raise InputError.plain("train.mode", f"{message} task", "Use another method")
    return task.oracle


@renamed(KEYS)
def fit(
    cfg: CfgNode,
    task: ShiftTask,
    callbacks: Sequence[trainer.Callback] = (),
    checkpoint: trainer.Checkpoint | None = None,
) -> tuple[Method, trainer.RunRecord]:
    """Train the method of a config on a task; returns the trained method and its record.

    Raises:
        InputError: the task does not suit the method.
        FloatingPointError: a loss term is NaN or infinite.
    """
    method = build_method(cfg)
    best = "micro_f1" if cfg.metric_best in ("auto", "accuracy") else cfg.metric_best
    settings: dict[str, Any] = {option.key: cfg.train[option.key] for option in TRAINING}
    return method, trainer.fit(
        method,
        visible_task(method, task),
        seed=cfg.seed,
        callbacks=callbacks,
        checkpoint=checkpoint,
        metrics={name: register.metric_dict[name] for name in cfg.custom_metrics},
        best=best,
        **settings,
    )


def stored_config(result: models.Result) -> CfgNode:
    words = [word for pair in flatten(result["config"]).items() for word in pair]
    cfg = load_config(None, words, stored=True)
    cfg.seed = result["seed"]
    cfg.dataset.dir = data_root(cfg.dataset.dir)
    return cfg


def load_model(path: str | Path) -> TrainedModel:
    """The model of a finished run or of a file, see ``graphgym_srnc.train.model.load``."""

    def encoder(result: models.Result) -> EncoderSpec:
        cfg = stored_config(result)
        activate(cfg)  # layers registered with GraphGym read it
        return encoder_spec(cfg)

    return models.load(path, encoder)


def shown_task(cfg: CfgNode) -> ShiftTask:
    """The scenario of a config; labels that its method learns are those of training nodes."""
    task = build_task(cfg)
    if cfg.train.mode not in methods.METHODS or methods.find(cfg.train.mode).oracle:
        return task
    return visible_task(methods.find(cfg.train.mode), task)


def task_of(model: TrainedModel) -> ShiftTask:
    """The task of the run of a model, made again from its config and still the same.

    Labels that the model has learned are those of training nodes.
    """
    if not model.config:
        message = "a model saved by an estimator does not contain its training graph"
        raise InputError.plain("--graph", message, "Give a graph with --graph")
    cfg = stored_config(model.result)
    expected = model.result["split"]
    task = build_task(cfg)
    if task.fingerprint() != expected:
        found = f"split {expected[:12]}, found {task.fingerprint()[:12]}"
        message = f"{cfg.dataset.dir} has changed since the run was trained ({found})"
        raise InputError.plain("dataset.dir", message, "Restore the data of the run")
    return task if model.method.oracle else visible_task(model.method, task)
