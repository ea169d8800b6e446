"""Shift scenarios. Each module in this package that defines ``build`` is a scenario.

``build(*, name, root, split_seed, ...) -> ShiftTask`` has keyword-only options with defaults. Their
annotations define the allowed values. Other packages can add shifts through entry points, see
``graphgym_srnc.core.plugins``.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable

from graphgym_srnc.core import options
from graphgym_srnc.core.plugins import Registry
from graphgym_srnc.errors import InputError, renamed

if TYPE_CHECKING:
    from graphgym_srnc.core.task import ShiftTask

__all__ = ["find", "forget", "names"]
SHARED = ("given", "splits", "union")  # modules of this package that are not shifts


def __dir__() -> list[str]:
    return __all__


def find(name: str) -> Callable[..., ShiftTask]:
    """The ``build`` function of a shift, which validates its options.

    Error messages put the name of the shift before the option, for example ``open_set.num_unseen``.

    Raises:
        InputError: there is no such shift, or it has an argument that cannot be an option.
    """
    return _checked(SHIFTS.find(name), name)


def forget() -> None:
    """Clear the cache of loaded graphs."""
    from graphgym_srnc.data import datasets, networks

    datasets.load.cache_clear()
    datasets.load_all.cache_clear()
    networks.read.cache_clear()


@functools.cache
def _check(build: Any, name: str) -> None:
    options.check_signature(build, name)
    arguments = inspect.signature(build).parameters
    missing = [key for key in options.SHARED if key not in arguments]
    if missing:
        raise InputError.plain(
            name,
            f"its build has no argument {' and '.join(map(repr, missing))}",
            "Add name and root",
        )


@functools.cache
def _checked(build: Callable[..., ShiftTask], name: str) -> Callable[..., ShiftTask]:
    from graphgym_srnc.core.task import ShiftTask

    keys = {option.key: f"{name}.{option.key}" for option in options.options(build)}

    @functools.wraps(build)
    def call(*args: Any, **kwargs: Any) -> ShiftTask:
        task = build(*args, **kwargs)
        if not isinstance(task, ShiftTask):
            raise InputError.plain(
                f"shift {name}", f"its build must return a ShiftTask, got {type(task).__name__}"
            )
        return task

    return renamed(keys)(options.checked(call))


SHIFTS: Registry[Callable[..., ShiftTask]] = Registry(__name__, _check, SHARED, function="build")
names = SHIFTS.names
own_names = SHIFTS.own_names
