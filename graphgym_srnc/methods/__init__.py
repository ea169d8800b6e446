"""Methods: each module of this package defines one class of its name, ignoring case and ``_``.

Other packages add methods through entry points, see :mod:`graphgym_srnc.core.plugins`.
"""

from __future__ import annotations

import functools
import inspect
import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphgym_srnc.core import options
from graphgym_srnc.core.plugins import added, load
from graphgym_srnc.errors import InputError, not_one_of

if TYPE_CHECKING:
    from graphgym_srnc.methods.shared.base import Method


def names() -> list[str]:
    """The name of every method, sorted; imports none of them."""
    return sorted([*own_names(), *added("methods", own_names())])


def find(name: str) -> type[Method]:
    """The class of a method, e.g. ``ERM`` of ``erm``.

    Raises:
        InputError: there is no method of that name, or its class is none, or it has a keyword that
            cannot be an option.
    """
    if name not in names():
        raise not_one_of("method", name, names())
    if name in own_names():
        found = vars(import_module(f"{__name__}.{name}"))
        wanted, classes = name.replace("_", ""), (c for c in found.values() if isinstance(c, type))
        own: Any = next((cls for cls in classes if cls.__name__.lower() == wanted), None)
        _check(own, name)
        return own
    return load("methods", name, functools.partial(_check, name=name))


@functools.cache
def _check(found: Any, name: str) -> None:
    from graphgym_srnc.methods.shared.base import Method

    if not (isinstance(found, type) and issubclass(found, Method) and found.key() == name):
        wanted = f"a subclass of {Method.__module__}.Method whose name in small letters is {name}"
        raise InputError.plain(f"method {name}", f"{found!r:.100} is not {wanted}")
    options.check_signature(found, f"method {name}", ("encoder", "make_optimizer"))
    parameters = inspect.signature(vars(found).get("__init__", Method.__init__)).parameters
    if all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
        message = "its __init__ does not accept the options of its base class"
        hint = "Add **base to its arguments, and call super().__init__(**base)"
        raise InputError.plain(f"method {name}", message, hint)


def own_names() -> list[str]:
    """Names of the methods of this package, unsorted; imports none of them."""
    return [m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg]
