"""Data made ready before workers start: one process downloads and processes each data set."""
from __future__ import annotations

import json
from typing import Any, Sequence

from graphgym_srnc import shifts
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym.build import build_task, shift_options
from graphgym_srnc.gym.config import CfgNode


def prepare(configs: Sequence[CfgNode], names: Sequence[str] = ()) -> dict[str, str]:
    """Make one task of each distinct data set, and forget it again.

    Args:
        configs: the configs of all runs to come. Those that differ in the seed of the split alone
            have the same data; the first of them is tried.
        names: what errors call the configs; by default their numbers.

    Returns:
        The fingerprint of each task that was made, by its :func:`data_key`. A finished run of the
        same key whose ``split`` is another fingerprint was made of other data.

    Raises:
        InputError: a task cannot be made; names the data set and the config.
    """
    fingerprints: dict[str, str] = {}
    tried = set()
    for number, cfg in enumerate(configs):
        data = json.dumps(_data(cfg) | {"split_seed": None})
        if data in tried:
            continue
        tried.add(data)
        name = names[number] if names else number
        where = f"{cfg.dataset.format}/{cfg.dataset.name}, config {name}"
        try:
            fingerprints[data_key(cfg)] = build_task(cfg).fingerprint()
        except InputError as error:
            raise InputError(error.key, error.value, f"{error.allowed} ({where})") from error
        except Exception as error:
            reason = f"data that can be read ({where}; {type(error).__name__}: {error})"
            raise InputError("dataset.name", cfg.dataset.name, reason) from error
    shifts.forget()
    return fingerprints


def data_key(cfg: CfgNode) -> str:
    """All that the task of a config is made of: shift, data set, folder, options, split seed."""
    return json.dumps(_data(cfg))


def _data(cfg: CfgNode) -> dict[str, Any]:
    return {"format": cfg.dataset.format, "name": cfg.dataset.name, "dir": cfg.dataset.dir,
            **shift_options(cfg)}
