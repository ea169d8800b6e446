"""A run of GraphGym's own training, as the record that a method's training gives."""

from __future__ import annotations

from torch import nn

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.gym.config import CfgNode
from graphgym_srnc.gym.training import train_standard
from graphgym_srnc.io.stats import SPLITS, read_lines
from graphgym_srnc.io.store import Experiment
from graphgym_srnc.train.trainer import Episode, RunRecord

Scores = dict[str, float]

NO_SCORES = {"epoch", "eta", "loss", "lr", "params", "time_iter", "gpu_memory"}
"""What GraphGym writes beside scores."""


def train(
    cfg: CfgNode,
    task: ShiftTask,
    experiment: Experiment,
) -> tuple[nn.Module, RunRecord, list[Scores]]:
    """The trained model, the record of its epochs as episodes, and their scores on training nodes.

    GraphGym scores the test nodes once, with the last weights, so the last epoch is selected.

    Raises:
        InputError: the config asks for metrics without Micro-F1.
    """
    if cfg.custom_metrics and "micro_f1" not in cfg.custom_metrics:
        raise InputError("custom_metrics", list(cfg.custom_metrics), "a list with micro_f1, or []")
    directory = experiment.begin(cfg.seed)
    model = train_standard(cfg, directory)

    train_lines, val_lines, test_lines = (
        {line["epoch"]: line for line in read_lines(directory / split / "stats.json")}
        for split in SPLITS
    )
    record = RunRecord(task.name, task.fingerprint(), "last")
    for epoch, line in sorted(train_lines.items()):
        val, test = (_scores(lines.get(epoch, {})) for lines in (val_lines, test_lines))
        losses = {"loss": line["loss"]}
        record.history.append(Episode(epoch, losses, val, test, line["time_iter"]))
    record.history[-1].test = _scores(test_lines[max(test_lines)])
    record.best = len(record.history) - 1
    record.stopped = f"all {len(record.history)} epochs done"
    return model, record, [_scores(train_lines[episode.number]) for episode in record.history]


def _scores(line: dict[str, float]) -> Scores:
    scores = {key: value for key, value in line.items() if key not in NO_SCORES}
    return scores | {"micro_f1": scores["accuracy"]} if "accuracy" in scores else scores
