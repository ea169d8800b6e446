"""One run of a config with a seed, for commands and workers of a grid."""

from __future__ import annotations

import contextlib
from typing import Sequence

import torch
from torch_geometric import seed_everything

from graphgym_srnc.core import environment, parallel
from graphgym_srnc.data.describe import label_counts
from graphgym_srnc.gym import model as models
from graphgym_srnc.gym.build import build_task, device, visible_task
from graphgym_srnc.gym.checkpoint import Checkpoint
from graphgym_srnc.gym.config import CfgNode, activate, dump_config, schema
from graphgym_srnc.gym.recorder import Extras, Recorder, Silent, Watch
from graphgym_srnc.gym.training import fit, fit_standard
from graphgym_srnc.io.store import Experiment, Result
from graphgym_srnc.plots import events
from graphgym_srnc.train.diagnostics import judge
from graphgym_srnc.train.trainer import RunRecord


def experiment(cfg: CfgNode, name: str) -> Experiment:
    """The experiment of a config, stored in ``<cfg.out_dir>/<name>``.

    It does not contain the blocks of other methods and shifts. Otherwise each new method would
    change the config of stored results.
    """
    unused = set(schema()) - {"train", "dataset", cfg.train.mode, cfg.dataset.format}
    used = {key: value for key, value in cfg.items() if key not in unused}
    return Experiment(cfg.out_dir, name, used, dump_config(cfg))


def run(
    base: CfgNode,
    seed: int,
    experiment: Experiment,
    watch: Watch | None = None,
    extras: Extras | None = None,
    resume: bool = False,
) -> Result:
    """Train and score a config with a seed, and store the result.

    Args:
        base: the config, which is not changed.
        seed: seed of the weights, and of the split if the split's seed is -1.
        experiment: the experiment of the config.
        watch: shows progress.
        extras: what is written beside the record.
        resume: whether to continue from the run's checkpoint, if there is one.

    Returns:
        The stored result. If several processes train together, the first one stores and returns it,
        and the others return an empty dictionary.

    Raises:
        InputError: the task cannot be made with these options, or does not suit the method.
        FloatingPointError: a loss term is NaN or infinite.
    """
    watch, extras = watch or Silent(), extras or Extras()
    directory = experiment.path / str(seed)
    cfg = base.clone()
    cfg.seed, cfg.run_dir = seed, str(directory)
    activate(cfg)
    where = device(cfg)
    _set_up_process(cfg)

    recorder = Recorder(cfg, experiment, watch, extras)
    environment.reset_peak_memory()
    watch.doing("reading data")
    task = build_task(cfg)
    watch.doing("pre-training")
    edges = max(graph.edge_index.size(1) for graph in (task.source, task.target))
    threads = environment.threads(cfg.num_threads, edges)
    torch.set_num_threads(threads)
    if cfg.train.mode == "standard":
        model, record, train_scores = fit_standard(cfg, task, experiment.begin(seed))
    else:
        checkpoint = Checkpoint(
            experiment, seed, task.fingerprint(), cfg.train.checkpoint, watch.say, resume, recorder
        )
        shown, train_scores = task.to(where), recorder.train_scores
        with contextlib.closing(recorder):
            model, record = fit(cfg, shown, [recorder], checkpoint)
            seen = visible_task(model, shown)
            record.verdict = judge(model, seen, record.first)._asdict()
            if not parallel.first():
                return {}
            recorder.finish(record, model, seen)
            if cfg.train.save_model:
                models.save(directory, cfg, model, shown, experiment.digest)

    result = {
        "method": cfg.train.mode,
        "backbone": cfg.gnn.layer_type,
        "task": task.name,
        "split": task.fingerprint(),
        "info": dict(task.info),
        "lr": cfg.optim.base_lr,
        "threads": threads,
        "processes": parallel.count(),
        "seconds": recorder.seconds(),
        "peak_memory_mib": environment.peak_memory(),
        **_outcome(record, train_scores),
        "params": sum(parameter.numel() for parameter in model.parameters()),
        "labels": label_counts(task),
    }
    if extras.tensorboard and cfg.train.mode == "standard":
        # GraphGym's own training is not watched as it goes.
        events.write_run(directory, {"seed": seed, **result}, extras.settings(cfg))
    return experiment.finish(seed, result)


def _set_up_process(cfg: CfgNode) -> None:
    """Set threads, memory and random numbers, so that a run is the same in every process."""
    torch.set_num_threads(environment.threads(cfg.num_threads))
    environment.keep_memory()
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling fresh memory guards against reading it; it costs time and does not make runs equal.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    seed_everything(cfg.seed)


def _outcome(record: RunRecord, train_scores: Sequence[dict[str, float]]) -> Result:
    """The part of a result that comes from the record of the training."""
    history = [
        {
            "number": episode.number,
            "losses": episode.losses,
            "train": scores,
            "val": episode.val,
            "test": episode.test,
            "seconds": episode.seconds,
        }
        for episode, scores in zip(record.history, train_scores)
    ]
    verdict = {"verdict": record.verdict} if record.verdict else {}
    return {
        "fingerprint": record.fingerprint,
        "selection": record.selection,
        "selected": record.best,
        "score": record.score,
        "stopped": record.stopped,
        "warnings": record.warnings,
        **verdict,
        "val": record.val,
        "test": record.test,
        "history": history,
    }
