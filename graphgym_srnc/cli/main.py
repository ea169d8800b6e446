"""The command ``graphgym-srnc``: one parser, one module a subcommand, one line for each kind of bad input."""
from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, Iterator, Sequence

from graphgym_srnc import __version__
from graphgym_srnc.errors import InputError

COMMANDS = ("run", "grid", "compare", "report", "predict", "discover", "data", "options")
"""Each is a module here with ``add_parser(subparsers)`` and ``main(args) -> int | None``, light to import."""

PAGES = {"grid": "grid", "compare": "report", "report": "report", "predict": "predict", "discover": "discover", "data": "own-graph"}
"""What to read about a command."""

LONGEST = 2000
"""Characters of an error that are told."""

INPUT, FAILED = 2, 1
"""Exit status after bad input, and after any other error; 128 and the signal's number after one."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = argparse.ArgumentParser(prog="graphgym-srnc", allow_abbrev=False,
                                     description="Node classification under distribution shift, on PyTorch Geometric's GraphGym.")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error that is not one of the input")
    parser.add_argument("--version", action="version", version=f"graphgym-srnc {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="{" + ",".join(COMMANDS) + "}")
    for name in COMMANDS:
        import_module(f"graphgym_srnc.cli.{name}").add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 for bad input, 1 for another error, each told in one line on stderr, or 130 after Ctrl-C."""
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    if "--debug" in rest:  # after the command it is as good as before it
        args.debug, rest = True, [word for word in rest if word != "--debug"]
    # argparse cannot mix options with a list of positional words, so the words arrive here.
    options = [word for word in rest if word.startswith("--")]
    if options or rest and not hasattr(args, "overrides"):
        parser.error(f"unrecognized arguments: {' '.join(options or rest)}")
    if rest:
        args.overrides = [*args.overrides, *rest]
    with _terminable() as signals:
        try:
            status = import_module(f"graphgym_srnc.cli.{args.command}").main(args) or 0
            sys.stdout.flush()
            return status
        except InputError as error:
            _say(f"error: {error}{_page(error.key, args.command)}")
            return INPUT
        except KeyboardInterrupt as error:
            _say(": ".join(["interrupted", *map(str, error.args)]))
            return 128 + (signals or [signal.SIGINT])[-1]
        except BrokenPipeError:
            # Who reads has read enough. What is left goes nowhere, or Python would complain of it at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:
            if args.debug:
                raise
            told = isinstance(error, (OSError, FloatingPointError))
            _say(f"error: {error}" if told else f"internal error: {type(error).__name__}: {error}; --debug shows where")
            return INPUT if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG else FAILED


@contextlib.contextmanager
def _terminable() -> Iterator[list[int]]:
    """SIGTERM ends a command as Ctrl-C does; the signals that came are in the list."""
    came: list[int] = []

    def stop(number: int, frame: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


def _page(key: str, command: str) -> str:
    """The page of the documentation that tells more of a config key or of a command."""
    block, package = key.partition(".")[0], Path(__file__).parents[1]
    if block.isidentifier() and "." in key:
        for folder, page in (("shifts", "data" if block != "file" else "own-graph"), ("methods", "methods")):
            if (package / folder / f"{block}.py").is_file():
                return f" (docs/{page}.md)"
    return f" (docs/{PAGES[command]}.md)" if command in PAGES else ""


def _say(text: str) -> None:
    """Print an error as one line, in which nothing of a stranger steers the terminal."""
    line = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    print(line if len(line) <= LONGEST else f"{line[:LONGEST // 2]} ... {line[-LONGEST // 2:]}", file=sys.stderr)
