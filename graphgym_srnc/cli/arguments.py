"""Arguments and checks that several subcommands share."""

from __future__ import annotations

import argparse
import contextlib
import csv
import math
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

from graphgym_srnc.core.text import tell
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic, config_files, records
from graphgym_srnc.io.settings import config_root, flatten, is_volatile

if TYPE_CHECKING:
    from yacs.config import CfgNode

ARGUMENT = re.compile(
    r"^([\w\[\]-]+)(?: ([^\s=+*?!&#]+)([+*?!&#])?)?(?:=(\S+))?  (.*(?:\n +.*)*)$", re.MULTILINE
)

# Keys whose values stand without the key in the name of a folder.
SPEAKING = ("dataset.format", "dataset.name", "train.mode")
TABLE = (".csv", ".parquet")
OUTS: dict[str, dict[str, Sequence[str]]] = {
    "predict": {
        "--out": TABLE,
        "--disagreements": TABLE,
        "--uncertain": TABLE,
        "--sample": TABLE,
    },
    "discover": {"--out": (".html",), "--csv": (".csv",), "--nodes": TABLE, "--changes": (".csv",)},
}
"""The output files of a command and their types."""
OWN = [
    {"node", "class", "probability"},
    {"node", "given_label", "new_label"},
    {"node", "sample", "new_label"},
    {"cluster", "newness", "verdict"},
    {"node", "class", "cluster"},
    {"name", "status", "then", "now"},
    {"graphgym-srnc discover"},
]
"""Columns by which an output of these commands is known, or the program that wrote a page."""
GENERATOR = re.compile(r'<meta name="generator" content="([^"]*)">')
LONGEST_NAME = 150  # maximum length of a folder name that is derived from a command line


def add_options(group: argparse._ActionsContainer, text: str) -> None:
    """Add the arguments that a text describes, each on a line of its own::

        run RUN  a positional argument
        --flag  an option without a value
        --trials N=20  an option with a value of the type of its default
        --kind a|b=a  an option with one of several values
        --metric NAME+  an option with several values; + * ? are those of argparse's ``nargs``
        --out FILE!  an option that is required
        --name NAME&  an option that may be repeated
        --ends COLUMN#  an option with two values
        --[no-]figures  an option that can be on, off or left out

    Two spaces stand before the help text, which continues in indented lines.
    """
    for name, metavar, nargs, default, words in ARGUMENT.findall(text):
        settings: dict[str, Any] = {"help": " ".join(words.split())}
        if "[no-]" in name:
            settings["action"] = argparse.BooleanOptionalAction
        elif not metavar:
            settings["action"] = "store_true"
        elif metavar.islower():
            settings["choices"] = metavar.split("|")
        else:
            settings["metavar"] = metavar
        if default:
            number = float if "." in default else int if default.isdigit() else str
            value = number(default)
            settings |= {"default": [value] if nargs else value, "type": type(value)}
            settings["help"] += f" (default: {default.removesuffix('.0')})"
        if nargs == "!":
            settings["required"] = True
        elif nargs == "&":
            settings |= {"action": "append", "default": []}
        elif nargs == "#":
            settings["nargs"] = 2
        elif nargs:
            settings = {"default": None if nargs == "?" else [], "nargs": nargs} | settings
        group.add_argument(name.replace("[no-]", ""), **settings)


def check_outs(args: argparse.Namespace) -> None:
    """Check the output files of ``predict`` and ``discover``, before slow imports.

    Raises:
        InputError: names the option.
    """
    outs = outputs(args)
    for option, file in outs.items():
        check_out(option, file, args.overwrite, OUTS[args.command][option])
    check_inputs(outs, [args.run, args.graph])
    for option, file in outs.items():
        if os.path.exists(file):
            check_replaced(option, file)


def check_predict(args: argparse.Namespace) -> None:
    """Refuse options of ``predict`` that miss or exclude others, before slow imports.

    Raises:
        InputError: names the option.
    """
    if args.folds < 0 or args.folds == 1:
        raise InputError("--folds", args.folds, "2 or more, or 0 for none")
    for option in ("disagreements", "folds", "uncertain"):
        if args.graph and getattr(args, option):
            message = "the labels of --graph are not read"
            raise InputError.plain(f"--{option}", message, "Leave out one of the two")
    for option in ("disagreements", "folds", "uncertain", "sample"):
        if not args.out and getattr(args, option):
            message = "it reads the table of predictions"
            raise InputError.plain(f"--{option}", message, "Give --out FILE, too")
    if not args.out and not args.why:
        raise InputError.plain("--out", "it is missing", "Give --out FILE, or --why ID")


def check_discover(args: argparse.Namespace) -> None:
    """Refuse options of ``discover`` that miss others, before slow imports.

    Raises:
        InputError: names the option.
    """
    check_least(args, clusters=0, new=0)
    if args.changes and not args.since:
        raise InputError.plain("--changes", "it compares two graphs", "Add --since RUN")
    if args.name and not (outputs(args) or args.labels_out):
        raise InputError.plain(
            "--name",
            "no output contains the names",
            "Add --labels-out NEXT to train with the names, or --out FILE to see them on a page",
        )
    if args.labels_out and not args.name and not args.since and not args.labels:
        raise InputError.plain("--labels-out", "no cluster has a name", "Name one: --name 1=NAME")
    if not args.since:
        return
    if not args.graph and os.path.realpath(args.since) == os.path.realpath(args.run):
        raise InputError.plain(
            "--since",
            f"{args.since} is RUN itself",
            "Give an earlier run, or another graph with --graph",
        )
    if not os.path.exists(args.since):
        raise InputError.plain("--since", f"{args.since} does not exist", "Give an earlier run")


OPTIONS = {"predict": check_predict, "discover": check_discover}
"""Checks of the options of a command beside those of its output files."""


def outputs(args: argparse.Namespace) -> dict[str, str]:
    """The output files of ``predict`` and ``discover``, by option."""
    files = {option: getattr(args, option[2:]) for option in OUTS[args.command]}
    return {option: file for option, file in files.items() if file is not None}


def unused(file: str, taken: str = "") -> str:
    """A file that does not exist yet, such as predictions-2.csv if there is a predictions.csv.

    It is not ``taken`` either, a file that is still to be written.
    """
    free = Path(file)
    stem = re.sub(r"-\d+$", "", free.stem)
    number = 1
    while free.exists() or str(free) == taken:
        number += 1
        free = free.with_name(f"{stem}-{number}{free.suffix}")
    return str(free)


def check_out(option: str, file: str | None, overwrite: bool, suffixes: Sequence[str] = ()) -> None:
    """Check, before any work, that a file can be written and replaces nothing by accident.

    Raises:
        InputError: names the option.
    """
    if file is None:
        return
    path = Path(os.path.abspath(file))
    hint = "Name another file"
    if suffixes and path.suffix.lower() not in suffixes:
        problem = "has the wrong file type"
        hint = f"Use the suffix {' or '.join(suffixes)}"
    elif not file or path.is_dir() or not os.access(path.parent, os.W_OK):
        problem = "cannot be written"
        hint = "Name a file in a folder that you can write to"
    elif path.is_symlink() or path.exists() and not path.is_file():
        problem = "is a link, or not a regular file"
    elif path.exists() and records.is_part(path.resolve()):
        problem = "belongs to results or a graph"
    elif path.exists() and not overwrite:
        problem = "exists"
        hint = "Name another file, or add --overwrite to replace it"
    elif path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        problem = "needs the package pyarrow"
        hint = "Write a .csv file, or install it with: pip install 'graphgym-srnc[parquet]'"
    else:
        return
    raise InputError.plain(option, f"{file!r} {problem}", hint)


def check_replaced(option: str, file: str) -> None:
    """Refuse to replace a file that is no output of these commands, or that a user filled in.

    Raises:
        InputError: names the option.
    """
    columns, typed = _content(Path(file))
    problem = ""
    if not any(wanted <= {*columns} for wanted in OWN):
        problem = "exists, and graphgym-srnc did not write it"
    elif typed:
        problem = f"has labels that you typed, such as {typed!r}"
    if problem:
        raise InputError.plain(option, f"{file!r} {problem}", "Name another file, or move this one")


def _content(path: Path) -> tuple[Sequence[str], str]:
    """The columns of a table, and the first cell that is filled in its column ``new_label``.

    For a page the name of the program that wrote it is instead of columns.
    """
    if path.suffix.lower() == ".html":
        with path.open("rb") as page:
            return GENERATOR.findall(page.read(1000).decode(errors="replace")), ""
    if path.suffix.lower() == ".parquet":
        from pyarrow import ArrowInvalid, parquet

        try:
            columns = parquet.read_schema(path).names
            wanted = [name for name in columns if name == "new_label"]
            found = parquet.read_table(path, columns=wanted)
            cells = [cell for column in found.itercolumns() for cell in column]
        except (ArrowInvalid, OSError):
            return [], ""
        return columns, next((str(cell) for cell in cells if cell.as_py()), "")
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = csv.DictReader(file)
        try:
            columns = rows.fieldnames or []
            own = rows if "new_label" in columns else ()
            return columns, next((row["new_label"] for row in own if row["new_label"]), "")
        except csv.Error:  # no table
            return [], ""


def check_inputs(outs: Mapping[str, str | None], inputs: Iterable[str | None]) -> None:
    """Refuse an output file, by option, that the command also reads or writes otherwise.

    Raises:
        InputError: names the option.
    """
    read = {os.path.realpath(path): "an input" for path in inputs if path}
    for option, out in outs.items():
        if out and (what := read.setdefault(os.path.realpath(out), option)) != option:
            raise InputError.plain(
                option, f"{out!r} is also {what} of this command", "Name another file"
            )


@contextlib.contextmanager
def writing(option: str, path: str | Path) -> Iterator[None]:
    """Report an error of the system as an error of the option that names the path.

    Raises:
        InputError: the path cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise InputError.plain(option, f"{path} cannot be written ({error.strerror})") from error


def write(option: str, path: str, content: bytes) -> str:
    """Write a file, whole or not at all, and return a line on it.

    Raises:
        InputError: the file cannot be written; names the option.
    """
    with writing(option, path):
        atomic.write_bytes(Path(path), content)
    return f"wrote {path}"


def check_least(args: argparse.Namespace, **least: int) -> None:
    """Check that options are finite and not below their minimum.

    Raises:
        InputError: names the option.
    """
    for name, value in least.items():
        if not value <= getattr(args, name) < math.inf:
            raise InputError(f"--{name.replace('_', '-')}", getattr(args, name), f"{value} or more")


def check_data(cfgs: Sequence[CfgNode]) -> None:
    """Check that the name of the data is read, so that no other data are taken for it.

    Raises:
        InputError: it is not.
    """
    if "dataset.name" in _unread(cfgs):
        formats = ", ".join(sorted({cfg.dataset.format for cfg in cfgs}))
        message = f"the shift {formats} does not read it, and has data of its own"
        raise InputError.plain("dataset.name", message, "For your own graph, add --cfg own")


def remark(cfgs: Sequence[CfgNode]) -> None:
    """Print a note on stderr about keys without effect."""
    if keys := ", ".join(_unread(cfgs)):
        modes = ", ".join(sorted({cfg.train.mode for cfg in cfgs}))
        tell(f"note: train.mode {modes} does not read {keys}; the value has no effect", sys.stderr)


def _unread(cfgs: Sequence[CfgNode]) -> Sequence[str]:
    """Changed keys that no run reads."""
    from graphgym_srnc.gym import load_config
    from graphgym_srnc.gym.keys import not_read

    return not_read(cfgs, flatten(load_config()))


def base_name(cfg_file: str | None) -> str:
    """The name of a yaml file without folders and suffix."""
    return Path(cfg_file or "default").name.removesuffix(".yaml").removesuffix(".yml")


def default_name(cfg_file: str | None, words: Sequence[str], shift: str) -> str:
    """Default name of a folder of results: the config, then the settings of data, shift and method
    on the command line, as in ``citation-srnc-plus-source=dblpv7-target=acmv9``.

    Of a shipped config the folder counts as well. ``words`` are keys and values, alternately, and
    ``shift`` is the value of ``dataset.format``, whose block is that of the shift.
    """
    file = config_files.find(cfg_file) if cfg_file else None
    name = base_name(cfg_file and str(file))
    folder = file and file.resolve().parent
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
