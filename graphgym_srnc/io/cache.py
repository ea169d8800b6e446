"""Results of pure functions, kept on disk by the content of all that they were made of.

A run that finds a result goes on, bit for bit, as if it had computed it.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import os
import platform
import re
import sys
import warnings
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping

from graphgym_srnc.core import environment
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.io import atomic

if TYPE_CHECKING:
    from torch import Tensor

FOLDER = "GRAPHGYM_SRNC_CACHE"
"""Environment variable with the cache folder; with ``off`` nothing that was computed is kept."""

LIMIT = "GRAPHGYM_SRNC_CACHE_GIB"
"""Environment variable with the most GiB of computed results that are kept."""

DEFAULT_GIB = "2"

WAIT = 600.0
"""Seconds after which a process no longer waits for another one that makes the same thing."""

SILENT = 3.0
"""Seconds of them after which it says that it waits."""

STALE = 3600.0
"""Seconds after which a file that nobody wrote to is what a killed process left."""

OURS = re.compile(r"\.?[0-9a-f]{64}\.(pt|lock)")
"""How names of our files begin: results, locks, and the temporary files of :mod:`.atomic`."""

PACKAGE = Path(__file__).parents[1]

_warned: set[Path] = set()


def cache_folder() -> Path:
    """Where results and parsed graphs are kept, and downloads if the data folder is read-only."""
    chosen = os.environ.get(FOLDER, "off")
    if chosen not in ("", "off"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphgym_srnc"


def memoise(
    name: str, function: Callable[[], Mapping[str, Tensor]], parts: Any
) -> dict[str, Tensor]:
    """What ``function()`` returns, from a file where there is one.

    torch's generator is left as the function leaves it. A file is found by a SHA-256 of all that
    its content depends on and holds a digest of itself, so that a torn, foreign or damaged one is
    no result. Processes may share the folder, and may lose it: then everything is computed.

    Args:
        name: what is computed.
        function: computes named tensors on the CPU. It draws from torch's global generator alone
            and runs no code of this package but of its module and what that imports.
        parts: all that the function reads: tensors, numbers and text, in tuples. The generator's
            state, the threads, the machine, the versions of packages and the code are seen to here.

    Raises:
        InputError: the limit in the environment is no number of GiB.
    """
    import torch

    if os.environ.get(FOLDER) == "off":
        return _plain(function())
    limit = os.environ.get(LIMIT) or DEFAULT_GIB
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", limit):
        raise InputError(LIMIT, limit, "a number of GiB")
    defined = function.func if isinstance(function, functools.partial) else function
    key = _digest(name, parts, torch.get_rng_state(), source_digest(defined.__module__), _machine())
    path = cache_folder() / "computed" / f"{key}.pt"
    found = _read(path, key)
    if found is None:
        # Whoever comes second waits, and finds what the first one made.
        with locked(path.with_suffix(".lock"), name):
            found = _read(path, key)
            if found is None:
                found = _plain(function()), torch.get_rng_state()
                _write(path, key, *found, int(float(limit) * 2**30))
    values, state = found
    torch.set_rng_state(state)
    return values


@functools.cache
def source_digest(*module_names: str) -> str:
    """SHA-256 of modules of this package and of all that they import of it, transitively.

    Imports are read from the source: those inside functions count, those for annotations alone and
    those by computed names do not. It is taken once in a process, so that an edit while many runs
    are made is not taken for their code. A module from elsewhere has no source here.
    """
    digests: dict[str, str] = {}
    waiting = list(module_names)
    while waiting:
        name = waiting.pop()
        path = PACKAGE.parent.joinpath(*name.split("."))
        file = next(filter(Path.is_file, (path.with_suffix(".py"), path / "__init__.py")), None)
        if name not in digests and file is not None:
            source = file.read_bytes()
            digests[name] = sha256(source).hexdigest()
            imported = _imports(ast.parse(source).body)
            waiting += [other for other in imported if other.startswith(f"{PACKAGE.name}.")]
    return _digest(sorted(digests.items()))


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file, which is removed afterwards, against other processes that make ``what``.

    It only saves work: where there can be no lock, or none for ten minutes, this goes on without.
    """
    from filelock import FileLock, Timeout

    lock, held = FileLock(path, timeout=min(SILENT, WAIT)), False
    made = [folder for folder in path.parents if not folder.exists()]
    with contextlib.suppress(OSError, NotImplementedError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            print(
                f"waiting at most {WAIT / 60:.0f} minutes for another process that makes {what} "
                f"({path})",
                file=sys.stderr,
                flush=True,
            )
            lock.acquire(WAIT - SILENT)
        held = True
    try:
        yield
    finally:
        if held:
            # A process that waits for the removed file makes a new one.
            with contextlib.suppress(OSError):
                path.unlink()
                for folder in made:
                    folder.rmdir()  # unless something came of it
            lock.release()


def _imports(statements: Iterable[ast.AST]) -> Iterator[str]:
    """Dotted names of all that statements import, those under ``if TYPE_CHECKING`` left out."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            for block in ("body", "handlers", "orelse", "finalbody", "cases"):
                yield from _imports(getattr(node, block, ()))


def _read(path: Path, key: str) -> tuple[dict[str, Tensor], Tensor] | None:
    """Values and state of the generator; None if there is no file, or it is not what it says."""
    import torch

    try:
        content = torch.load(atomic.regular(path), weights_only=True)
        values, state = content["values"], content["state"]
        if content["digest"] != _digest(key, values, state):
            return None
    except Exception:  # whatever is wrong with a file, it is made again
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return values, state


def _write(path: Path, key: str, values: dict[str, Tensor], state: Tensor, limit: int) -> None:
    """Keep values and the generator's state, and of all files as many bytes as the limit allows."""
    import torch

    file, digest = io.BytesIO(), _digest(key, values, state)
    torch.save({"values": values, "state": state, "digest": digest}, file)
    if file.tell() > limit:
        return
    try:
        atomic.write_bytes(path, file.getvalue())
        _trim(path.parent, limit)
    except OSError as error:
        if path.parent not in _warned:
            _warned.add(path.parent)
            text = f"The cache {path.parent} cannot be written ({error.strerror or error})."
            hint = f"Results are computed again next time. Set {FOLDER} to another folder or off."
            warnings.warn(f"{text} {hint}", RuntimeWarning, 3)


def _trim(directory: Path, limit: int) -> None:
    """Remove the files used longest ago beyond the limit, and what a killed process left."""
    total, now = 0, os.stat(directory).st_mtime
    for used, size, path in sorted(_files(directory), reverse=True):
        total += size
        if total > limit or path.suffix != ".pt" and used < now - STALE:
            path.unlink(missing_ok=True)


def _files(directory: Path) -> Iterator[tuple[float, int, Path]]:
    """Time of last use, size and path of each file that this module has written."""
    for path in directory.iterdir():
        if OURS.match(path.name):
            with contextlib.suppress(FileNotFoundError):
                state = path.stat()
                yield state.st_mtime, state.st_size, path


def _plain(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as a file gives them back, so that where they come from makes no difference."""
    import torch

    return {
        name: value.detach().clone(memory_format=torch.contiguous_format)
        for name, value in values.items()
    }


def _digest(*parts: Any) -> str:
    digest = sha256()
    _feed(digest, parts)
    return digest.hexdigest()


def _feed(digest: Any, part: Any) -> None:
    """Hash a part with its type and size before it, so that no two lists of parts are alike."""
    import torch

    if isinstance(part, Mapping):
        part = tuple(part.items())
    if isinstance(part, (tuple, list)):
        digest.update(f"list {len(part)};".encode())
        for item in part:
            _feed(digest, item)
    elif isinstance(part, torch.Tensor) and part.layout == torch.sparse_csr:
        index = part.crow_indices(), part.col_indices()
        _feed(digest, ("csr", tuple(part.shape), *index, part.values()))
    elif isinstance(part, torch.Tensor):
        head = f"tensor {part.dtype} {tuple(part.shape)} {part.stride()} {part.device};"
        digest.update(head.encode())
        digest.update(part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    elif part is None or isinstance(part, (bool, int, float, str)):
        text = repr(part).encode()
        digest.update(f"{type(part).__name__} {len(text)};".encode() + text)
    else:
        raise TypeError(f"no content to hash in a {type(part).__name__}")


def _machine() -> tuple:
    """What decides which kernels run: packages, torch's settings, and the processor."""
    import torch

    return (
        environment.versions(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        str(torch.get_default_dtype()),
        torch.get_float32_matmul_precision(),
        torch.__config__.show(),
        _processor(),
    )


@functools.cache
def _processor() -> str:
    """The kind of processor; a home folder may be shared by unlike machines."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    pattern = r"model name|flags|Features|CPU (implementer|part)"
    features = sorted({line for line in lines if re.match(pattern, line)})
    return "\n".join([platform.machine(), platform.processor(), *features])
