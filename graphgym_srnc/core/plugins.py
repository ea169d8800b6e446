"""Entry points through which other packages add methods, shifts and backbones.

The entry point groups are ``graphgym_srnc.methods``, ``graphgym_srnc.shifts`` and
``graphgym_srnc.backbones``. The name of an entry is its name in configs. If names collide, the
package's own entry is used. A plug-in that cannot be used is left out with a warning, unless it is
asked for by name. Modules in the group ``graphgym_srnc.register`` are imported with
``graphgym_srnc.gym``, in every command and worker process. They can register layers, activations
or metrics with GraphGym.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Callable, Collection, Iterable

from graphgym_srnc.core.text import plain
from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

KINDS = ("methods", "shifts", "backbones", "register")


@functools.cache
def entries(kind: str) -> dict[str, EntryPoint]:
    """Entry points of one kind by name, without importing them."""
    from importlib.metadata import entry_points  # slow import, not needed for --help

    return {entry.name: entry for entry in entry_points(group=f"graphgym_srnc.{kind}")}


def added(kind: str, own: Collection[str]) -> list[str]:
    """Names of one kind that other packages add; warns of those that this package has itself."""
    for name in sorted(entries(kind).keys() & own):
        package = _package(entries(kind)[name])
        text = f"the name {name!r} of {package} in graphgym_srnc.{kind} is taken by a built-in"
        warn_once(f"{text}, which is used. Rename the entry point, or uninstall {package}.")
    return [name for name in entries(kind) if name not in own]


def load(kind: str, name: str, check: Callable[[Any], None] = lambda found: None) -> Any:
    """Import the object that an entry point refers to.

    Raises:
        InputError: it cannot be imported, or ``check`` raises an error about it.
    """
    entry = entries(kind)[name]
    try:
        found = entry.load()
        check(found)
    except Exception as error:  # a foreign module may raise any exception
        own, package = isinstance(error, InputError), _package(entry)
        cause = " ".join(f"{'' if own else type(error).__name__ + ': '}{error}".split())[:300]
        message = f"the package {package} cannot provide {entry.value} ({cause.rstrip('.')})"
        raise InputError.plain(name, message, f"Fix or uninstall {package}") from error
    return found


def usable(find: Callable[[str], Any], names: Iterable[str]) -> dict[str, Any]:
    """What ``find`` returns for each name, without plug-ins that cannot be used."""
    found = {}
    for name in names:
        try:
            found[name] = find(name)
        except InputError as error:
            warn_once(f"{error} It is left out.")
    return found


@functools.cache
def warn_once(text: str) -> None:
    """Print a warning about a plug-in once, and not again in each worker process."""
    import multiprocessing  # slow to import, and no help text needs it

    if multiprocessing.parent_process() is None:
        print(f"warning: {plain(text)}", file=sys.stderr, flush=True)


def place(error: BaseException) -> str:
    """``PATH:LINE of the plug-in NAME`` if its code raised an error, else empty."""
    import traceback

    known = [entry for kind in KINDS for entry in entries(kind).values()]
    tops, found = {entry.module.partition(".")[0]: _package(entry) for entry in known}, ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        top = frame.f_globals.get("__name__", "").partition(".")[0]
        if top in tops or top == "graphgym_srnc":
            where = f"{frame.f_code.co_filename}:{line} of the plug-in"
            found = f"{where} {tops[top]}" if top in tops else ""
    return found


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module
