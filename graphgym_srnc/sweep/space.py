"""Grid files in GraphGym's text format, and names of their settings.

A line is a config key, its alias in names of folders, and a list of values. An empty line starts
another space, and the grid is the union of all spaces. ``#`` starts a comment. The key ``cfg``
varies the base config: its values are YAML files or names of shipped ones.

    gnn.layer_type  l     ['gcnconv','sageconv']
    srnc.rounds     T     [2,3]
"""

from __future__ import annotations

import contextlib
import itertools
import re
from pathlib import Path
from typing import NamedTuple, Sequence, Union

from graphgym_srnc.errors import InputError
from graphgym_srnc.io.atomic import content
from graphgym_srnc.io.settings import plain_yaml

BASE_KEY = "cfg"  # the key that names the base config

Value = Union[str, tuple]


class Axis(NamedTuple):
    """A line of a grid file: a config key, its alias, its values as texts or tuples of texts."""

    key: str
    alias: str
    values: tuple[Value, ...]


class Point(NamedTuple):
    """A value on an axis."""

    key: str
    alias: str
    value: Value


Space = list[Axis]
Setting = tuple[Point, ...]


def read(path: Path) -> list[Space]:
    """The spaces of a grid file; an InputError names the line that is not valid."""
    try:
        text = content(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.plain("grid", f"{path} is not a readable text file ({error})") from error

    spaces: list[Space] = [[]]
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        where = f"{path}, line {number}"
        if not words:
            spaces.append([])
        # GraphGym takes a line with a lone # anywhere for a comment.
        elif not words[0].startswith("#") and "#" not in words:
            spaces[-1].append(_axis(line, where))
    spaces = [space for space in spaces if space]
    if not spaces:
        raise InputError.plain(
            "grid",
            f"{path} contains no setting",
            "Write at least one line: key alias [value,value]",
        )
    return spaces


def _axis(line: str, where: str) -> Axis:
    values = None
    found = re.fullmatch(r"(\S+)\s+(\w+)\s+(\[.*\])", line.strip())
    with contextlib.suppress(ValueError):
        values = plain_yaml(found[3]) if found else None
    if not found or not values or any(isinstance(value, dict) for value in values):
        message = f"{where}: {line.strip()!r} is not valid"
        raise InputError.plain(
            "grid",
            message,
            "Write key alias [value,value]; an alias consists of letters, digits and _",
        )
    if found[1] == "seed":
        message = f"{where}: the key seed cannot be varied"
        raise InputError.plain("grid", message, code="grid_seed")
    return Axis(found[1], found[2], tuple(map(_frozen, values)))


def _frozen(value: str | list) -> Value:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def settings(spaces: Sequence[Space]) -> list[Setting]:
    """All combinations of all spaces, each once. As in GraphGym the first axis changes fastest."""
    every: dict[Setting, None] = {}
    for space in spaces:
        points = [[Point(axis.key, axis.alias, value) for value in axis.values] for axis in space]
        every |= dict.fromkeys(point[::-1] for point in itertools.product(*reversed(points)))
    return list(every)


def name(base: str, setting: Setting) -> str:
    """Folder name ``<base>-<alias>=<value>-...``, from which ``agg_batch`` reads the values.

    GraphGym takes all before the first ``-`` for the base, so ``-`` becomes ``_`` there.
    """
    return "-".join([base.replace("-", "_"), *(f"{p.alias}={_word(p)}" for p in setting)])


def _word(point: Point) -> str:
    value = point.value
    if point.key == BASE_KEY:
        file = str(value).replace("\\", "/").rsplit("/", 1)[-1]
        value = file.removesuffix(".yaml").replace("-", "_")
    if isinstance(value, tuple):
        # As Python writes it: GraphGym evaluates what it can, and then sorts by it.
        value = "".join(f"{item}," for item in value) or "()"
    return re.sub(r'[\s/\\:*?"<>|=\x00-\x1f\[\]\']+', "_", value) or "none"
