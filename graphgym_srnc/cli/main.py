"""The command ``graphgym-srnc``: one parser, with one module per subcommand."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import Sequence

from graphgym_srnc.cli import arguments
from graphgym_srnc.cli.parser import build_parser
from graphgym_srnc.cli.words import told, worded
from graphgym_srnc.core import environment, plugins
from graphgym_srnc.core.text import plain, tell
from graphgym_srnc.errors import InputError, each
from graphgym_srnc.io import config_files, records

# Exit status after bad input, and after any other error; 128 and its number after a signal.
INPUT = 2
FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 for bad input, 1 for another error, each printed as one line on
    stderr, or 130 after Ctrl-C."""
    words = sys.argv[1:] if argv is None else argv
    received: list[int] = []
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # none fails at a letter that it cannot show
            stream.reconfigure(errors="backslashreplace")
    if argv is None:
        environment.own()
        _take_signals(received)
    try:
        try:
            return _command([word for word in words if word != "--debug"])
        finally:
            _flush()
    except InputError as error:
        for one in each(error):
            _print_error(f"error: {plugins.after_warning(one)}")
        return INPUT
    except KeyboardInterrupt as error:
        _print_error(": ".join(["interrupted", *map(str, error.args)]))
        return 128 + (received or [signal.SIGINT])[0]
    except BrokenPipeError:  # who reads has read enough
        return 128 + 13  # SIGPIPE, which Windows does not have
    except Exception as error:
        if "--debug" in words:
            raise
        _print_error(*told([_story(error)]))
        return FAILED


def _story(error: Exception) -> str:
    """What the user reads of an error that is no error of input."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        hint = "Use fewer or smaller layers, a smaller graph, or batch_size of the method"
        return f"error: the memory of this machine does not suffice. {hint}."
    if isinstance(error, ConnectionError):  # to another process of torchrun
        return f"error: {error}. The same command with --resume continues."
    if isinstance(error, (OSError, FloatingPointError)):
        return f"error: {error}"
    place = plugins.place(error)
    where = f"error in {place}" if place else "internal error"
    return f"{where}: {type(error).__name__}: {error}. Add --debug to see the traceback."


def _command(words: Sequence[str]) -> int:
    """Parse the words of a command and run it; return its status."""
    args = _parse(words)
    if args.command is None or getattr(args, "action", "") is None:
        args.parser.print_help()
        return 0
    with worded(args.parser):
        _check(args)
        command = _import(args.command)
        if not getattr(args, "trust", False):
            return command.main(args) or 0
        from graphgym_srnc.data import untrusted

        with untrusted.trusted():
            return command.main(args) or 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command, with the words of its config as ``overrides``."""
    for word in words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise InputError.plain(
                plain(word),
                "it contains bytes that are no text in UTF-8",
                "Rename the file or folder",
            )
    args, rest = build_parser().parse_known_args(words)
    # argparse cannot mix options with a list of positional words, so the words arrive here.
    options = [word for word in rest if word.startswith("--")]
    if options:
        args.parser.error(f"unrecognized arguments: {' '.join(options)}")
    if rest and not hasattr(args, "overrides"):
        text = f"unrecognized arguments: {' '.join(rest)}"
        if hasattr(args, "text"):
            text += ". Separate several columns by commas, as in --text title,abstract"
        args.parser.error(text)
    if rest:
        args.overrides = [*args.overrides, *rest]
    return args


def _check(args: argparse.Namespace) -> None:
    """Refuse what can be refused before slow imports, and read the settings of ``--cfg``."""
    if getattr(args, "resume", False) and args.overwrite:
        raise InputError.plain(
            "--resume",
            "it excludes --overwrite",
            "Give --resume to keep finished runs, or --overwrite to replace them",
        )
    if hasattr(args, "cfg"):
        args.settings = config_files.read(args.cfg)
    if args.command in arguments.OUTS:
        arguments.check_outs(args)
        arguments.OPTIONS[args.command](args)
    if hasattr(args, "run") and not Path(args.run).is_file():
        records.finished_run(Path(args.run))


def _import(command: str) -> ModuleType:
    """The module of a command."""
    try:
        with environment.uncollected():
            module = import_module(f"graphgym_srnc.cli.{command}")
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise InputError.plain(
            "tune",
            "the package optuna is not installed",
            "Install it with: pip install 'graphgym-srnc[tune]'",
        ) from error
    if environment.owned:
        gc.freeze()  # modules stay until the end, and each collection would visit all their objects
    return module


def _take_signals(received: list[int]) -> None:
    """End the command in order at the first Ctrl-C or SIGTERM, and at once at the second."""

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    def again(ignored: sys.UnraisableHookArgs) -> None:
        """Python drops what is raised in a destructor or a weak reference's callback, so the same
        signal is sent once more, a moment after it."""
        if not received or not isinstance(ignored.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(ignored)
            return
        number = received.pop()
        signal.signal(number, stop)
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()

    sys.unraisablehook = again
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)


def _flush() -> None:
    """Write what is left; if that fails, Python shall not try again at its end."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _print_error(text: str) -> None:
    """Print an error in which no character of the input steers the terminal; as one line in files
    and pipes."""
    with contextlib.suppress(OSError):  # nobody reads
        tell(plain(text), sys.stderr)
