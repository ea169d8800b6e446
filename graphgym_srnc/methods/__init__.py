"""Methods: each module of this package defines one class of its name, ignoring case and ``_``.

Other packages add methods through entry points, see :mod:`graphgym_srnc.core.plugins`.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from graphgym_srnc.core import options
from graphgym_srnc.core.plugins import Registry
from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from graphgym_srnc.methods.shared.base import Method


@functools.cache
def _check(found: Any, name: str) -> None:
    from graphgym_srnc.methods.shared.base import Method

    if not (isinstance(found, type) and issubclass(found, Method)):
        wanted = f"a subclass of {Method.__module__}.Method"
        raise InputError.plain(name, f"{found!r:.100} is not {wanted}")
    if found.key() != name:
        message = f"the class {found.__name__} has the name {found.key()} in configs, not {name}"
        raise InputError.plain(name, message, "Rename the entry point or the class")
    options.check_signature(found, name, ("encoder", "make_optimizer"))
    if not _passes_options(found):
        message = "its __init__ does not pass the options of its base class on"
        raise InputError.plain(
            name, message, "Add **base to its arguments, and call super().__init__(**base)"
        )


def _passes_options(method: Any) -> bool:
    """Whether an option that does not exist reaches ``Method``, which refuses it."""
    parameters = inspect.signature(method.__init__).parameters.values()
    try:
        method(**{"no option": None})
    except Exception:  # it may also refuse something else
        return any(p.kind is p.VAR_KEYWORD for p in parameters)
    return False


METHODS: Registry[type[Method]] = Registry(__name__, _check, ["shared"])
names = METHODS.names
own_names = METHODS.own_names
find = METHODS.find
