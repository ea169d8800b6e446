"""Arguments and checks that several subcommands share."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, NoReturn, Sequence

if TYPE_CHECKING:
    from yacs.config import CfgNode

    from graphgym_srnc.sweep.jobs import Limits

FOLDERS = {
    "nargs": "+",
    "metavar": "DIR",
    "help": "folder of an experiment, or a folder that contains experiments at any depth",
}
"""Argument of commands that read results."""

SPEAKING = ("dataset.format", "dataset.name", "train.mode")
"""Keys whose values stand without the key in the name of a folder."""

NOT_THIS = "Name another file or folder; --overwrite does not replace this one"
"""Advice of an error about an output that must not be replaced."""

LONGEST_NAME = 150
"""Maximum length of a folder name that is derived from a command line."""


def add_present(parser: argparse.ArgumentParser, resume: str, overwrite: str) -> None:
    """Add ``--resume`` and ``--overwrite``, with their help texts."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--resume", action="store_true", help=resume)
    group.add_argument("--overwrite", action="store_true", help=overwrite)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add ``--trust``, which :func:`trusting` reads."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="load data files that can execute code, such as the pickles that "
        "PyG reads; use it only for files whose author you trust",
    )


def add_option(
    group: argparse._ActionsContainer, name: str, metavar: str | None, default: Any, text: str
) -> None:
    """Add an option of the type of its default; that of False is a flag, that of None a text."""
    if default is False:
        group.add_argument(name, action="store_true", help=text)
    else:
        kind = str if default is None else type(default)
        group.add_argument(name, type=kind, default=default, metavar=metavar, help=text)


@contextlib.contextmanager
def trusting(args: argparse.Namespace) -> Iterator[None]:
    """Trust data files inside this block if the command line has ``--trust``."""
    with contextlib.ExitStack() as stack:
        if getattr(args, "trust", False):
            from graphgym_srnc.data import untrusted

            stack.enter_context(untrusted.trusted())
        yield


def add_limits(group: argparse._ArgumentGroup) -> None:
    """Add the number of parallel runs, and the options of :func:`limits`."""
    add = partial(add_option, group)
    add("--jobs", "N", 0, "run N processes on this machine (default: one per core)")
    add("--time-limit", "S", 0.0, "stop an attempt of a run after S seconds (default: 0, no limit)")
    add(
        "--memory-limit",
        "MIB",
        0.0,
        "limit the memory of a run's process (default: 0, no limit)",
    )
    add("--retries", "K", 1, "retry a run K times if its process died or hit a limit (default: 1)")


def limits(args: argparse.Namespace) -> Limits:
    """Time, memory and retries of a run."""
    from graphgym_srnc.sweep.jobs import Limits

    return Limits(args.time_limit, args.memory_limit, args.retries)


def add_overwrite(parser: argparse.ArgumentParser, own_pages: bool = False) -> None:
    """Add ``--overwrite``, which :func:`check_out` and :func:`check_folder` read.

    Args:
        parser: parser of a command.
        own_pages: whether the command replaces its own pages without the option.
    """
    exception = " (an earlier HTML page of this command is always replaced)" * own_pages
    parser.add_argument(
        "--overwrite", action="store_true", help=f"replace existing output files{exception}"
    )


def add_raw(parser: argparse.ArgumentParser) -> None:
    """Add ``--raw``, which :func:`graphgym_srnc.core.text.to_csv` takes."""
    parser.add_argument(
        "--raw",
        action="store_true",
        help="write text to .csv files unchanged (default: put a ' before what a"
        " spreadsheet would take for a formula)",
    )


def check_out(
    option: str,
    file: str | None,
    overwrite: bool,
    suffixes: Sequence[str] = (),
    new_folders: bool = False,
    own: str = "",
    others: Sequence[str | None] = (),
) -> None:
    """Check, before any work, that an output file can be written and replaces nothing by accident.

    Args:
        option: option that names the file.
        file: the file, or None.
        overwrite: whether an existing file may be replaced.
        suffixes: allowed suffixes; empty = any.
        new_folders: whether missing parent folders are created.
        own: mark of files that this command wrote, which may always be replaced.
        others: files that the command reads or writes too.

    Raises:
        InputError: names the option.
    """
    from graphgym_srnc.io import store

    if file is None:
        return
    path, refuse = Path(file), _refusal(option)
    if suffixes and path.suffix.lower() not in suffixes:
        refuse(f"{file!r} has the wrong file type", f"Use the suffix {' or '.join(suffixes)}")
    parents = path.absolute().parents
    parent = next(folder for folder in parents if folder.exists()) if new_folders else parents[0]
    if not file or path.is_dir() or not parent.is_dir() or not os.access(parent, os.W_OK):
        refuse(f"{file!r} cannot be written", "Name a file in a folder that you can write to")
    path = Path(os.path.abspath(path))  # which names a file even if it has .. after a new folder
    if path.is_symlink() or path.exists() and not path.is_file():
        refuse(f"{file!r} is a link, or not a regular file", "Name a regular file")
    if path.exists() and store.is_part(path.resolve()):
        refuse(f"{file!r} belongs to results or a graph", NOT_THIS)
    if path.resolve() in [Path(other).resolve() for other in others if other]:
        refuse(f"this command uses {file!r} for something else", NOT_THIS)
    if path.exists() and not overwrite and not _begins(path, own):
        refuse(f"the file {file!r} exists", "Name another file, or add --overwrite to replace it")


def check_folder(option: str, folder: str | None, overwrite: bool) -> None:
    """Check, before any work, that a folder for new files replaces nothing by accident.

    Raises:
        InputError: names the option.
    """
    from graphgym_srnc.io import store

    if folder is None:
        return
    path, refuse = Path(folder).absolute(), _refusal(option)
    if not (path.is_dir() or not path.exists() and path.parent.is_dir()):
        refuse(f"{folder!r} cannot be made", "Name a folder, or a new one in a folder that exists")
    if path.is_dir() and store.is_part(path.resolve()):
        refuse(f"{folder!r} belongs to results or a graph", NOT_THIS)
    if path.is_dir() and any(path.iterdir()) and not overwrite:
        hint = "Name an empty or new folder, or add --overwrite to replace files of the same names"
        refuse(f"the folder {folder!r} is not empty", hint)


def _refusal(option: str) -> Callable[[str, str], NoReturn]:
    """A function that raises an error of an option, from its message and hint."""
    from graphgym_srnc.errors import InputError

    def refuse(message: str, hint: str) -> NoReturn:
        raise InputError.plain(option, message, hint)

    return refuse


def _begins(path: Path, own: str) -> bool:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return bool(own) and own.encode() in file.read(1000)
    return False


def check_least(args: argparse.Namespace, **least: int) -> None:
    """Check that options are finite and not below their minimum.

    Raises:
        InputError: names the option.
    """
    from graphgym_srnc.errors import InputError

    for name, value in least.items():
        if not value <= getattr(args, name) < math.inf:
            raise InputError(f"--{name.replace('_', '-')}", getattr(args, name), f"{value} or more")


def read_config(cfg_file: str | None, words: Sequence[Any]) -> dict[str, Any]:
    """Settings of a config file as texts, read and checked before slow imports.

    Args:
        cfg_file: a file, or the name of a shipped config.
        words: keys and values of the command line, which are checked too.

    Raises:
        InputError: there is no such file, it is not a config, or a method or shift does not exist.
    """
    from graphgym_srnc import methods, shifts
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.io import config_files

    settings = config_files.read(cfg_file)
    names = {"train.mode": ["standard", *methods.names()], "dataset.format": shifts.names()}
    for key, value in (*settings.items(), *config_files.pairs(words)):
        if key in names and value not in names[key]:
            raise InputError(key, value, ", ".join(names[key]))
    return settings


def remark(cfgs: Sequence[CfgNode]) -> None:
    """Print notes on stderr about keys without effect and about nondeterminism."""
    from graphgym_srnc.core import environment
    from graphgym_srnc.gym.config import not_read

    keys = not_read(cfgs)
    if keys:
        modes = ", ".join(sorted({cfg.train.mode for cfg in cfgs}))
        print(
            f"note: train.mode {modes} does not read {', '.join(keys)}; the value has no effect",
            file=sys.stderr,
        )
    if environment.unsteady():
        print(f"note: {environment.unsteady()}", file=sys.stderr)


def base_name(cfg_file: str | None) -> str:
    """The name of a yaml file without folders and suffix."""
    last = (cfg_file or "default").replace("\\", "/").rsplit("/", 1)[-1]
    return last.removesuffix(".yaml").removesuffix(".yml")


def default_name(cfg_file: str | None, words: Sequence[str], shift: str) -> str:
    """Default name of a folder of results: the config, then the settings of data, shift and method
    on the command line, as in ``citation-srnc-plus-source=dblpv7-target=acmv9``.

    Args:
        cfg_file: as :func:`graphgym_srnc.gym.load_config` takes it; of a shipped config the folder
            counts as well.
        words: keys and values, alternately.
        shift: the value of ``dataset.format``, whose block is that of the shift.
    """
    from graphgym_srnc.io.config_files import find
    from graphgym_srnc.io.settings import config_root, is_volatile

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
def writing(option: str, path: str) -> Iterator[None]:
    """Report an error of the system as an error of the option that names the path.

    Raises:
        InputError: the path cannot be written.
    """
    from graphgym_srnc.errors import InputError

    try:
        yield
    except OSError as error:
        raise InputError.plain(option, f"{path} cannot be written ({error.strerror})") from error
