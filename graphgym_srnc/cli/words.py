"""How a command words an error of a package below it: the option at fault, and what to do.

Those packages also serve Python, so an error has a code, and the command line's words are here.
"""

from __future__ import annotations

from typing import NamedTuple

from graphgym_srnc.errors import InputError


class Words(NamedTuple):
    """What the command line adds to an error."""

    option: str = ""  # instead of the key of the error
    hint: str = ""  # sentences without the last full stop


WORDS = {
    "against": Words("--against"),
    "alpha": Words("--alpha"),
    "by": Words("--by"),
    "columns": Words("--columns"),
    "ddof": Words("--ddof"),
    "metric": Words("--metric"),
    "test_metric": Words("--metric", "--split val shows scores on validation nodes"),
    "paper": Words("--paper"),
    "select": Words("--select"),
    "no_choice": Words(
        "--select",
        "Show these keys with --by or --columns, or give --select without keys",
    ),
    "split": Words("--split"),
    "test": Words("--test"),
    "folders": Words("DIR"),
    "no_test_score": Words("DIR", "Label test nodes, or use compare --split val"),
    "config": Words("--cfg"),
    "grid": Words("--grid"),
    "grid_seed": Words("--grid", "Use --repeat to run several seeds"),
    "repeat": Words("--repeat"),
    "other_config": Words(
        hint="Choose another --name, or add --overwrite to replace all of its runs"
    ),
    "other_config_stays": Words(
        hint="Choose another --name, or raise --repeat, so that --overwrite replaces all of its"
        " runs"
    ),
    "foreign": Words(hint="Choose another --name"),
    "runs_exist": Words(
        hint="Add --resume to run only the missing seeds, --overwrite to run all again, or choose"
        " another --name"
    ),
    "other_study": Words(hint="Choose another --name, or add --overwrite to replace it"),
    "executor": Words("--executor"),
    "ray_address": Words("--ray-address"),
}


def worded(error: InputError) -> InputError:
    """The error as the user of a command reads it."""
    words = WORDS.get(error.code, Words())
    if words.option:
        error = error.at(words.option)
    return error.advised(words.hint) if words.hint else error
