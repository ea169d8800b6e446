"""Results as a pandas frame, for those who compare by their own means."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from graphgym_srnc.io.settings import flatten
from graphgym_srnc.report.read import COSTS, NAMED, collect

if TYPE_CHECKING:
    import pandas

PARTS = ("val", "test")


def results(*folders: str | os.PathLike, config: bool = False) -> pandas.DataFrame:
    """All finished runs in and below some folders, a row each.

    Columns are ``experiment``, ``seed``, ``method``, ``backbone``, ``task``, ``split`` (runs of an
    equal one are comparable), ``selection``, ``selected`` (the episode), ``seconds``,
    ``peak_memory_mib``, ``params``, ``warnings`` (their number), then the scores as
    ``val_micro_f1``, ``test_micro_f1``, ..., as shares.

    Args:
        folders: experiments, folders of them, or folders of such folders.
        config: also a column for each key of the configs, such as ``optim.base_lr``.

    Raises:
        InputError: a folder is not there, or none holds a result.
    """
    import pandas

    rows = []
    for experiment in collect(folders).experiments:
        for seed, result in sorted(experiment.results.items()):
            row = {"experiment": experiment.name, "seed": seed}
            row |= {name: result[name] for name in (*NAMED, "split", "selection", "selected")}
            row |= {name: result.get(name) for name in COSTS}
            row["warnings"] = len(result["warnings"])
            row |= {
                f"{part}_{name}": value for part in PARTS for name, value in result[part].items()
            }
            rows.append(row | (flatten(result["config"]) if config else {}))
    return pandas.DataFrame(rows)
