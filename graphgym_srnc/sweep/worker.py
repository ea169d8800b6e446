"""What a worker process does with a job."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys

from graphgym_srnc.data import untrusted
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import parse_config, prepare, run
from graphgym_srnc.report.summary import line
from graphgym_srnc.sweep.jobs import Job

_fingerprints: dict[str, str] = {}


def execute(job: Job) -> str:
    """Train, score and store a run, unless it is finished; return a line about it.

    Raises:
        store.Busy: Another process holds the run.
        InputError: The config is not the planned one, or does not suit its task.
    """
    cfg, experiment = _experiment(job.config, job.out_dir, job.name, job.data_dir)
    if experiment.digest != job.digest:
        message = f"its digest is {experiment.digest}, and the digest of the plan is {job.digest}"
        raise InputError.plain("config", message)

    with experiment.claim(job.seed, job.overwrite) as result, untrusted.trusted(job.trust):
        if result is None:
            extras = run.Extras(**job.extras, varied=tuple(job.varied.items()))
            try:
                result = run.run(cfg, job.seed, experiment, None, extras, not job.overwrite)
            finally:
                _release_memory()
    return line(result)


def data_of(job: Job) -> tuple[str, str]:
    """See :data:`graphgym_srnc.sweep.jobs.DataOf`.

    Raises:
        InputError: The task cannot be built here.
    """
    cfg, _ = _experiment(job.config, job.out_dir, job.name, job.data_dir)
    name = prepare.data_name(cfg, job.data_seed)
    if name not in _fingerprints:
        with untrusted.trusted(job.trust):
            _fingerprints[name] = prepare.fingerprint(cfg, job.data_seed)
    return name, _fingerprints[name]


@functools.lru_cache(4)  # the seeds of a config come after one another
def _experiment(config: str, out_dir: str, name: str, data_dir: tuple[str, str]) -> tuple:
    cfg = parse_config(config)
    planned, cfg.out_dir = cfg.out_dir, out_dir
    experiment = run.experiment(cfg, name)
    # On a node of a cluster both folders are others. The record names those of the plan.
    experiment.config["out_dir"] = planned
    if data_dir[1] and cfg.dataset.dir == data_dir[0]:
        cfg.dataset.dir = data_dir[1]
    return cfg, experiment


def _release_memory() -> None:
    """Free what a run held, so that limit and peak of the next one are its own."""
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
