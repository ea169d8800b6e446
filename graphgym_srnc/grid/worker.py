"""What a worker does with a job."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys

from graphgym_srnc.errors import InputError
from graphgym_srnc.grid.jobs import Job
from graphgym_srnc.gym import parse_config
from graphgym_srnc.report.table import line
from graphgym_srnc.runs import run

SETTINGS = 4
"""Configs that a worker keeps parsed, since the seeds of one come after another."""


def execute(job: Job) -> str:
    """Train, score and store a run, unless it is finished; returns its line.

    Raises:
        store.Busy: another process is at it.
        InputError: the config is not the one that was planned, or does not suit its task.
    """
    cfg, place = _place(job.config, job.out_dir, job.name)
    if place.digest != job.digest:
        raise InputError("config", place.digest, f"the digest of the plan, {job.digest}")
    with place.claim(job.seed):
        # Whoever held it before may have finished it.
        result = None if job.overwrite else place.result(job.seed)
        if result is None:
            try:
                extras = run.Extras(**job.extras, varied=tuple(job.varied.items()))
                result = run.run(cfg, job.seed, place, extras=extras, resume=not job.overwrite)
            finally:
                _release_memory()
    return line(result)


@functools.lru_cache(SETTINGS)
def _place(text: str, out_dir: str, name: str) -> tuple:
    cfg = parse_config(text)
    cfg.out_dir = out_dir
    return cfg, run.experiment(cfg, name)


def _release_memory() -> None:
    """Give back what a run held, so that limit and peak of the next are its own."""
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
