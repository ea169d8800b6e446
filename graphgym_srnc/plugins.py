"""Methods, shifts and backbones of other packages, which declare them as entry points.

The groups are ``graphgym_srnc.methods``, ``graphgym_srnc.shifts`` and ``graphgym_srnc.backbones``.
An entry's name is the name in configs; ours go before others of the same name. Modules of the group
``graphgym_srnc.register`` are imported with :mod:`graphgym_srnc.gym`, in every command and worker:
what they register with GraphGym, be it a layer, an activation or a metric, is there.
"""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@functools.cache
def entries(kind: str) -> dict[str, EntryPoint]:
    """By name what other packages declare as ``methods``, ``shifts``, ``backbones`` or
    ``register``; none of them is imported."""
    from importlib.metadata import entry_points  # slow, and --help needs none
    return {entry.name: entry for entry in entry_points(group=f"graphgym_srnc.{kind}")}


def load(kind: str, name: str) -> Any:
    """What an entry points to.

    Raises:
        InputError: it cannot be imported.
    """
    entry = entries(kind)[name]
    try:
        return entry.load()
    except Exception as error:  # a stranger's module may raise anything
        package = entry.dist.name if entry.dist is not None else entry.module
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(name, entry.value, f"what {package} can import ({cause})") from error
