"""Methods, found by folder: each module defines one class of its name, up to case and ``_``."""
from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from graphgym_srnc.methods.base import Method


SHARED = ("base", "cluster_gnn", "committee", "correction", "cut", "resume", "scores", "supervised",
          "training")
"""Modules here that are no method but what methods share."""


def names() -> list[str]:
    """The name of every method, sorted; imports none of them."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in SHARED)


def find(name: str) -> type[Method]:
    """The class of a method, e.g. ``ERM`` of ``erm``.

    Raises:
        InputError: there is no method of that name.
    """
    if name not in names():
        raise InputError("method", name, ", ".join(names()))
    found = vars(import_module(f"{__name__}.{name}"))
    wanted = name.replace("_", "")
    return next(value for key, value in found.items()
                if key.lower() == wanted and isinstance(value, type))
