"""The command ``graphgym-srnc``: one parser, with one module per subcommand."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Iterator, Sequence

from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.parser import build_parser
from graphgym_srnc.core import environment
from graphgym_srnc.errors import InputError, each
from graphgym_srnc.io import config_files, records

MAX_CHARACTERS = 2000
"""How much of an error is printed."""

INPUT, FAILED = 2, 1
"""Exit status after bad input, and after any other error; 128 and its number after a signal."""

SIGPIPE = 13
"""The signal that ends a Unix command whose output nobody reads."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 for bad input, 1 for another error, each printed as one line on
    stderr, or 130 after Ctrl-C."""
    words = sys.argv[1:] if argv is None else argv
    environment.owned = argv is None
    _open_streams()
    with _terminable(is_process=argv is None) as signals:
        try:
            try:
                return _command(words)
            finally:
                sys.stdout.flush()
        except InputError as error:
            for one in each(error):
                _print_error(f"error: {one}")
            return INPUT
        except KeyboardInterrupt as error:
            _print_error(": ".join(["interrupted", *map(str, error.args)]))
            return 128 + (signals or [signal.SIGINT])[0]
        except BrokenPipeError:  # who reads has read enough
            return 128 + SIGPIPE
        except Exception as error:
            return _failed(error, signals, "--debug" in words)
        finally:
            _close_streams()


def _command(words: Sequence[str]) -> int:
    """Parse the words of a command and run it; return its status."""
    parser = build_parser()
    args, rest = parser.parse_known_args(words)
    if "--debug" in rest:  # after the command it is as good as before it
        args.debug, rest = True, [word for word in rest if word != "--debug"]
    # argparse cannot mix options with a list of positional words, so the words arrive here.
    options = [word for word in rest if word.startswith("--")]
    if options or rest and not hasattr(args, "overrides"):
        parser.error(f"unrecognized arguments: {' '.join(options or rest)}")
    if rest:
        args.overrides = [*args.overrides, *rest]

    if hasattr(args, "cfg"):
        args.settings = config_files.read(args.cfg)
        arguments.check_names(args.settings, args.overrides)
    if args.command == "run":
        arguments.check_finished(args)
    if hasattr(args, "run") and not Path(args.run).is_file():
        records.finished_run(Path(args.run))  # before slow imports
    try:
        with environment.uncollected():
            command = import_module(f"graphgym_srnc.cli.{args.command}")
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        hint = "Install it with: pip install 'graphgym-srnc[tune]'"
        raise InputError.plain("tune", "the package optuna is not installed", hint) from error
    if not getattr(args, "trust", False):
        return command.main(args) or 0
    from graphgym_srnc.data import untrusted

    with untrusted.trusted():
        return command.main(args) or 0


def _failed(error: Exception, signals: Sequence[int], debug: bool) -> int:
    """Print an error that is no :class:`InputError` as one line; return the status."""
    kind, status = type(error).__name__, FAILED
    if signals:  # some libraries make an error of their own of an interrupt
        status, text = 128 + signals[0], "interrupted"
    elif debug:
        raise error
    elif isinstance(error, UnicodeEncodeError):
        part = error.object[max(0, error.start - 40) : error.end + 40]
        text = f"error: {part!r} is not valid {error.encoding} text; rename the file or folder"
        status = INPUT
    elif isinstance(error, (OSError, FloatingPointError)):
        text = f"error: {error}"
        status = INPUT if getattr(error, "errno", None) == errno.ENAMETOOLONG else FAILED
    else:
        text = f"internal error: {kind}: {error}. Add --debug to see the traceback."
    _print_error(text)
    return status


def _open_streams() -> None:
    """Open streams that the shell has closed, and let none fail at a letter that it cannot show."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Gets the number of the closed stream, which another file would get otherwise.
            handle = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(handle, True)
            setattr(sys, name, open(handle, mode, encoding="utf-8"))
        if mode == "w" and hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _close_streams() -> None:
    """Write what is left, or drop it where it cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def _terminable(is_process: bool) -> Iterator[list[int]]:
    """End a command in order at the first Ctrl-C or SIGTERM; yields a list of the signals.

    A second signal ends it at once.

    Args:
        is_process: whether the process ends afterwards, so that signals may end it at once.
    """
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: old for number, old in before.items() if old not in (None, signal.SIG_IGN)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield signals
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if is_process else old)


def _print_error(text: str) -> None:
    """Print an error as one line in which no character of the input steers the terminal."""
    line = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    if len(line) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2
        line = f"{line[:half]} ... {line[-half:]}"
    with contextlib.suppress(OSError):  # nobody reads
        print(line, file=sys.stderr)
