"""From settings to the runs that are missing. Every config is checked before the first run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Sequence

from graphgym_srnc.errors import InputError
from graphgym_srnc.gym import load_config, run
from graphgym_srnc.gym.prepare import data_key
from graphgym_srnc.io import store
from graphgym_srnc.io.config_files import Settings
from graphgym_srnc.sweep import space


class Cell(NamedTuple):
    """One experiment of a sweep: config, folder, seeds, seeds still to run, and what it varies."""

    cfg: run.CfgNode
    experiment: store.Experiment
    seeds: range
    missing: list[int]
    setting: space.Setting = ()


def cell(
    cfg: run.CfgNode,
    out_dir: Path,
    name: str,
    seeds: range,
    setting: space.Setting,
    resume: bool = False,
    overwrite: bool = False,
) -> Cell:
    """An experiment of a config, see ``store.Experiment.plan``; nothing is written yet."""
    cfg.out_dir = str(out_dir)
    experiment = run.experiment(cfg, name)
    return Cell(cfg, experiment, seeds, experiment.plan(seeds, resume, overwrite), setting)


def cells(
    settings: Sequence[space.Setting],
    base: Settings,
    base_name: str,
    overrides: Sequence[Any],
    out_dir: Path,
    repeat: int,
    resume: bool = False,
    overwrite: bool = False,
) -> list[Cell]:
    """The experiments of a grid, each checked; nothing is written or deleted yet.

    ``base`` has the settings of a config file, and ``overrides`` config keys and values,
    alternately; a setting of the grid goes first.

    Raises:
        InputError: A key is unknown, a value has a wrong type, two settings have the same config or
            name, or the folder contains results of another config.
    """
    planned: list[Cell] = []
    seen: dict[tuple[str, str], str] = {}
    for setting in settings:
        source: Settings | str = base
        words = list(overrides)
        for key, _, value in setting:
            if key == space.BASE_KEY:
                source = str(value)
            else:
                words += key, list(value) if isinstance(value, tuple) else value
        cfg = load_config(source, words)
        name, seeds = space.name(base_name, setting), store.seeds(cfg.seed, repeat)
        found = cell(cfg, out_dir, name, seeds, setting, resume, overwrite)

        text = ", ".join(f"{point.key} {point.value}" for point in setting)
        for kind, mark in (("names", name.casefold()), ("configs", found.experiment.digest)):
            other = seen.setdefault((kind, mark), text)
            if other is not text:
                message = f"the settings {other!r} and {text!r} have the same {kind[:-1]}"
                raise InputError.plain("--grid", message, "Remove one of them")
        planned.append(found)
    return planned


def known_data(cells: Sequence[Cell]) -> dict[str, str]:
    """Fingerprint by key of the data, from finished runs with the ``data_seed`` of their jobs."""
    known = {}
    for cell in cells:
        for seed in sorted({*cell.seeds} - {*cell.missing})[:1]:
            result = cell.experiment.result(seed)
            if result is not None:
                known[data_key(cell.cfg, seed)] = result["split"]
    return known
