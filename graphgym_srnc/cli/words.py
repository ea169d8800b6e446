"""How a command words what the packages below it say: errors, notes and warnings.

Those packages also serve Python, so they name an option as an argument, and what only a command can
do has a code. The command line's words are here.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import Iterable, Iterator, Mapping

from graphgym_srnc.errors import InputError, each, in_words, joined

CONFIG = {
    "abstain": "srnc_plus.abstain",
    "lr": "optim.base_lr",
    "num_test": "file.num_test",
    "num_unseen": "file.num_unseen",
    "open_set": "file.open_set",
    "save_model": "train.save_model",
    "selection": "train.selection",
}
"""Config keys of arguments that messages name."""

OTHERS = {
    "address": "ray_address",
    "config": "cfg",
    "metrics": "metric",
    "names": "name",
    "num_clusters": "clusters",
    "num_new": "new",
    "path": "run",
}
"""Arguments of Python that are another option of a command."""

HINTS = {
    "arguments": "Arguments are also keys of dataset.args",
    "damaged": "Or repeat this one with run --overwrite",
    "foreign": "Choose another --name",
    "graph_without_key": "To read a graph there, write its key first: dataset.name",
    "grid_seed": "Use --repeat to run several seeds",
    "no_choice": "Show these keys with --by or --columns, or give --select without keys",
    "no_data_set": "List all data sets with: graphgym-srnc data list",
    "no_graph": "Make a folder of tables with: graphgym-srnc data make NODES LINKS --out FOLDER",
    "no_model": "`grid` and `tune` set this key to false by default",
    "no_test_score": "Label test nodes, or use compare --split val",
    "other_config": "Choose another --name, or add --overwrite to replace all of its runs",
    "other_config_stays": "Choose another --name, or raise --repeat, so that --overwrite replaces"
    " all of its runs",
    "other_features": "Use: graphgym-srnc data make NODES LINKS --like {value} --out NEW",
    "other_study": "Choose another --name, or add --overwrite to replace it",
    "rare_words": "Or keep rarer words with --min-nodes 1",
    "runs_exist": "Add --resume to run only the missing seeds, --overwrite to run all again, or"
    " choose another --name",
    "test_metric": "--split val shows scores on validation nodes",
}
"""What a user of commands can do about the errors of a code, without the last full stop."""


@contextlib.contextmanager
def worded(parser: argparse.ArgumentParser) -> Iterator[None]:
    """Word the errors that this block raises for the user of a command."""
    try:
        yield
    except InputError as error:
        flags = flags_of(parser)
        raise joined([_worded(one, flags) for one in each(error)]) from error.__cause__


def _worded(error: InputError, flags: dict[str, str]) -> InputError:
    error = error.renamed(CONFIG | flags).at(flags.get(error.key, error.key))
    hint = HINTS.get(error.code)
    return error.advised(hint.format(value=error.value)) if hint else error


def told(texts: Iterable[str], flags: Mapping[str, str] = CONFIG) -> list[str]:
    """Notes and warnings as the user of a command reads them."""
    return [in_words(text, flags) for text in texts]


def flags_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The words for the arguments of a command: ``--label`` of ``label``, ``RUN`` of ``run``."""
    found = {
        action.dest: action.option_strings[0] if action.option_strings else str(action.metavar)
        for action in parser._actions
    }
    return found | {name: found[dest] for name, dest in OTHERS.items() if dest in found}
