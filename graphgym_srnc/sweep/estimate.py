"""What a grid has still to do, and how long that takes, judged by like runs that are finished."""

from __future__ import annotations

import math
from statistics import median_high
from typing import Iterable, Sequence

from graphgym_srnc.io import store
from graphgym_srnc.sweep.plan import Cell


def summary(cells: Sequence[Cell], known: Iterable[store.Result], workers: int) -> list[str]:
    """One line about all runs of a grid, and one about those that are missing, if some are.

    Args:
        cells: the experiments of the grid.
        known: finished runs, of this grid or another one.
        workers: processes at a time; 0 where a cluster decides that.
    """
    missing = sum(len(cell.missing) for cell in cells)
    total = sum(len(cell.seeds) for cell in cells)
    done = f", {total - missing} of them finished" if missing < total else ""
    lines = [f"{len(cells)} settings, {total} runs{done}"]
    if missing:
        total_seconds, unknown = seconds(cells, known, workers or 1)
        where = f"{workers} at a time" if workers else "on the cluster"
        alike = f" for {missing - unknown} of them" if unknown else ""
        spent = f"{span(total_seconds)}{'' if workers else ' of computing'}"
        judged = (
            f": about {spent}{alike}, estimated from finished runs of the same method and data"
            if unknown < missing
            else ""
        )
        new = " of the others" if judged else ""
        hint = f"; the time{new} is unknown until a similar run has finished" if unknown else ""
        lines.append(f"{missing} to run, {where}{judged}{hint}")
    return lines


def seconds(
    cells: Sequence[Cell], known: Iterable[store.Result], workers: int
) -> tuple[float, int]:
    """Seconds that the missing runs will take, by the median of like runs that are finished, and
    the number of runs like none of them.

    Alike are runs of the same method on the same data, best with the same backbone too.
    """
    times: dict[tuple, list[float]] = {}
    for result in known:
        data = result["config"]["dataset"]
        kind = (result["method"], data["format"], data["name"])
        for key in (kind, (*kind, result["backbone"])):
            times.setdefault(key, []).append(result["seconds"])

    total, unknown = 0.0, 0
    for cell in cells:
        kind = (cell.cfg.train.mode, cell.cfg.dataset.format, cell.cfg.dataset.name)
        alike = times.get((*kind, cell.cfg.gnn.layer_type)) or times.get(kind)
        if alike is None:
            unknown += len(cell.missing)
        else:
            total += len(cell.missing) * median_high(alike)
    return total / workers, unknown


def span(seconds: float) -> str:
    """A time for people: ``50 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
