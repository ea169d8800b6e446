"""Methods: each module of this package defines one class of its name, ignoring case and ``_``.

Other packages add methods through entry points, see :mod:`graphgym_srnc.core.plugins`.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

from graphgym_srnc.core.plugins import entries, load, unknown
from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from graphgym_srnc.methods.shared.base import Method


def names() -> list[str]:
    """The name of every method, sorted; imports none of them."""
    return sorted({*own_names(), *entries("methods")})


def find(name: str) -> type[Method]:
    """The class of a method, e.g. ``ERM`` of ``erm``.

    Raises:
        InputError: there is no method of that name, or that of another package is none.
    """
    if name not in names():
        raise unknown("method", name, names())
    if name in own_names():
        found = vars(import_module(f"{__name__}.{name}"))
        wanted, classes = name.replace("_", ""), (c for c in found.values() if isinstance(c, type))
        return next(cls for cls in classes if cls.__name__.lower() == wanted)

    from graphgym_srnc.methods.shared.base import Method

    foreign = load("methods", name)
    if not (isinstance(foreign, type) and issubclass(foreign, Method) and foreign.key() == name):
        wanted = f"a subclass of {Method.__module__}.Method whose name in small letters is {name}"
        raise InputError.plain(f"method {name}", f"{foreign!r:.100} is not {wanted}")
    return foreign


def own_names() -> list[str]:
    """Names of the methods of this package, unsorted; imports none of them."""
    return [m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg]
