"""Entry points through which other packages add methods, shifts and backbones.

The entry point groups are ``graphgym_srnc.methods``, ``graphgym_srnc.shifts`` and
``graphgym_srnc.backbones``. The name of an entry is its name in configs. If names collide, the
package's own entry is used. Modules in the group ``graphgym_srnc.register`` are imported with
``graphgym_srnc.gym``, in every command and worker process. They can register layers, activations
or metrics with GraphGym.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Sequence

from graphgym_srnc.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@functools.cache
def entries(kind: str) -> dict[str, EntryPoint]:
    """Entry points of one kind by name, without importing them."""
    from importlib.metadata import entry_points  # slow import, not needed for --help

    return {entry.name: entry for entry in entry_points(group=f"graphgym_srnc.{kind}")}


def unknown(kind: str, name: str, names: Sequence[str]) -> InputError:
    """The error about a name that is none of ``names``; it suggests the nearest of them."""
    error = InputError(kind, name, ", ".join(names))
    near = did_you_mean(name, names)
    return error.noted(near) if near else error


def load(kind: str, name: str) -> Any:
    """Import the object that an entry point refers to."""
    entry = entries(kind)[name]
    try:
        return entry.load()
    except Exception as error:  # a foreign module may raise any exception
        package = entry.dist.name if entry.dist is not None else entry.module
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        message = f"the package {package} cannot import {entry.value} ({cause})"
        raise InputError.plain(name, message) from error
