"""Results that runs share, kept on disk by what they were made of; a run that finds one goes on, bit for bit, as if it had computed it."""
from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import warnings
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping

from graphgym_srnc import atomic, store
from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

FOLDER = "GRAPHGYM_SRNC_CACHE"
"""Environment variable with the cache folder; with ``off`` nothing that was computed is kept."""

LIMIT = "GRAPHGYM_SRNC_CACHE_GIB"
"""Environment variable with the most GiB of computed results that are kept."""

DEFAULT_GIB = "2"

WAIT = 3600.0
"""Seconds after which a process no longer waits for another one that makes the same thing."""

OURS = re.compile(r"\.?[0-9a-f]{64}\.(pt|lock)")
"""How names of our files begin: results, locks, and the temporary files of :func:`store.write_bytes`."""


def _source() -> str:
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return sha256(b"".join(sha256(file.read_bytes()).digest() for file in files)).hexdigest()


SOURCE = _source()
"""Digest of this package's code. Taken at once, so that a file that changes under a process of many runs is not taken for its code."""

_warned: set[Path] = set()


def cache_folder() -> Path:
    """Where computed results and parsed graphs are kept, and where downloads go if the data folder is not writable."""
    chosen = os.environ.get(FOLDER, "off")
    if chosen not in ("", "off"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphgym_srnc"


def memoise(name: str, function: Callable[[], Mapping[str, Tensor]], parts: Any) -> dict[str, Tensor]:
    """:meth:`Cache.memoise` in the cache of this user; where the environment says ``off``, ``function`` is just called.

    Raises:
        InputError: the limit in the environment is no number of GiB.
    """
    if os.environ.get(FOLDER) == "off":
        return _plain(function())
    limit = os.environ.get(LIMIT) or DEFAULT_GIB
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", limit):
        raise InputError(LIMIT, limit, "a number of GiB")
    return Cache(cache_folder() / "computed", int(float(limit) * 2 ** 30)).memoise(name, function, parts)


class Cache:
    """Results of functions in files, one each, of which those used longest ago go first.

    A file is found by a SHA-256 of all that its content depends on and holds a digest of itself, so that a torn, foreign or damaged one
    is no result. Processes may share a directory, and may lose it: where nothing can be written, everything is computed.

    Args:
        directory: where the files are.
        limit: bytes of all files together.
    """

    def __init__(self, directory: Path, limit: int) -> None:
        self.directory, self.limit = directory, limit

    def memoise(self, name: str, function: Callable[[], Mapping[str, Tensor]], parts: Any) -> dict[str, Tensor]:
        """What ``function()`` returns, and torch's random generator as it leaves it, from a file where there is one.

        Args:
            name: what is computed.
            function: computes named tensors on the CPU, without other draws than from torch's global generator.
            parts: all that the function reads: tensors, numbers and text, in tuples. The generator's state, the threads, the machine, the
                versions of packages and the code of this one are seen to here.
        """
        import torch
        key = _digest(name, parts, torch.get_rng_state(), _setting(), store.environment()["versions"], _processor(), SOURCE)
        path = self.directory / f"{key}.pt"
        found = _read(path, key)
        if found is None:
            # Whoever comes second waits, and finds what the first one made.
            with locked(path.with_suffix(".lock")):
                found = _read(path, key)
                if found is None:
                    values = _plain(function())
                    self._write(path, key, values, torch.get_rng_state())
                    return values
        values, state = found
        torch.set_rng_state(state)
        return values

    def _write(self, path: Path, key: str, values: dict[str, Tensor], state: Tensor) -> None:
        import torch
        file = io.BytesIO()
        torch.save({"values": values, "state": state, "digest": _digest(key, values, state)}, file)
        if file.tell() > self.limit:
            return
        try:
            atomic.write_bytes(path, file.getvalue())
            self._trim()
        except OSError as error:
            if self.directory not in _warned:
                _warned.add(self.directory)
                warnings.warn(f"{self.directory}: {error.strerror or error}; what is computed is not kept ({FOLDER} may name another "
                              "folder, or off)", RuntimeWarning, stacklevel=3)

    def _trim(self) -> None:
        """Remove the files that were used longest ago until the others are within the limit, and what a killed process left."""
        total, now = 0, os.stat(self.directory).st_mtime
        for used, size, path in sorted(_files(self.directory), reverse=True):
            total += size
            if total > self.limit or path.suffix != ".pt" and used < now - WAIT:
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, which is removed afterwards, against other processes.

    It saves work and nothing more: where there can be no lock, or none for an hour, this goes on without.
    """
    from filelock import FileLock
    lock, held = FileLock(path, timeout=WAIT), False
    made = [folder for folder in path.parents if not folder.exists()]
    with contextlib.suppress(OSError, NotImplementedError):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
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


def _files(directory: Path) -> Iterator[tuple[float, int, Path]]:
    """Time of last use, size and path of each file that this module has written."""
    for path in directory.iterdir():
        if OURS.match(path.name):
            with contextlib.suppress(FileNotFoundError):
                state = path.stat()
                yield state.st_mtime, state.st_size, path


def _read(path: Path, key: str) -> tuple[dict[str, Tensor], Tensor] | None:
    """Values and state of the generator, or None if the file is absent or not what it says it is."""
    import torch
    try:
        content = torch.load(path, weights_only=True)
        values, state = content["values"], content["state"]
        if content["digest"] != _digest(key, values, state):
            return None
    except Exception:  # whatever is wrong with a file, it is made again
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return values, state


def _plain(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in the form in which a file gives them back, so that where they come from makes no difference."""
    import torch
    return {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in values.items()}


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
        _feed(digest, ("csr", tuple(part.shape), part.crow_indices(), part.col_indices(), part.values()))
    elif isinstance(part, torch.Tensor):
        part = part.detach()
        digest.update(f"tensor {part.dtype} {tuple(part.shape)} {part.stride()} {part.device};".encode())
        digest.update(part.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    elif part is None or isinstance(part, (bool, int, float, str)):
        text = repr(part).encode()
        digest.update(f"{type(part).__name__} {len(text)};".encode() + text)
    else:
        raise TypeError(f"no content to hash in a {type(part).__name__}")


def _setting() -> tuple:
    import torch
    return (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), str(torch.get_default_dtype()),
            torch.get_float32_matmul_precision(), torch.__config__.show())


@functools.cache
def _processor() -> str:
    """What decides which kernels run; a home folder may be shared by unlike machines."""
    import platform
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    told = {line for line in lines if re.match(r"model name|flags|Features|CPU (implementer|part)", line)}
    return "\n".join([platform.machine(), platform.processor(), *sorted(told)])
