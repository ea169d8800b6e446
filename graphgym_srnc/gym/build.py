"""From a config to a task and a method."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import torch
from torch_geometric.graphgym.optim import create_optimizer

from graphgym_srnc import methods, shifts
from graphgym_srnc.core import parallel
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError, renamed
from graphgym_srnc.gym.config import KEYS, CfgNode, activate, values
from graphgym_srnc.gym.encoder import encoder_spec
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import MakeOptimizer, adam


@renamed(KEYS)
def build_task(cfg: CfgNode) -> ShiftTask:
    """The scenario ``dataset.format`` on the data set ``dataset.name``.

    Raises:
        InputError: the shift cannot be made with these options.
    """
    build = shifts.find(cfg.dataset.format)
    return build(name=cfg.dataset.name, root=cfg.dataset.dir, **shift_options(cfg))


def shift_options(cfg: CfgNode) -> dict[str, Any]:
    """The options of the shift of a config; a ``split_seed`` of -1 is the config's seed."""
    options = values(cfg, cfg.dataset.format, shifts.find(cfg.dataset.format))
    return options | ({"split_seed": cfg.seed} if options.get("split_seed") == -1 else {})


def device(cfg: CfgNode) -> torch.device:
    """Where the method of a config trains: on the CPU, or with ``accelerator cuda`` on a GPU.

    ``auto`` is the CPU, so that the numbers of a config do not depend on the machine.

    Raises:
        InputError: torch finds no CUDA device.
    """
    if cfg.accelerator != "cuda":
        return torch.device("cpu")
    if parallel.count() > 1:
        message = "several processes can train together on the CPU only"
        raise InputError.plain("accelerator", message, "Set accelerator to cpu")
    if not torch.cuda.is_available():
        raise InputError.plain(
            "accelerator", "torch finds no CUDA device on this machine", "Set accelerator to cpu"
        )
    # Without it cuBLAS has no deterministic algorithms; it is read when cuBLAS starts.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return torch.device("cuda", torch.cuda.current_device())


def build_method(cfg: CfgNode) -> Method:
    """The method of a config, with its encoder and optimiser; the config becomes GraphGym's own.

    Args:
        cfg: a config whose ``train.mode`` is a method.
    """
    activate(cfg)  # GraphGym's own layers read it
    method, optim = methods.find(cfg.train.mode), cfg.optim
    # Our Adam makes the steps of GraphGym's, and is faster.
    make_optimizer: MakeOptimizer = (
        partial(adam, lr=optim.base_lr, weight_decay=optim.weight_decay)
        if optim.optimizer == "adam"
        else partial(create_optimizer, cfg=optim)
    )
    options = values(cfg, cfg.train.mode, method)
    return method(encoder=encoder_spec(cfg), make_optimizer=make_optimizer, **options)


def visible_task(method: Method | type[Method], task: ShiftTask) -> ShiftTask:
    """The task that a method is trained on: the one where every class is visible for an oracle.

    Raises:
        InputError: the method needs the labels of all classes, and the task lacks them.
    """
    if not method.oracle:
        return task
    if task.oracle is None:
        message = (
            f"{method.key()} needs the labels of all classes, but {task.name} has no oracle task"
        )
        raise InputError.plain("train.mode", message, "Use another method")
    return task.oracle
