"""From a grid file to the runs that are missing: every config is made and checked before the first
run starts."""

from __future__ import annotations

import contextlib
import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple, Sequence

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.io import store
from graphgym_srnc.sweep import space
from graphgym_srnc.sweep.jobs import Job

if TYPE_CHECKING:
    from yacs.config import CfgNode


class Cell(NamedTuple):
    """One experiment of a grid: its config, where its runs are stored, all its seeds, those still
    to run, and its setting."""

    cfg: CfgNode
    experiment: store.Experiment
    seeds: range
    missing: list[int]
    setting: space.Setting = ()


def find(name: str) -> Path:
    """A grid file, or a shipped one by name, e.g. ``grids/open_set``.

    Raises:
        InputError: there is no such file.
    """
    from graphgym_srnc.io.settings import config_root

    root = config_root()
    for path in (Path(name), root / name, root / f"{name}.txt"):
        if path.is_file():
            return path
    paths = root.rglob("*.txt")
    shipped = sorted(path.relative_to(root).with_suffix("").as_posix() for path in paths)
    near = ", ".join(difflib.get_close_matches(name, shipped) or shipped)
    raise InputError.plain(
        "--grid", f"there is no grid file {name!r}", f"Give a file, or a shipped one: {near}"
    )


def cells(
    settings: Sequence[space.Setting],
    base: str | None,
    base_name: str,
    overrides: Sequence[str],
    out_dir: Path,
    repeat: int,
    resume: bool = False,
    overwrite: bool = False,
) -> list[Cell]:
    """The experiments of a grid, each checked; nothing is written or deleted yet.

    Args:
        settings: what each of them varies.
        base: the base config, unless a setting names its own.
        base_name: what their names begin with.
        overrides: keys and values, alternately, for all of them; a setting goes first.
        out_dir: the directory of the experiments.
        repeat: number of seeds of each.
        resume, overwrite: see ``store.Experiment.plan``.

    Raises:
        InputError: an unknown key, a value of a wrong type, two settings that are one run or have
            one name, or results in the place which belong to another config.
    """
    from graphgym_srnc.gym import load_config, run

    planned: list[Cell] = []
    seen: dict[tuple[str, str], str] = {}
    for setting in settings:
        values = {p.key: list(p.value) if isinstance(p.value, tuple) else p.value for p in setting}
        file = values.pop(space.BASE_KEY, base)
        words = [word for item in values.items() for word in item]
        cfg = load_config(file, [*overrides, *words])
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


def adopt(
    cells: Iterable[Cell], out_dir: Path, finished: Mapping[str, Mapping[int, store.Result]]
) -> int:
    """Take over finished runs of the same config and seed which lie in ``out_dir`` under another
    name; returns how many.

    So runs are known by what they are: a grid file may rename an alias without a run being done
    again.

    Args:
        cells: the experiments of the grid.
        out_dir: the directory of the experiments.
        finished: the finished runs in it, by experiment and seed.
    """
    folders = {
        (result["digest"], seed): out_dir / name / str(seed)
        for name, results in finished.items()
        for seed, result in results.items()
    }
    adopted = 0
    for cell in cells:
        experiment = cell.experiment
        for seed in list(cell.missing):
            folder = folders.get((experiment.digest, seed))
            if folder is not None and folder.parent != experiment.path:
                with contextlib.suppress(store.Busy), experiment.claim(seed) as present:
                    if present is None:
                        experiment.adopt(seed, folder)
                    cell.missing.remove(seed)
                    adopted += 1
    return adopted


def jobs(
    cells: Sequence[Cell], extras: Mapping[str, Any], figures: bool = False, overwrite: bool = False
) -> list[Job]:
    """The runs that are missing, all seeds of one experiment after another; ``figures`` draws those
    of each first seed. They trust their data if this process does."""
    from graphgym_srnc.data import untrusted

    missing = []
    for cell in cells:
        cfg, experiment = cell.cfg, cell.experiment
        data = f"{cfg.dataset.format}/{cfg.dataset.name}"
        varied = {"method": cfg.train.mode, "backbone": cfg.gnn.layer_type, "data": data}
        varied |= {point.key: str(point.value) for point in cell.setting}
        finished = {*cell.seeds} - {*cell.missing}
        for seed in cell.missing:
            drawn = {"figures": figures and seed == cell.seeds[0]}
            missing.append(
                Job(
                    str(experiment.out_dir),
                    experiment.name,
                    seed,
                    experiment.text,
                    experiment.digest,
                    {**varied, "seed": seed},
                    {**extras, **drawn},
                    overwrite,
                    untrusted.is_trusted(),
                    min(finished, default=cell.seeds[0]),
                )
            )
    return missing


def known_data(cells: Sequence[Cell]) -> dict[str, str]:
    """The fingerprint of a finished run of each experiment by what its data are called: that of the
    ``data_seed`` of its jobs."""
    from graphgym_srnc.gym.prepare import data_name

    known = {}
    for cell in cells:
        for seed in sorted({*cell.seeds} - {*cell.missing})[:1]:
            result = cell.experiment.result(seed)
            if result is not None:
                known[data_name(cell.cfg, seed)] = result["split"]
    return known
