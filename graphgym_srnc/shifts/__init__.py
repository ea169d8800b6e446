"""Shift scenarios, found by folder: each module here with a function ``build(*, name, root, split_seed, ...) -> ShiftTask`` is one."""
from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Callable

from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from graphgym_srnc.task import ShiftTask


def names() -> list[str]:
    """Names of all shifts; a module whose name starts with ``_`` is a helper."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def find(name: str) -> Callable[..., ShiftTask]:
    """The ``build`` function of a shift, imported on demand.

    Raises:
        InputError: there is no such shift.
    """
    if name not in names():
        raise InputError("dataset.format", name, ", ".join(names()))
    return import_module(f"{__name__}.{name}").build
