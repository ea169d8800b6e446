"""The command ``graphgym-srnc``: one parser, with one module per subcommand."""
from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
import threading
from importlib import import_module
from types import FrameType
from typing import Iterator, Sequence

from graphgym_srnc import __version__, environment
from graphgym_srnc.cli import arguments
from graphgym_srnc.errors import InputError

COMMANDS = ("run", "grid", "tune", "compare", "report", "check", "predict", "discover", "data",
            "options")
"""Each is a module here with ``add_parser(subparsers)`` and ``main(args) -> int | None``, light to
import."""

PAGES = {"grid": "how-to/grids", "tune": "how-to/grids", "compare": "how-to/reports",
         "report": "how-to/reports", "check": "reference/results-folder",
         "predict": "how-to/predict-discover", "discover": "how-to/predict-discover",
         "data": "tutorials/own-graph"}
"""The page of the documentation for each command."""

MAX_CHARACTERS = 2000
"""How much of an error is printed."""

INPUT, FAILED = 2, 1
"""Exit status after bad input, and after any other error; 128 and its number after a signal."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = argparse.ArgumentParser(
        prog="graphgym-srnc", allow_abbrev=False,
        description="Train graph neural networks for node classification under distribution shift,"
        " on PyTorch Geometric's GraphGym.")
    parser.add_argument("--debug", action="store_true",
                        help="show the traceback of internal errors")
    parser.add_argument("--version", action="version", version=f"graphgym-srnc {__version__}")
    metavar = "{" + ",".join(COMMANDS) + "}"
    subparsers = parser.add_subparsers(dest="command", required=True, metavar=metavar)
    for name in COMMANDS:
        import_module(f"graphgym_srnc.cli.{name}").add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 for bad input, 1 for another error, each printed as one line on
    stderr, or 130 after Ctrl-C."""
    environment.is_command = True
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
            with arguments.trusting(args):
                status = import_module(f"graphgym_srnc.cli.{args.command}").main(args) or 0
            sys.stdout.flush()
            return status
        except InputError as error:
            for one in getattr(error, "errors", [error]):
                page = _page(one.key, args.command)
                see = f" See {page}." if str(one)[-1] in ".?!" else f" (see {page})"
                _print_error(f"error: {one}{see * bool(page)}")
            return INPUT
        except KeyboardInterrupt as error:
            _print_error(": ".join(["interrupted", *map(str, error.args)]))
            return 128 + (signals or [signal.SIGINT])[-1]
        except BrokenPipeError:
            # Who reads has read enough. What is left goes nowhere, or Python would complain of it
            # at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:
            if args.debug:
                raise
            if isinstance(error, (OSError, FloatingPointError)):
                _print_error(f"error: {error}")
            else:
                kind = type(error).__name__
                _print_error(f"internal error: {kind}: {error}. Add --debug to see the traceback.")
            return INPUT if getattr(error, "errno", None) == errno.ENAMETOOLONG else FAILED


@contextlib.contextmanager
def _terminable() -> Iterator[list[int]]:
    """Let SIGTERM end a command as Ctrl-C does, and lose neither; yields a list of the signals that
    came."""
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    def forgotten(error: sys.UnraisableHookArgs) -> None:
        # Python forgets what is raised in finalisers and in callbacks of weak references, which it
        # calls in the middle of anything: the signal comes again when that is over.
        if not issubclass(error.exc_type, KeyboardInterrupt):
            return hook(error)
        number = signals.pop() if signals else signal.SIGINT
        threading.Timer(0.01, os.kill, (os.getpid(), number)).start()

    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    hook, before = sys.unraisablehook, signal.signal(signal.SIGTERM, stop)
    sys.unraisablehook = forgotten
    try:
        yield signals
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)


def _page(key: str, command: str) -> str:
    """What to read about a config key or a command: a page or a command."""
    from graphgym_srnc import methods, shifts
    block, dot, _ = key.partition(".")
    page = PAGES.get(command)
    if dot and block in methods.own_names():
        return f"graphgym-srnc options {block}"
    if dot and block in shifts.own_names():
        page = "tutorials/own-graph" if block == "file" else "reference/data"
    return f"docs/{page}.md" if page else ""


def _print_error(text: str) -> None:
    """Print an error as one line in which no character of the input steers the terminal."""
    line = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    if len(line) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2
        line = f"{line[:half]} ... {line[-half:]}"
    print(line, file=sys.stderr)
