"""What a worker does with a job."""
from __future__ import annotations

from graphgym_srnc.errors import InputError
from graphgym_srnc.grid.jobs import Job


def execute(job: Job) -> str:
    """Train, score and store a run, unless it is finished; returns its line.

    Raises:
        store.Busy: another process is at it.
        InputError: the config is not the one that was planned, or does not suit its task.
    """
    from graphgym_srnc.gym import parse_config, runs
    from graphgym_srnc.report.table import line
    cfg = parse_config(job.config)
    cfg.out_dir = job.out_dir
    place = runs.experiment(cfg, job.name)
    if place.digest != job.digest:
        raise InputError("config", place.digest, f"the digest of the plan, {job.digest}")
    with place.claim(job.seed):
        # Whoever held it before may have finished it.
        result = place.result(job.seed)
        if result is None:
            result = runs.run(cfg, job.seed, place, extras=runs.Extras(**job.extras, varied=tuple(job.varied.items())))
    return line(result)
