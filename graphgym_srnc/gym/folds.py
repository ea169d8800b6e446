"""Predictions of labelled nodes by models that were not trained on their labels."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graphgym_srnc.core import progress
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import build
from graphgym_srnc.gym.run import device
from graphgym_srnc.shifts import splits
from graphgym_srnc.train.model import Prediction, TrainedModel


def out_of_fold(
    model: TrainedModel,
    task: ShiftTask,
    prediction: Prediction,
    folds: int,
) -> Prediction:
    """The prediction, with other classes and probabilities for training and test nodes.

    They are split into folds of equal class shares. The method of the run is trained again for each
    fold, on all of these nodes but those of the fold, which it then predicts. The only label of a
    class stays in training. Validation nodes keep their prediction and their purpose.
    """
    if task.source is not task.target:
        raise InputError.plain(
            "--folds", "the labels that the run was trained on are in another graph", "Leave it out"
        )
    cfg = build.stored_config(model.result)
    where = device(cfg.accelerator)
    labelled, fold = assigned(task, folds, cfg.seed)
    label = prediction.label.clone()
    posterior = prediction.posterior.clone()
    for number in range(folds):
        progress.doing(f"training without fold {number + 1} of {folds}", (number + 1) / (folds + 1))
        train = labelled[fold != number]
        held = labelled[fold == number]
        if not len(held):
            continue
        pool = splits.others(task.target.num_nodes, train)
        part = replace(task, train=train, test=held, pool=pool, oracle=None).to(where)
        method, _ = build.fit(cfg, part)
        scores = method.predict(part.target)[part.test]
        label[held] = method.decide(scores).cpu()
        posterior[held] = method.posterior(scores).cpu().to(posterior)
    return prediction._replace(label=label, posterior=posterior)


def learned(model: TrainedModel, task: ShiftTask, folds: int) -> list[int]:
    """Nodes whose label all models of :func:`out_of_fold` learn: the only ones of their class."""
    labelled, fold = assigned(task, folds, build.stored_config(model.result).seed)
    return labelled[fold < 0].tolist()


def assigned(task: ShiftTask, folds: int, seed: int) -> tuple[Tensor, Tensor]:
    """Training and test nodes of known classes ``[n]``, and the fold of each, -1 for none."""
    nodes = torch.cat([task.train, task.test])
    nodes = nodes[task.target.y[nodes] < task.num_known].sort().values
    y = task.target.y[nodes]
    fold = torch.full_like(nodes, -1)
    order = splits.shuffled(len(nodes), seed, "folds")
    for c in splits.classes_of(y):
        own = order[y[order] == c]
        fold[own] = torch.arange(len(own)) % folds if len(own) > 1 else -1
    return nodes, fold
