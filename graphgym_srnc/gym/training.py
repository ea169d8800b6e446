"""Training of a config on a task: by a method's own loop, or by GraphGym's for ``standard``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from torch import nn
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg as global_cfg
from torch_geometric.graphgym.imports import pl
from torch_geometric.graphgym.model_builder import GraphGymModule, create_model
from torch_geometric.graphgym.models.layer import new_layer_config
from torch_geometric.graphgym.train import GraphGymDataModule
from torch_geometric.graphgym.train import train as graphgym_train
from torch_geometric.graphgym.utils import auto_select_device, params_count

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import renamed
from graphgym_srnc.gym.build import build_method, visible_task
from graphgym_srnc.gym.config import KEYS, TRAINING, CfgNode, activate, own_metrics
from graphgym_srnc.gym.encoder import make_layer
from graphgym_srnc.io.stats import SPLITS, read_lines
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.train import trainer
from graphgym_srnc.train.metrics import ExtraScores

Scores = dict[str, float]

NO_SCORES = {"epoch", "eta", "loss", "lr", "params", "time_iter", "gpu_memory"}
"""What GraphGym writes beside scores."""


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
    metrics = {name: register.metric_dict[name] for name in own_metrics(cfg)}
    settings: dict[str, Any] = {option.key: cfg.train[option.key] for option in TRAINING}
    return method, trainer.fit(
        method,
        visible_task(method, task),
        seed=cfg.seed,
        callbacks=callbacks,
        checkpoint=checkpoint,
        extra=ExtraScores(metrics, best, cfg.metric_agg == "argmin"),
        **settings,
    )


def train_standard(cfg: CfgNode, run_dir: str | Path) -> GraphGymModule:
    """GraphGym's own training, without the parts of its ``main.py`` that delete results.

    Args:
        cfg: the config.
        run_dir: an existing folder for what GraphGym writes.
    """
    activate(cfg)
    # Lightning writes its own logs to out_dir.
    global_cfg.out_dir = global_cfg.run_dir = str(run_dir)
    auto_select_device()
    if cfg.model.type == "gnn":
        make_layer(cfg.gnn.layer_type, new_layer_config(8, 8, 1, True, False, cfg))
    pl.seed_everything(cfg.seed)
    datamodule, model = GraphGymDataModule(), create_model()
    global_cfg.params = params_count(model)
    lightning(model, datamodule)
    return model


def lightning(
    model: GraphGymModule,
    datamodule: GraphGymDataModule,
    logger: bool = True,
    trainer_config: dict[str, Any] | None = None,
) -> None:
    """GraphGym's ``train`` without Lightning's sanity check.

    The check writes a validation record of an untrained model, which would count as epoch 0.
    """
    graphgym_train(model, datamodule, logger, {"num_sanity_val_steps": 0, **(trainer_config or {})})


def fit_standard(
    cfg: CfgNode, task: ShiftTask, directory: Path
) -> tuple[nn.Module, trainer.RunRecord, list[Scores]]:
    """Train by GraphGym; returns the model, its epochs as episodes, and scores on training nodes.

    GraphGym scores the test nodes once, with the last weights, so the last epoch is selected.
    """
    model = train_standard(cfg, directory)
    train_lines, val_lines, test_lines = (
        {line["epoch"]: line for line in read_lines(directory / split / "stats.json")}
        for split in SPLITS
    )
    record = trainer.RunRecord(task.name, task.fingerprint(), "last")
    for epoch, line in sorted(train_lines.items()):
        val, test = (_scores(lines.get(epoch, {})) for lines in (val_lines, test_lines))
        losses = {"loss": line["loss"]}
        record.history.append(trainer.Episode(epoch, losses, val, test, line["time_iter"]))
    record.history[-1].test = _scores(test_lines[max(test_lines)])
    record.best = len(record.history) - 1
    record.stopped = f"all {len(record.history)} epochs done"
    return model, record, [_scores(train_lines[episode.number]) for episode in record.history]


def _scores(line: Scores) -> Scores:
    scores = {key: value for key, value in line.items() if key not in NO_SCORES}
    return scores | {"micro_f1": scores["accuracy"]} if "accuracy" in scores else scores
