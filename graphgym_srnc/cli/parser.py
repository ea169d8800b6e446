"""The parser of all commands, by ``help.txt``. Each is a module here with ``main(args)``."""

from __future__ import annotations

import argparse
import functools
import re
import sys
from pathlib import Path
from typing import NoReturn

from graphgym_srnc import __version__
from graphgym_srnc.cli.arguments import add_options
from graphgym_srnc.core.text import tell
from graphgym_srnc.errors import did_you_mean

_HELP = Path(__file__).with_name("help.txt").read_text(encoding="utf-8")
_TEXTS = dict(re.findall(r"^# (.+)\n((?:(?!# ).*\n)*)", _HELP, re.MULTILINE))
COMMANDS = {name: text for name, text in _TEXTS.items() if not name.startswith("data ")}
DATA_COMMANDS = {name[5:]: text for name, text in _TEXTS.items() if name not in COMMANDS}
"""The help of each command, and of each action of ``data``, by its name."""


class Parser(argparse.ArgumentParser):
    """A parser that proposes a command or an option for one that does not exist."""

    def error(self, message: str) -> NoReturn:
        """Print a message and the most similar name, and exit with status 2."""
        known = [*self._option_string_actions]
        known += [name for action in self._actions for name in action.choices or ()]
        if wrong := re.search(r"(?:invalid choice: '|unrecognized arguments: )([\w-]+)", message):
            message = f"{message}. {did_you_mean(wrong[1], known)}".rstrip()
        if re.search(r"unrecognized arguments: \d+[a-z]?=", message):
            message = f"{message.rstrip('.')}. Repeat --name before each of them"
        self.print_usage(sys.stderr)
        tell(f"{self.prog}: error: {message}", sys.stderr)
        self.exit(2)


@functools.cache
def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = Parser(
        prog="graphgym-srnc",
        allow_abbrev=False,
        description="Train graph neural networks for node classification under distribution shift,"
        " on PyTorch Geometric's GraphGym.",
    )
    parser.add_argument("--version", action="version", version=f"graphgym-srnc {__version__}")
    add_options(parser, "--debug  show the traceback of internal errors")
    commands = _add_commands(parser, "command", COMMANDS)
    what = "list data sets, show a shift before training, or make a graph from your own files"
    data = commands.add_parser("data", help=what, description=f"{what.capitalize()}.")
    _add_commands(data, "action", DATA_COMMANDS)
    return parser


def _add_commands(
    parser: argparse.ArgumentParser, dest: str, texts: dict[str, str]
) -> argparse._SubParsersAction:
    commands = parser.add_subparsers(title="commands", dest=dest, metavar="COMMAND")
    parser.set_defaults(parser=parser)
    for name, text in texts.items():
        description, options, *blocks = text.strip("\n").split("\n\n")
        # The first sentence is the line in the list of commands.
        summary = description.partition(". ")[0].rstrip(".").replace("\n", " ")
        own = commands.add_parser(
            name,
            help=summary[0].lower() + summary[1:],
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_options(own, options)
        for block in blocks:
            title, _, below = block.partition(":\n")
            if below.startswith("--"):
                add_options(own.add_argument_group(title), below)
            else:
                own.epilog = block
        own.set_defaults(parser=own)
        if "--cfg" in options:
            own.usage = f"{own.prog} [options] [key value ...]"
            own.set_defaults(overrides=[])
    return commands
