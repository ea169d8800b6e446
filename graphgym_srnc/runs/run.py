"""One run: a config and a seed, from the task to the stored record; the command line and the workers of a grid call it alike."""
from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from torch_geometric import seed_everything
from yacs.config import CfgNode

from graphgym_srnc import parallel, store
from graphgym_srnc.data.describe import label_counts
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym.build import build_task, device
from graphgym_srnc.gym.config import activate, dump_config, schema
from graphgym_srnc.gym.training import fit, train_standard
from graphgym_srnc.methods.base import Method
from graphgym_srnc.runs import model as models
from graphgym_srnc.runs.checkpoint import Checkpoint
from graphgym_srnc.task import ShiftTask
from graphgym_srnc.train.trainer import Episode
from graphgym_srnc.watch import events
from graphgym_srnc.watch.tensorboard import TensorBoard, blind, untouched

KEPT = 2 ** 30
"""Bytes that a tensor may have for its memory to be kept when it is freed."""


class Extras(NamedTuple):
    """What a run leaves behind beside its record; none of it changes a number.

    Args:
        tensorboard: write events.
        figures: draw the first episode, every k-th, and the selected one.
        every: k; 0 = none between the first and the selected one.
        how: the map of embeddings, ``pca`` or ``tsne``.
        varied: settings to show in TensorBoard; empty = those of the task, the method, the backbone and the optimiser.
    """

    tensorboard: bool = True
    figures: bool = False
    every: int = 0
    how: str = "pca"
    varied: tuple[tuple[str, Any], ...] = ()


class Watch(Protocol):
    """Who is told how far a run is."""

    def episode(self, number: int, most: int, text: str) -> None:
        """An episode is done, of at most so many after episode 0."""

    def say(self, line: str) -> None:
        """Something that the user should know."""


class Silent:
    """A :class:`Watch` that tells nobody."""

    def episode(self, number: int, most: int, text: str) -> None:
        """Nothing."""

    def say(self, line: str) -> None:
        """Nothing."""


def experiment(cfg: CfgNode, name: str) -> store.Experiment:
    """Where the runs of a config are stored: ``<cfg.out_dir>/<name>``.

    Blocks of other methods and shifts have no say; were they kept, a new method would make old results another config's.
    """
    unused = set(schema()) - {"train", "dataset", cfg.train.mode, cfg.dataset.format}
    return store.Experiment(cfg.out_dir, name, {key: value for key, value in cfg.items() if key not in unused}, dump_config(cfg))


def run(base: CfgNode, seed: int, place: store.Experiment, watch: Watch | None = None, extras: Extras | None = None,
        resume: bool = False) -> store.Result:
    """Train and score a config with a seed, and store the record.

    Args:
        base: the config; it stays as it is.
        seed: seeds the weights, and the split where its seed is -1.
        place: the experiment of the config.
        watch: who is told after each episode.
        extras: what is written beside the record.
        resume: go on from the run's checkpoint if there is one; else what is there of it goes.

    Returns:
        The stored record; of several processes that train together the first one stores and returns it, the others have nothing.

    Raises:
        InputError: the task cannot be made as asked, or the method refuses it.
        FloatingPointError: a loss is not a number.
    """
    watch, extras = watch or Silent(), extras or Extras()
    cfg = base.clone()
    cfg.seed = seed
    cfg.run_dir = str(place.path / str(seed))
    activate(cfg)
    where = device(cfg)
    torch.set_num_threads(cfg.num_threads)
    _keep_memory()
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling fresh memory guards against reads of it, which is not what makes runs equal, and it costs time.
    torch.utils.deterministic.fill_uninitialized_memory = False
    seed_everything(seed)
    begin = time.perf_counter()
    store.reset_peak_memory()
    task = build_task(cfg)
    if not parallel.first():
        fit(cfg, task, checkpoint=Checkpoint(place, seed, cfg.train.mode, task.fingerprint(), 0, watch.say, resume, dict))
        return {}
    train = _standard if cfg.train.mode == "standard" else partial(_method, where=where, begin=begin, resume=resume)
    result = train(cfg, task, place, watch, extras)
    result = place.finish(seed, {
        "method": cfg.train.mode, "backbone": cfg.gnn.layer_type, "task": task.name, "split": task.fingerprint(), "info": dict(task.info),
        "lr": cfg.optim.base_lr, "threads": cfg.num_threads, "processes": parallel.count(),
        "seconds": time.perf_counter() - begin, "peak_memory_mib": store.peak_memory(),
        **result, "labels": label_counts(task)})
    if extras.tensorboard and cfg.train.mode == "standard":
        # GraphGym's own training is not watched as it goes.
        events.write_run(place.path / str(seed), result, _settings(cfg, extras))
    return result


def _keep_memory() -> None:
    """Let the allocator of Linux keep what is freed: else it gives a large tensor back and gets it anew, page by page, in each step."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            for option in (-1, -3):  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
                ctypes.CDLL(None).mallopt(option, KEPT)


def _method(cfg: CfgNode, task: ShiftTask, place: store.Experiment, watch: Watch, extras: Extras, where: torch.device,
            begin: float, resume: bool) -> store.Result:
    board: TensorBoard | None = None
    on_train: list[float] = []

    def seconds() -> float:
        return time.perf_counter() - begin + checkpoint.found.get("seconds", 0.0)

    checkpoint = Checkpoint(place, cfg.seed, cfg.train.mode, task.fingerprint(), cfg.train.checkpoint, watch.say, resume,
                            lambda: {"train": on_train, "maps": board.checkpoint(), "seconds": seconds()})
    task = task.to(where)  # with its fingerprint

    def after_episode(episode: Episode, method: Method, task: ShiftTask) -> None:
        nonlocal board
        if board is None:
            # Only now, since a method may still refuse its task when it starts.
            board = TensorBoard(place.begin(cfg.seed, anew=not checkpoint.found), extras.tensorboard, extras.figures, extras.every,
                                extras.how, start=episode.number)
            board.restore(checkpoint.found.get("maps", {}))
            on_train.extend(checkpoint.found.get("train", []))
        with untouched(method):
            seen = blind(method, task)
            scores = method.predict(seen.source, seen.role_of(seen.source))[task.train]
            prediction = method.decide(scores)
        on_train.append(float((prediction == task.source.y[task.train]).float().mean()))
        board(episode, method, task)
        most = method.episodes if cfg.train.max_episodes < 0 else min(method.episodes, cfg.train.max_episodes)
        watch.episode(episode.number, most, f"val {100 * episode.val['micro_f1']:.1f}")

    try:
        method, record = fit(cfg, task, [after_episode], checkpoint)
        board.finish(record, method, task.oracle if method.oracle else task, _settings(cfg, extras))
        if cfg.train.save_model:
            models.save(place.path / str(cfg.seed), cfg, method, task, place.digest)
    finally:
        if board is not None:
            board.close()
    history = [{"number": episode.number, "losses": episode.losses, "train": {"micro_f1": score}, "val": episode.val, "test": episode.test,
                "seconds": episode.seconds} for episode, score in zip(record.history, on_train)]
    return {"fingerprint": record.fingerprint, "selection": record.selection, "selected": record.best, "stopped": record.stopped,
            "warnings": record.warnings, "verdict": record.verdict, "val": record.val, "test": record.test,
            "history": history, "seconds": seconds(), "params": sum(parameter.numel() for parameter in method.parameters())}


def _standard(cfg: CfgNode, task: ShiftTask, place: store.Experiment, watch: Watch, extras: Extras) -> store.Result:
    """GraphGym's own training. It scores the test nodes once, with the last weights, so the last epoch is the selected one."""
    if cfg.custom_metrics and "micro_f1" not in cfg.custom_metrics:
        raise InputError("custom_metrics", list(cfg.custom_metrics), "a list with micro_f1, or an empty one")
    directory = place.begin(cfg.seed)
    # Lightning keeps its own logs there.
    cfg.out_dir = str(directory)
    model = train_standard(cfg, directory)
    lines = {split: {line["epoch"]: line for line in store.read_lines(directory / split / "stats.json")} for split in store.SPLITS}
    history = []
    for epoch, line in sorted(lines["train"].items()):
        row = {"number": epoch, "losses": {"loss": line["loss"]}, "train": _scores(line), "seconds": line["time_iter"]}
        history.append(row | {split: _scores(lines[split].get(epoch, {})) for split in ("val", "test")})
    last = history[-1]
    last["test"] = _scores(lines["test"][max(lines["test"])])
    return {"fingerprint": task.fingerprint(), "selection": "last", "selected": len(history) - 1, "warnings": [],
            "stopped": f"all {len(history)} epochs done", "val": last["val"], "test": last["test"], "history": history,
            "params": sum(parameter.numel() for parameter in model.parameters())}


def _scores(line: dict[str, float]) -> dict[str, float]:
    scores = {key: value for key, value in line.items() if key not in ("epoch", "eta", "loss", "lr", "params", "time_iter", "gpu_memory")}
    return scores | {"micro_f1": scores["accuracy"]} if "accuracy" in scores else scores


def _settings(cfg: CfgNode, extras: Extras) -> dict[str, Any]:
    """What tells a run from others in TensorBoard."""
    blocks = (cfg.dataset.format, "train", cfg.train.mode, "gnn", "optim")
    told = dict(extras.varied) or {"dataset.normalize": cfg.dataset.normalize, **store.flatten({b: cfg[b] for b in blocks if b in cfg})}
    return {"seed": cfg.seed, **told}
