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
from importlib import metadata
from pathlib import Path
from typing import Any, Iterator

from graphgym_srnc import __version__

THREADING = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "VECLIB_")
"""How names of environment variables begin that decide how many threads compute, and how."""

AUTO = "auto"
"""What ``num_threads`` may be instead of a number."""

MAX_THREADS = 1024
"""Far more than any machine has cores; with many more the process dies without a word."""

SECOND_THREAD = 1_000_000
"""Directions of edges from which a second thread may pay.

On smaller graphs it costs more beside other work than it gains without, see
docs/performance.md.
"""

KEPT_BYTES = 2**30
"""Size up to which the memory of a freed tensor stays with the process."""


def facts() -> dict[str, Any]:
    """What a result says of what made it: versions, commit, platform, variables for threads."""
    return {
        "versions": versions(),
        "commit": commit(),
        "platform": platform.platform(),
        "threading": threading(),
    }


def threading() -> dict[str, str]:
    """The environment variables that decide how many threads compute, and how."""
    return {name: os.environ[name] for name in sorted(os.environ) if name.startswith(THREADING)}


def unsteady() -> str:
    """Of those variables what lets the number of threads change as it goes, as a remark, or ""."""
    names = [
        name
        for name in ("OMP_DYNAMIC", "MKL_DYNAMIC")
        if os.environ.get(name, "").strip().lower() in ("true", "1", "yes", "on")
    ]
    return f"{' and '.join(names)} is on, so results may differ between runs" if names else ""


def threads(wanted: int | str, edges: int = 0) -> int:
    """How many threads compute: as many as are wanted, for ``auto`` one or two.

    Two are taken from ``SECOND_THREAD`` directions of edges on, where this process may use two
    cores; what more would gain was not measured. Small kernels wait for one another at each step,
    for as long as other work holds a core.

    Args:
        wanted: ``num_threads`` of a config.
        edges: columns of ``edge_index`` of the largest graph.
    """
    if wanted != AUTO:
        return wanted
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return 2 if edges >= SECOND_THREAD and cores > 1 else 1


@functools.cache
def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that make the numbers; None for one not installed."""
    found = {"python": platform.python_version(), "graphgym-srnc": __version__}
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

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(file.parent), *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        ).stdout

    try:
        # A package installed inside somebody else's repository is not of its commit.
        git("ls-files", "--error-unmatch", file.name)
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*").strip()
    except (OSError, subprocess.SubprocessError):
        return None


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage while large packages are imported, or thousands of records read.

    They make a million objects that all stay; walking through them again and again takes a quarter
    of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def keep_memory() -> None:
    """Let the allocator of Linux keep freed memory.

    Otherwise it returns the memory of large tensors and requests it again in each gradient step.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            for option in (-1, -3):  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
                ctypes.CDLL(None).mallopt(option, KEPT_BYTES)


def reset_peak_memory() -> None:
    """Reset the maximum of :func:`peak_memory`, if the system supports it (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> float | None:
    """The largest resident set of this process since :func:`reset_peak_memory`, in MiB.

    It covers the whole process if the system cannot reset it. None = not available.
    """
    with contextlib.suppress(OSError, StopIteration):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**10
    if os.name != "posix":
        return None
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
