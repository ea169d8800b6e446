"""Shift scenarios. Each module in this package that defines ``build`` is a scenario.

``build(*, name, root, split_seed, ...) -> ShiftTask`` has keyword-only options with defaults. Their
annotations define the allowed values. Other packages can add shifts through entry points, see
``graphgym_srnc.core.plugins``.
"""

from __future__ import annotations

import functools
import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Callable

from graphgym_srnc.core.options import checked, options
from graphgym_srnc.core.plugins import entries, load, unknown
from graphgym_srnc.errors import renamed

if TYPE_CHECKING:
    from graphgym_srnc.core.task import ShiftTask

__all__ = ["find", "forget", "names"]
SHARED = ("given", "splits")  # modules of this package that are not shifts


def __dir__() -> list[str]:
    return __all__


def names() -> list[str]:
    """Sorted names of all shifts, without importing them."""
    return sorted({*own_names(), *entries("shifts")})


def find(name: str) -> Callable[..., ShiftTask]:
    """The ``build`` function of a shift, which validates its options.

    Error messages put the name of the shift before the option, for example ``open_set.num_unseen``.

    Raises:
        InputError: there is no such shift.
    """
    if name not in names():
        raise unknown("shift", name, names())
    own = name in own_names()
    build = import_module(f"{__name__}.{name}").build if own else load("shifts", name)
    return _checked(build, name)


def forget() -> None:
    """Clear the cache of loaded graphs."""
    from graphgym_srnc.data import datasets, networks

    datasets.load.cache_clear()
    networks.read.cache_clear()


def own_names() -> list[str]:
    """Unsorted names of the shifts in this package, without importing them."""
    return [m.name for m in pkgutil.iter_modules(__path__) if m.name not in SHARED]


@functools.cache
def _checked(build: Callable[..., ShiftTask], name: str) -> Callable[..., ShiftTask]:
    keys = {option.key: f"{name}.{option.key}" for option in options(build)}
    return renamed(keys)(checked(build))
