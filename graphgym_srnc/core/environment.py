"""The process and its machine: versions, commit, and memory."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import platform
import subprocess
import sys
import warnings
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Iterator

from graphgym_srnc import __version__

AUTO = "auto"  # value of num_threads that chooses a number
MAX_THREADS = 1024  # with many more threads the process dies without a message
SECOND_THREAD = 1_000_000  # directed edges from which a second thread pays, docs/performance.md
owned = False  # whether the process is a command or worker, in which no other package trains
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def facts() -> dict[str, Any]:
    """Versions, commit and platform, as a result records them."""
    return {"versions": versions(), "commit": commit(), "platform": platform.platform()}


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def threads(wanted: int | str, edges: int = 0) -> int:
    """Number of threads for ``num_threads``, where ``auto`` is two for large graphs, else one."""
    if wanted != AUTO:
        return int(wanted)
    return 2 if edges >= SECOND_THREAD and cores() > 1 else 1


def own() -> None:
    """Take over the process; libraries that are loaded from now on begin with one thread."""
    global owned
    owned = True
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    sys.modules.setdefault(LateCompiler.NAME, LateCompiler(LateCompiler.NAME))
    # PyG's import calls what newer versions of torch warn of.
    warnings.filterwarnings("ignore", "`torch.jit", FutureWarning)


class LateCompiler(ModuleType):
    """Stands for torch's compiler until something other than these two functions is read from it.

    Its import takes a third of the time of all imports. PyG imports it for one class. Each
    optimizer calls the two functions, which matter only to code that is compiled.
    """

    NAME = "torch._dynamo"

    @staticmethod
    def disable(function: Callable[..., Any], *_: bool, **options: Any) -> Callable[..., Any]:
        return function

    @staticmethod
    def graph_break(*message: str) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name == "__file__":  # inspect asks all modules for it
            raise AttributeError(name)
        if sys.modules.get(self.NAME) is self:
            del sys.modules[self.NAME]
        import torch._dynamo

        return getattr(torch._dynamo, name)


@functools.lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """The loaded libraries that use threads, which are found again after each import.

    To find them takes longer than a prediction for a small graph.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextlib.contextmanager
def limited(number: int) -> Iterator[None]:
    """Let torch and the libraries of numpy, scipy and scikit-learn use a number of threads.

    Their numbers are restored afterwards.
    """
    import torch  # commands import this module before anything slow

    before = torch.get_num_threads()
    if owned:  # which libraries that are loaded later read
        os.environ.update(dict.fromkeys(VARIABLES, str(number)))
    try:
        with _libraries(len(sys.modules)).limit(limits=number):
            torch.set_num_threads(number)
            yield
    finally:
        torch.set_num_threads(before)


@functools.cache
def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that compute; None for one that is not installed."""
    found: dict[str, str | None] = {"graphgym-srnc": __version__}
    found["python"] = platform.python_version()
    for package in ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


@functools.cache
def commit() -> str | None:
    """The git commit of this package, with ``-dirty`` after changes; None outside a repository."""
    file = Path(__file__)
    run = functools.partial(
        subprocess.check_output,
        cwd=file.parent,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=10,
    )
    describe = "git describe --always --dirty --abbrev=40 --exclude=*".split()
    try:
        # The first command fails inside another repository.
        run(["git", "ls-files", "--error-unmatch", file.name])
        return run(describe).strip()
    except (OSError, subprocess.SubprocessError):
        return None


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Pause garbage collection while many objects are made, which saves a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def lean_imports(*absent: str) -> Iterator[None]:
    """Let optional packages seem absent during imports, if this package owns the process."""
    hidden = [name for name in absent if owned and name not in sys.modules]
    blocked: dict[str, Any] = dict.fromkeys(hidden)  # None makes an import fail
    sys.modules.update(blocked)
    try:
        with warnings.catch_warnings():
            for name in absent:
                warnings.filterwarnings("ignore", f".*{name}.*")
            yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def outside(needed: bool = True) -> Iterator[None]:
    """Be in the folder of the interpreter instead of the current one, if that is ``needed``.

    Python adds the current folder to the import path of a process that is started with ``-c``, as
    worker processes are, and Ray adds it to that of its workers. A file ``pickle.py`` there would
    run, for example one of a downloaded data set.
    """
    if not needed:
        yield
        return
    here = os.getcwd()
    os.chdir(sys.prefix)
    try:
        yield
    finally:
        os.chdir(here)


def keep_memory() -> None:
    """Let Linux keep up to 1 GiB of freed memory, which the next gradient step needs again."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            for option in (-1, -3):  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
                ctypes.CDLL(None).mallopt(option, 2**30)


def reset_peak_memory() -> None:
    """Reset the maximum of ``peak_memory``, if the system supports it (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> float | None:
    """Peak resident memory in MiB since ``reset_peak_memory``; None except on Linux."""
    with contextlib.suppress(OSError, IndexError):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 2**10
    return None
