"""From a grid file to the runs that are missing: every config is made and checked before the first run starts."""
from __future__ import annotations

import contextlib
import difflib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple, Sequence

from graphgym_srnc import store
from graphgym_srnc.errors import InputError
from graphgym_srnc.grid import space
from graphgym_srnc.grid.jobs import Job

if TYPE_CHECKING:
    from yacs.config import CfgNode


class Cell(NamedTuple):
    """One experiment of a grid: its setting, its config, where its runs are stored, and the seeds still to run."""

    setting: space.Setting
    cfg: CfgNode
    place: store.Experiment
    seeds: range
    missing: list[int]


def find(name: str) -> Path:
    """A grid file, or a shipped one by name, e.g. ``grids/open_set``.

    Raises:
        InputError: there is no such file.
    """
    from graphgym_srnc.gym import config_root
    root = config_root()
    for path in (Path(name), root / name, root / f"{name}.txt"):
        if path.is_file():
            return path
    shipped = sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.txt"))
    near = difflib.get_close_matches(name, shipped) or shipped
    raise InputError("--grid", name, f"a grid file, or the name of a shipped one: {', '.join(near)}")


def cells(settings: Sequence[space.Setting], base: str | None, base_name: str, overrides: Sequence[str], out_dir: Path, repeat: int,
          resume: bool = False, overwrite: bool = False) -> list[Cell]:
    """The experiments of a grid, each checked; nothing is written or deleted yet.

    Args:
        settings: what each of them varies.
        base: the base config, unless a setting names its own.
        base_name: what their names begin with.
        overrides: keys and values by turns, for all of them; a setting goes first.
        out_dir: the directory of the experiments.
        repeat: number of seeds of each.
        resume, overwrite: see ``store.Experiment.plan``.

    Raises:
        InputError: an unknown key, a value of a wrong type, two settings that are one run or have one name, or results in the place
            which belong to another config.
    """
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.runs import run
    found: list[Cell] = []
    names: dict[str, str] = {}
    digests: dict[str, str] = {}
    for setting in settings:
        values = {point.key: list(point.value) if isinstance(point.value, tuple) else point.value for point in setting}
        cfg = load_config(values.pop(space.BASE, base), [*overrides, *(word for item in values.items() for word in item)])
        cfg.out_dir = str(out_dir)
        place = run.experiment(cfg, space.name(base_name, setting))
        told = ", ".join(f"{point.key} {point.value}" for point in setting)
        for kind, seen, mark in (("names", names, place.name.casefold()), ("configs", digests, place.digest)):
            if seen.setdefault(mark, told) is not told:
                raise InputError("--grid", f"{seen[mark]} and {told}", f"settings of different {kind}")
        seeds = range(cfg.seed, cfg.seed + repeat)
        found.append(Cell(setting, cfg, place, seeds, place.plan(seeds, resume, overwrite)))
    return found


def adopt(found: Iterable[Cell], out_dir: Path, finished: Mapping[str, Mapping[int, store.Result]]) -> int:
    """Take over finished runs of the same config and seed which lie in ``out_dir`` under another name; returns how many.

    So runs are known by what they are: a grid file may rename an alias without a run being done again.

    Args:
        found: the experiments of the grid.
        out_dir: the directory of the experiments.
        finished: the finished runs in it, by experiment and seed.
    """
    by_digest: dict[tuple[str, int], Path] = {}
    for name, results in finished.items():
        by_digest |= {(result["digest"], seed): out_dir / name / str(seed) for seed, result in results.items()}
    adopted = 0
    for cell in found:
        for seed in list(cell.missing):
            other = by_digest.get((cell.place.digest, seed))
            if other is not None and other.parent != cell.place.path:
                with contextlib.suppress(store.Busy), cell.place.claim(seed):
                    cell.place.adopt(seed, other)
                    cell.missing.remove(seed)
                    adopted += 1
    return adopted


def jobs(found: Sequence[Cell], extras: Mapping[str, Any], figures: bool = False, overwrite: bool = False) -> list[Job]:
    """The runs that are missing, all seeds of one experiment after another; ``figures`` draws those of each first seed."""
    todo = []
    for cell in found:
        cfg, place = cell.cfg, cell.place
        shown = {"method": cfg.train.mode, "backbone": cfg.gnn.layer_type, "data": f"{cfg.dataset.format}/{cfg.dataset.name}"}
        shown |= {point.key: str(point.value) for point in cell.setting}
        todo += [Job(str(place.out_dir), place.name, seed, place.text, place.digest, shown | {"seed": seed},
                     {**extras, "figures": figures and seed == cell.seeds[0]}, overwrite) for seed in cell.missing]
    return todo


def estimate(found: Sequence[Cell], known: Iterable[store.Result], workers: int) -> tuple[float, int]:
    """Seconds that the missing runs will take, by the median of like runs that are finished, and the number of runs like none of them.

    Alike are runs of the same method on the same data, best with the same backbone too.
    """
    times: dict[tuple, list[float]] = {}
    for result in known:
        data = result["config"]["dataset"]
        key = (result["method"], data["format"], data["name"])
        for mark in (key, (*key, result["backbone"])):
            times.setdefault(mark, []).append(result["seconds"])
    total, unknown = 0.0, 0
    for cell in found:
        key = (cell.cfg.train.mode, cell.cfg.dataset.format, cell.cfg.dataset.name)
        like = times.get((*key, cell.cfg.gnn.layer_type)) or times.get(key)
        if like is None:
            unknown += len(cell.missing)
        else:
            total += len(cell.missing) * sorted(like)[len(like) // 2]
    return total / workers, unknown


def span(seconds: float) -> str:
    """A time for people: ``50 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
