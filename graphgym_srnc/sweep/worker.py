"""What a worker process does with a job."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys

from graphgym_srnc.data import untrusted
from graphgym_srnc.gym import build_task, run
from graphgym_srnc.gym.prepare import data_key
from graphgym_srnc.report.summary import line
from graphgym_srnc.sweep.jobs import Job

_splits: dict[str, str] = {}


def execute(job: Job) -> str:
    """Train, score and store a run, unless it is finished; return a line about it."""
    cfg = job.cfg.clone()
    cfg.out_dir = job.out_dir
    experiment = run.experiment(cfg, job.name)
    # On a node of a cluster this folder is another one. The record names that of the plan.
    experiment.config["out_dir"] = job.cfg.out_dir
    with untrusted.trusted(job.trust):
        try:
            result = run.run(
                cfg,
                job.seed,
                experiment,
                extras=run.Extras(**job.extras),
                resume=not job.overwrite,
                overwrite=job.overwrite,
            )
            return line(result)
        finally:
            _release_memory()


def split_of(job: Job) -> str:
    """The fingerprint of the task of a job with the data on this machine."""
    key = data_key(job.cfg, job.seed)
    if key not in _splits:
        cfg = job.cfg.clone()
        cfg.seed = job.seed
        with untrusted.trusted(job.trust):
            _splits[key] = build_task(cfg).fingerprint()
    return _splits[key]


def _release_memory() -> None:
    """Free what a run held, so that the peak of the next one is its own."""
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
