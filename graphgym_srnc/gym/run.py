"""One run of a config with a seed, for commands and workers of a grid."""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable, Collection, Mapping

import numpy as np
import torch
import yaml
from torch_geometric import seed_everything

from graphgym_srnc import methods, shifts
from graphgym_srnc.core import environment, parallel
from graphgym_srnc.core.progress import RunProgress
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data import folder, folder_files
from graphgym_srnc.data.dates import on_labelled
from graphgym_srnc.data.describe import hidden_classes, label_counts
from graphgym_srnc.data.labels import CHECKED, CHOSEN, SAMPLED
from graphgym_srnc.data.names import of_folder
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym.build import build_task, fit, own_graph, visible_task
from graphgym_srnc.gym.config import CfgNode
from graphgym_srnc.gym.keys import reads, values
from graphgym_srnc.io import tensors
from graphgym_srnc.io.records import CHECKPOINT, Result
from graphgym_srnc.io.settings import flatten
from graphgym_srnc.io.store import Experiment
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.plots.tensorboard import Extras, TensorBoard
from graphgym_srnc.shifts.cross_graph import own_file
from graphgym_srnc.train import held_out
from graphgym_srnc.train.diagnostics import judge
from graphgym_srnc.train.model import FILE, UNKNOWN, TrainedModel, original_labels
from graphgym_srnc.train.trainer import Episode

RECORDED = "fingerprint selection score stopped warnings verdict held_out val test".split()


@dataclass(eq=False)
class Recorder:
    """What a run writes after each episode: events, and a checkpoint for ``--resume``.

    It is a callback of the trainer, and its checkpoint.
    """

    seed: int
    share: float  # maximum share of the run time that checkpoints take
    experiment: Experiment
    watch: RunProgress
    extras: Extras
    resume: bool  # whether to read a checkpoint that is there
    split: str = ""  # fingerprint of the task
    board: TensorBoard | None = None
    cost: float = 0.02  # of a checkpoint in seconds, before there is one to measure

    def __post_init__(self) -> None:
        self.path = self.experiment.path / str(self.seed) / CHECKPOINT
        self.begin = time.perf_counter()
        self.last_write = time.monotonic()
        self.before: dict[str, Any] = {"seconds": 0.0}  # of an interrupted run
        self.processes = parallel.count()

    def __call__(self, episode: Episode, method: Method, task: ShiftTask) -> None:
        if self.board is None:
            # Only now, since a method may still refuse its task when it starts.
            directory = self.experiment.begin(self.seed, anew=not episode.number)
            self.board = TensorBoard(directory, self.extras, episode.number)
        self.board(episode, method, task)
        scored = ""
        if episode.val:
            scored = f"validation {100 * episode.val['micro_f1']:.1f} %"
        self.watch.episode(episode.number, method.planned, scored)

    def seconds(self) -> float:
        """What the run has taken so far, with the time before a checkpoint that it went on from."""
        return time.perf_counter() - self.begin + self.before["seconds"]

    def key(self) -> dict[str, Any]:
        """What a checkpoint must have in common with the run."""
        return {
            "config": self.experiment.digest,
            "seed": self.seed,
            "split": self.split,
            "versions": environment.versions(),
            "processes": self.processes,
        }

    def read(self) -> dict[str, Any] | None:
        """The trainer's state in the checkpoint of the run; None = there is none that can be used.

        A file is used only if it is whole and of just this config, seed, split and versions, since
        anything else would make other numbers. No code in it is run.
        """

        def content() -> bytes:  # nothing where there is no file, so that an empty one is damaged
            there = self.resume and self.path.is_file()
            return self.path.read_bytes() or b"empty" if there else b""

        if not (found := parallel.from_first(content)):
            return None
        try:
            about, values = tensors.parse(found)
            wrong = [name for name, value in self.key().items() if about["key"][name] != value]
            state = tensors.join(about["state"], values)
            before = {key: state[key] for key in self.before}
            trained = state["trainer"]
        except Exception:  # whatever is wrong with a file, the run is made again
            wrong = ["file: it is damaged"]
        if wrong:
            reason = f"{self.path} is not used (different {', '.join(wrong)})"
            self.watch.say(f"warning: {reason}. Seed {self.seed} starts from the beginning.")
            return None
        self.before = before
        self.watch.say(f"seed {self.seed} continues from its checkpoint")
        return trained

    def write(self, state: Callable[[], dict[str, Any]]) -> None:
        """Keep a state, unless the last one was kept too short a time ago for what it took."""
        begin = time.monotonic()
        if self.share < 1 and (begin - self.last_write) * self.share < self.cost:
            return
        values: dict[str, torch.Tensor] = {}
        whole = {"trainer": state(), "seconds": self.seconds()}
        about = {"key": self.key(), "state": tensors.split(whole, values)}
        try:
            tensors.write(self.path, about, values)
        except OSError as error:
            self.share = 0.0
            reason = f"{self.path} cannot be written ({error.strerror})"
            self.watch.say(f"warning: {reason}. Seed {self.seed} continues without checkpoints.")
        self.last_write = time.monotonic()
        self.cost = self.last_write - begin


def experiment(cfg: CfgNode, name: str) -> Experiment:
    """The experiment of a config, stored in ``<cfg.out_dir>/<name>``.

    It does not contain the blocks of other methods and shifts. Otherwise each new method would
    change the config of stored results.
    """
    unused = {*methods.names(), *shifts.names()} - {cfg.train.mode, cfg.dataset.format}
    used = {key: value for key, value in cfg.items() if key not in unused}
    return Experiment(cfg.out_dir, name, used, partial(_as_yaml, json.dumps(cfg)))


def _as_yaml(cfg: str) -> str:
    """The text of ``cfg.dump()`` of a config as JSON, in C where yaml has it, which is faster."""
    return yaml.dump(json.loads(cfg), Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))


def run(
    base: CfgNode,
    seed: int,
    experiment: Experiment,
    watch: RunProgress | None = None,
    extras: Extras = Extras(),
    resume: bool = False,
    overwrite: bool = False,
) -> Result:
    """Train and score a config with a seed, and store the result, unless another process has.

    Args:
        base: the config, which is not changed.
        seed: seed of the weights, and of the split if the split's seed is -1.
        experiment: the experiment of the config.
        watch: shows progress.
        extras: what is written beside the record.
        resume: whether to continue from the run's checkpoint, if there is one.
        overwrite: whether to replace a finished run.

    Returns:
        The stored result; an empty dictionary in processes other than the first that train with it.

    Raises:
        Busy: another process holds the run.
    """
    watch = watch or RunProgress(1, io.StringIO())
    cfg = base.clone()
    cfg.seed = seed
    cfg.run_dir = str(experiment.path / str(seed))
    is_first = not parallel.rank()
    claim = experiment.claim(seed, overwrite) if is_first else contextlib.nullcontext()
    with claim as found:
        # The first process knows whether all of them train.
        if parallel.from_first(partial(bytes, found is None)):
            share = cfg.train.checkpoint
            recorder = Recorder(seed, share, experiment, watch, extras, resume)
            return _train(cfg, recorder)
    if is_first:
        watch.say(f"seed {seed} is already finished")
    return found or {}


def _train(cfg: CfgNode, recorder: Recorder) -> Result:
    where = device(cfg.accelerator)
    environment.keep_memory()
    # torch.use_deterministic_algorithms does the same, and imports torch's compiler.
    torch.set_deterministic_debug_mode("warn")
    # Filling fresh memory guards against reading it; it costs time and does not make runs equal.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    seed_everything(cfg.seed)

    environment.reset_peak_memory()
    recorder.watch.doing("reading data", 0.05)
    with environment.limited(environment.threads(cfg.num_threads)):
        task = build_task(cfg)
    edges = max(graph.edge_index.size(1) for graph in (task.source, task.target))
    with environment.limited(environment.threads(cfg.num_threads, edges)):
        return _fitted(cfg, task, where, recorder)


def _fitted(cfg: CfgNode, task: ShiftTask, where: torch.device, recorder: Recorder) -> Result:
    """Train and score a config on a task, and store the result."""
    watch = recorder.watch
    experiment = recorder.experiment
    watch.doing("pre-training", 0.3)
    recorder.split = task.fingerprint()
    shown = task.to(where)
    model, record = fit(cfg, shown, [recorder], recorder)
    seen = visible_task(model, shown)
    record.verdict = judge(model, seen, record.first)
    names = of_folder(_own_place(cfg))
    if cfg.dataset.format == "file" and seen.one_graph:
        origins = folder_files.origins(own_graph(cfg))
        parent = folder.parent(own_graph(cfg))
        record.held_out = held_out.judge(
            model,
            seen,
            chosen=folder_files.of_origin(origins, *CHOSEN),
            checked=folder_files.of_origin(origins, CHECKED),
            changed=parent.get("changed", ()),
            sampled=folder_files.of_origin(origins, SAMPLED),
        )
        record.held_out |= _of_parent(record.held_out, parent, model, seen)
        told = {
            "weak classes": held_out.on_weak_classes(record.held_out),
            "small components": held_out.on_small_components(record.held_out),
            "dates": _on_dates(
                names.dates, seen, folder_files.of_origin(origins, *CHOSEN, SAMPLED)
            ),
        }
        record.verdict["sentences"] |= {topic: text for topic, text in told.items() if text}
    if parallel.rank():
        return {}
    watch.doing("drawing figures" if recorder.extras.figures else "writing files", 1.0)
    if recorder.board is not None:
        recorder.board.finish(record, model, seen, settings(cfg))
    if cfg.train.save_model:
        facts: dict[str, Any] = {"digest": experiment.digest, "split": recorder.split}
        facts["feature_names"] = names.words
        _saved(cfg, model, seen, facts).save(Path(cfg.run_dir, FILE))
    return experiment.finish(
        cfg.seed,
        {
            "method": cfg.train.mode,
            "backbone": cfg.gnn.layer_type,
            "task": task.name,
            "split": recorder.split,
            "info": dict(task.info),
            "lr": cfg.optim.base_lr,
            "threads": torch.get_num_threads(),
            "processes": recorder.processes,
            "seconds": recorder.seconds(),
            "peak_memory_mib": environment.peak_memory(),
            **{name: getattr(record, name) for name in RECORDED},
            "selected": record.best,
            "history": [vars(episode) for episode in record.history],
            "params": sum(parameter.numel() for parameter in model.parameters()),
            "labels": label_counts(task if model.oracle else seen),
            "hidden_classes": hidden_classes(task),
        },
    )


def _of_parent(
    found: Mapping[str, Any], parent: Mapping[str, Any], model: Method, task: ShiftTask
) -> dict[str, Any]:
    """What the record has beside held-out labels, of a graph with labels from ``discover``.

    Args:
        found: what ``held_out.judge`` says.
        parent: what the folder of the graph says of the earlier run; may be empty.
        model: the trained method.
        task: its task.
    """
    own: dict[str, Any] = {}
    if not found:
        return own
    if "named" in parent:
        own["named"] = held_out.still_named(model, task, parent["named"])
    if found.get("sampled"):
        own["sampled"] = found["sampled"] | {"skipped": parent.get("skipped", 0)}
    return own


def settings(cfg: CfgNode) -> dict[str, Any]:
    """The method, the data, the seed, and every setting that TensorBoard shows, by key."""
    blocks = (cfg.dataset.format, cfg.train.mode, "gnn", "optim")
    shown = {
        key: value
        for key, value in flatten(cfg).items()
        if key.split(".")[0] in blocks and reads(cfg, key)
    }
    data = f"{cfg.dataset.format}/{cfg.dataset.name}"
    return {"method": cfg.train.mode, "data": data, "seed": cfg.seed, **shown}


def device(accelerator: str) -> torch.device:
    """Where a method trains: on the CPU, or with ``accelerator cuda`` on a GPU.

    ``auto`` is the CPU, so that the numbers of a config do not depend on the machine.
    """
    if accelerator != "cuda":
        return torch.device("cpu")
    several = parallel.count() > 1
    if several or not torch.cuda.is_available():
        message = "torch finds no CUDA device on this machine"
        message = "several processes can train together on the CPU only" if several else message
        raise InputError.plain("accelerator", message, "Set accelerator to cpu")
    # Without it cuBLAS has no deterministic algorithms; it is read when cuBLAS starts.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return torch.device("cuda", torch.cuda.current_device())


def _own_place(cfg: CfgNode) -> Path | None:
    """The file or folder of the user's own graph, the source of two; None if there is none."""
    if cfg.dataset.format == "file":
        return own_graph(cfg)
    if cfg.dataset.format == "cross_graph":
        return own_file(cfg.cross_graph.source, cfg.dataset.dir, "source")
    return None


def _on_dates(dates: list[str] | None, task: ShiftTask, added: Collection[int]) -> str:
    """A warning if labelled nodes are of another time than many others; "" if not."""
    if dates is None:
        return ""
    is_labelled = np.zeros(len(dates), dtype=bool)
    is_labelled[torch.cat([task.train, task.val, task.test]).cpu()] = True
    return on_labelled(dates, is_labelled, added)


def _saved(cfg: CfgNode, method: Method, task: ShiftTask, facts: dict[str, Any]) -> TrainedModel:
    """The model of a run, with the parameters of an estimator that would train it."""
    names = list(task.class_names)
    unknown = UNKNOWN if UNKNOWN not in names else f"{UNKNOWN} class"
    classes: list[Any] = names or original_labels(task)
    if names and task.open_set:
        classes = [*names, unknown]
    facts["params"] = {
        "lr": cfg.optim.base_lr,
        "weight_decay": cfg.optim.weight_decay,
        "random_state": cfg.seed,
        **{name: cfg.train[name] for name in ("selection", "max_episodes", "patience")},
    }
    return TrainedModel.of(method, task, values(cfg, cfg.train.mode, type(method)), classes, facts)
