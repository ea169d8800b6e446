"""From settings to the runs that are missing. Every config is checked before the first run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

from graphgym_srnc.errors import InputError
from graphgym_srnc.io import store
from graphgym_srnc.sweep import space
from graphgym_srnc.sweep.jobs import Job

if TYPE_CHECKING:
    from yacs.config import CfgNode


class Cell(NamedTuple):
    """One experiment of a grid: config, folder, seeds, seeds still to run, and what it varies."""

    cfg: CfgNode
    experiment: store.Experiment
    seeds: range
    missing: list[int]
    setting: space.Setting = ()


def cells(
    settings: Sequence[space.Setting],
    base: str | None,
    base_name: str,
    overrides: Sequence[Any],
    out_dir: Path,
    repeat: int,
    resume: bool = False,
    overwrite: bool = False,
) -> list[Cell]:
    """The experiments of a grid, each checked; nothing is written or deleted yet.

    ``overrides`` are config keys and values, alternately; a setting goes first. ``resume`` and
    ``overwrite`` are those of ``store.Experiment.plan``.

    Raises:
        InputError: A key is unknown, a value has a wrong type, two settings have the same config or
            name, or the folder contains results of another config.
    """
    from graphgym_srnc.gym import load_config, run

    planned: list[Cell] = []
    seen: dict[tuple[str, str], str] = {}
    for setting in settings:
        file, words = base, list(overrides)
        for key, _, value in setting:
            if key == space.BASE_KEY:
                file = str(value)
            else:
                words += key, list(value) if isinstance(value, tuple) else value
        cfg = load_config(file, words)
        cfg.out_dir = str(out_dir)
        experiment = run.experiment(cfg, space.name(base_name, setting))

        text = ", ".join(f"{point.key} {point.value}" for point in setting)
        for kind, mark in (("names", experiment.name.casefold()), ("configs", experiment.digest)):
            other = seen.setdefault((kind, mark), text)
            if other is not text:
                message = f"the settings {other!r} and {text!r} have the same {kind[:-1]}"
                raise InputError.plain("--grid", message, "Remove one of them")
        seeds = store.seeds(cfg.seed, repeat)
        missing = experiment.plan(seeds, resume, overwrite)
        planned.append(Cell(cfg, experiment, seeds, missing, setting))
    return planned


def jobs(
    cells: Sequence[Cell], extras: Mapping[str, Any], figures: bool = False, overwrite: bool = False
) -> list[Job]:
    """The runs that are missing, experiment by experiment.

    ``figures`` draws those of each first seed. They trust their data if this process does.
    """
    from graphgym_srnc.data import untrusted

    missing = []
    for cfg, experiment, seeds, left, setting in cells:
        data = f"{cfg.dataset.format}/{cfg.dataset.name}"
        varied = {"method": cfg.train.mode, "backbone": cfg.gnn.layer_type, "data": data}
        varied |= {point.key: str(point.value) for point in setting}
        job = Job(
            str(experiment.out_dir),
            experiment.name,
            seeds[0],
            experiment.text,
            experiment.digest,
            varied,
            {**extras, "figures": figures},
            overwrite,
            untrusted.is_trusted(),
            min({*seeds} - {*left}, default=seeds[0]),
        )
        for seed in left:
            own = {**job.extras, "figures": figures and seed == seeds[0]}
            missing.append(job._replace(seed=seed, varied={**varied, "seed": seed}, extras=own))
    return missing


def known_data(cells: Sequence[Cell]) -> dict[str, str]:
    """Fingerprint by name of the data, from finished runs with the ``data_seed`` of their jobs."""
    from graphgym_srnc.gym.prepare import data_name

    known = {}
    for cell in cells:
        for seed in sorted({*cell.seeds} - {*cell.missing})[:1]:
            result = cell.experiment.result(seed)
            if result is not None:
                known[data_name(cell.cfg, seed)] = result["split"]
    return known
