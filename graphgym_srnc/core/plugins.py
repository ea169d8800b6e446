"""Methods, shifts and backbones by name: files of this package, and plug-ins of other packages.

Other packages announce theirs by entry points, in the groups ``graphgym_srnc.methods``,
``graphgym_srnc.shifts`` and ``graphgym_srnc.backbones``. The name of an entry is its name in
configs. If names collide, also those of a method, a shift and a key of GraphGym, the package's own
entry is used. One that cannot be used is left out with a warning, unless it is asked for by name.
Modules in the group ``graphgym_srnc.register`` are imported with ``graphgym_srnc.gym``, in every
command and worker process. They can register layers, activations or metrics with GraphGym.
"""

from __future__ import annotations

import functools
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Collection,
    Generic,
    Iterable,
    Iterator,
    Mapping,
    TypeVar,
)

from graphgym_srnc.core.text import plain
from graphgym_srnc.errors import InputError, not_one_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

KINDS = ("methods", "shifts", "backbones", "register")
BLOCKS = ["shifts", "methods"]  # kinds whose names are blocks of a config
OWN = __name__.partition(".")[0]
# Keys of GraphGym's config, which also has a block for each method and shift; and its own training.
GRAPHGYM = (
    "accelerator benchmark bn cfg_dest custom_metrics dataset device devices gnn gpu_mem mem "
    "metric_agg metric_best model num_threads num_workers optim out_dir params print round run_dir "
    "seed share standard tensorboard_agg tensorboard_each_run train val view_emb"
).split()
LEFT_OUT = "It is left out."
T = TypeVar("T")
warned: set[str] = set()  # warnings that have been printed


class Registry(Generic[T]):
    """All objects of one kind by name, each imported when it is asked for.

    A file of the package defines one class of its name, ignoring case and ``_``, or a function.

    Args:
        package: name of the package, whose last part is the kind, for example ``methods``.
        check: raises an InputError about an object that cannot be used, from it and its name.
        shared: modules of the package that define none.
        listed: objects of other modules by name, as ``module:object``.
        function: name of the function that a file defines instead of a class.
    """

    def __init__(
        self,
        package: str,
        check: Callable[[Any, str], None],
        shared: Collection[str],
        listed: Mapping[str, str] = {},
        function: str = "",
    ) -> None:
        self.package = package
        self.kind = package.rpartition(".")[2]
        self.check = check
        self.shared = shared
        self.listed = listed
        self.function = function

    def own_names(self) -> list[str]:
        """Names of this package; imports none of them."""
        files = _files(*sys.modules[self.package].__path__)
        return [*self.listed, *(name for name in files if name not in self.shared)]

    def names(self) -> list[str]:
        """All names, those of other packages last; imports none of them. Warns of taken names."""
        found = self.own_names()
        taken = {*found}
        if self.kind in BLOCKS:
            here = Path(__file__).parents[1]
            taken |= {*GRAPHGYM, *_files(str(here / "shifts")), *_files(str(here / "methods"))}
        if self.kind == "methods":
            taken |= entries("shifts").keys()
        for name, entry in sorted(entries(self.kind).items()):
            if name in taken:
                package = _package(entry)
                text = f"the name {name!r} of {package} in {OWN}.{self.kind} is taken"
                warn_once(f"{text}, so it is left out. Rename it, or uninstall {package}.")
            else:
                found.append(name)
        return found

    def find(self, name: str) -> T:
        """The object of a name.

        Raises:
            InputError: there is none of that name, or it cannot be used.
        """
        if name not in self.names():
            raise not_one_of(self.kind.removesuffix("s"), name, self.names())
        return self._load(name)

    def _load(self, name: str) -> T:
        from importlib.metadata import EntryPoint

        if name not in self.own_names():
            return load(entries(self.kind)[name], self.check)
        place = f"{self.package}.{self.listed.get(name, name)}"
        if self.function:
            place += f":{self.function}"
        return load(EntryPoint(name, place, f"{OWN}.{self.kind}"), self.check)

    __getitem__ = find

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def items(self) -> Iterable[tuple[str, T]]:
        """Names and objects, without those that cannot be used."""
        return usable(self._load, self.names()).items()


@functools.cache
def _files(*folders: str) -> list[str]:
    return [file.name for file in pkgutil.iter_modules(folders)]


@functools.cache
def entries(kind: str) -> dict[str, EntryPoint]:
    """Entry points of one kind by name, without importing them."""
    from importlib.metadata import entry_points  # slow import, not needed for --help

    return {entry.name: entry for entry in entry_points(group=f"{OWN}.{kind}")}


def load(entry: EntryPoint, check: Callable[[Any, str], None] = lambda found, name: None) -> Any:
    """Import the object that an entry point refers to, or of a module the class of its name.

    Raises:
        InputError: it cannot be imported, or ``check`` raises an error about it; names the file.
    """
    kind = entry.group.rpartition(".")[2].removesuffix("s")
    try:
        found = entry.load()
        if isinstance(found, ModuleType) and kind in ("method", "backbone"):
            named = {key.lower(): one for key, one in vars(found).items() if isinstance(one, type)}
            name = entry.name.replace("_", "")
            if name not in named:
                raise InputError.plain(
                    name, f"it defines no class {name.title()}", "Case and _ do not matter"
                )
            found = named[name]
        check(found, entry.name)
    except InputError as error:
        raise error.at(f"{kind} {entry.name} in {entry.value}") from error
    except Exception as error:  # a foreign module may raise any exception
        top = entry.module.partition(".")[0]
        where = _last_line(error, [top])[1] or entry.value
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:300].rstrip(".")
        raise InputError.plain(
            f"{kind} {entry.name} in {where}",
            f"it cannot be imported ({cause})",
            f"Fix it, or uninstall {_package(entry)}",
        ) from error
    return found


def usable(find: Callable[[Any], T], names: Iterable[Any]) -> dict[Any, T]:
    """What ``find`` returns for each name, without plug-ins that cannot be used."""
    found = {}
    for name in names:
        try:
            found[name] = find(name)
        except InputError as error:
            warn_once(f"{error} {LEFT_OUT}")
    return found


def warn_once(text: str) -> None:
    """Print a warning about a plug-in once, and not again in each worker process."""
    import multiprocessing  # slow to import, and no help text needs it

    if multiprocessing.parent_process() is None and text not in warned:
        warned.add(text)
        print(f"warning: {plain(text)}", file=sys.stderr, flush=True)


def after_warning(error: InputError) -> InputError:
    """An error without the cause if a warning has told it."""
    if f"{error} {LEFT_OUT}" not in warned:
        return error
    return InputError.plain(
        error.key.partition(" in ")[0], "it cannot be used, see the warning above"
    )


def place(error: BaseException) -> str:
    """``PATH:LINE of the plug-in NAME`` if its code raised an error, else empty."""
    known = [entry for kind in KINDS for entry in entries(kind).values()]
    packages = {entry.module.partition(".")[0]: _package(entry) for entry in known}
    top, where = _last_line(error, [*packages, OWN])
    return f"{where} of the plug-in {packages[top]}" if top in packages else ""


def _last_line(error: BaseException, packages: Collection[str]) -> tuple[str, str]:
    """The last package of some that an error passed, and ``PATH:LINE`` in it; both may be empty."""
    import traceback

    found = "", ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        top = frame.f_globals.get("__name__", "").partition(".")[0]
        lookup = frame.f_code.co_name == "__getattr__"  # of our base classes, for a plug-in
        if top in packages and frame.f_globals is not globals() and not lookup:
            found = top, f"{frame.f_code.co_filename}:{line}"
    return found


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module
