"""What several subcommands ask for and check alike."""
from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Sequence

if TYPE_CHECKING:
    from yacs.config import CfgNode

    from graphgym_srnc.grid.jobs import Limits

FOLDERS = {"nargs": "+", "metavar": "DIR",
           "help": "an experiment, a folder of them, or a folder of such folders"}
"""The argument of commands that read results."""

SPEAKING = ("dataset.format", "dataset.name", "train.mode")
"""Keys whose values speak for themselves in the name of a folder."""

LONGEST_NAME = 150
"""Characters of a name that is made of a command line."""


def add_present(parser: argparse.ArgumentParser, resume: str, overwrite: str) -> None:
    """Add what becomes of results that are there already, with the help of each option."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--resume", action="store_true", help=resume)
    group.add_argument("--overwrite", action="store_true", help=overwrite)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add ``--trust``, which :func:`trusting` obeys."""
    parser.add_argument("--trust", action="store_true",
                        help="let files of data sets run code, as pickles do that PyG's readers "
                        "open: only if you trust whoever made them")


@contextlib.contextmanager
def trusting(args: argparse.Namespace) -> Iterator[None]:
    """Trust the files of data sets meanwhile if the command line says so, and nothing else does."""
    with contextlib.ExitStack() as stack:
        if getattr(args, "trust", False):
            from graphgym_srnc.data import untrusted
            stack.enter_context(untrusted.trusted())
        yield


def add_limits(group: argparse._ArgumentGroup) -> None:
    """Add how many runs go side by side, and what :func:`limits` says each may take."""
    add = group.add_argument
    add("--jobs", type=int, default=0, metavar="N",
        help="local processes (default: one for each core)")
    add("--time-limit", type=float, default=0, metavar="S",
        help="seconds of one try of a run; 0 = no limit (default: 0)")
    add("--memory-limit", type=float, default=0, metavar="MIB",
        help="memory of a run's process; 0 = no limit (default: 0)")
    add("--retries", type=int, default=1, metavar="K",
        help="tries again of a run whose process died or hit a limit (default: 1)")


def limits(args: argparse.Namespace) -> Limits:
    """What a run may take."""
    from graphgym_srnc.grid.jobs import Limits
    return Limits(args.time_limit, args.memory_limit, args.retries)


def cores() -> int:
    """The number of cores that this process may use."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add the option without which :func:`check_out` and :func:`check_folder` refuse."""
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there")


def check_out(option: str, file: str | None, overwrite: bool, suffixes: Sequence[str] = (),
              new_folders: bool = False, own: str = "") -> None:
    """Refuse a file to be written, before any work, that could not be or that would be lost.

    Args:
        option: names the file.
        file: the file; None = none is asked for.
        overwrite: whether one that is there is to be replaced.
        suffixes: those it may have; none = any.
        new_folders: whether folders on the way are made.
        own: what begins a file of the same command, which is replaced in any case.

    Raises:
        InputError: names the option.
    """
    from graphgym_srnc.errors import InputError
    if file is None:
        return
    path = Path(file)
    if suffixes and path.suffix.lower() not in suffixes:
        raise InputError(option, file, f"a {' or '.join(suffixes)} file")
    parents = path.absolute().parents
    parent = next(folder for folder in parents if folder.exists()) if new_folders else parents[0]
    if not file or path.is_dir() or not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(option, file, "a file in a folder that can be written to")
    path = Path(os.path.abspath(path))  # which names a file even if it has .. after a new folder
    if path.is_symlink() or path.exists() and not path.is_file():
        raise InputError(option, file, "a regular file, no link")
    if path.exists() and not overwrite and not _begins(path, own):
        raise InputError(option, file, "another file, or --overwrite, since it exists")


def check_folder(option: str, folder: str | None, overwrite: bool) -> None:
    """Refuse a folder for new files, before any work, in which something could be lost.

    Raises:
        InputError: names the option.
    """
    from graphgym_srnc.errors import InputError
    if folder is None:
        return
    path = Path(folder).absolute()
    if not (path.is_dir() or not path.exists() and path.parent.is_dir()):
        raise InputError(option, folder, "a folder, or a new one in a folder that exists")
    if path.is_dir() and any(path.iterdir()) and not overwrite:
        raise InputError(option, folder, "an empty or a new folder, or --overwrite, which replaces "
                         "files of the same names")


def _begins(path: Path, own: str) -> bool:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return bool(own) and own.encode() in file.read(1000)
    return False


def check_least(args: argparse.Namespace, **least: int) -> None:
    """Refuse options below their least value, and those that are no finite number.

    Raises:
        InputError: names the option.
    """
    from graphgym_srnc.errors import InputError
    for name, value in least.items():
        if not value <= getattr(args, name) < math.inf:
            raise InputError(f"--{name.replace('_', '-')}", getattr(args, name), f"{value} or more")


def remark(cfgs: Sequence[CfgNode]) -> None:
    """Tell on stderr, in a line each, of keys that do nothing and of what unsettles digits."""
    from graphgym_srnc import environment
    from graphgym_srnc.gym.config import not_read
    keys = not_read(cfgs)
    if keys:
        modes = ", ".join(sorted({cfg.train.mode for cfg in cfgs}))
        print(f"note: train.mode {modes} does not read {', '.join(keys)} as it is configured",
              file=sys.stderr)
    if environment.unsteady():
        print(f"note: {environment.unsteady()}", file=sys.stderr)


def base_name(cfg_file: str | None) -> str:
    """The name of a yaml file without folders and suffix."""
    last = (cfg_file or "default").replace("\\", "/").rsplit("/", 1)[-1]
    return last.removesuffix(".yaml").removesuffix(".yml")


def default_name(cfg_file: str | None, words: Sequence[str], shift: str) -> str:
    """The folder of results that nobody has named: the config, then what words change of its data,
    shift and method, as in ``citation-srnc-plus-source=dblpv7-target=acmv9``.

    Args:
        cfg_file: as :func:`graphgym_srnc.gym.load_config` takes it; of a shipped config the folder
            counts as well.
        words: keys and values by turns.
        shift: the value of ``dataset.format``, whose block is that of the shift.
    """
    from graphgym_srnc.configs import find
    from graphgym_srnc.settings import config_root, is_volatile
    name = base_name(cfg_file)
    folder = find(cfg_file).resolve().parent if cfg_file else None
    if folder and config_root().resolve() in folder.parents:
        name = f"{folder.name}-{name}"

    for key, value in sorted(dict(zip(words[::2], words[1::2])).items()):
        block, _, last = key.rpartition(".")
        if block in ("dataset", shift) and not is_volatile(key) or key == "train.mode":
            # Of a place outside the working directory the last part says most.
            text = Path(value).name if os.path.isabs(value) else value
            text = re.sub(r"[^\w.,+]+", "-", text).strip("-.") or "none"
            name += f"-{text}" if key in SPEAKING else f"-{last}={text}"
    return name[:LONGEST_NAME]


@contextlib.contextmanager
def writing(option: str, path: str, what: str = "a file that can be written") -> Iterator[None]:
    """Tell an error of the system as one of an option that names a path.

    Raises:
        InputError: the path cannot be written.
    """
    from graphgym_srnc.errors import InputError
    try:
        yield
    except OSError as error:
        raise InputError(option, path, f"{what} ({error.strerror})") from error
