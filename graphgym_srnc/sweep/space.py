"""Grid files in GraphGym's text format: what to vary, and what each run is called.

A line is a key, its alias in names of directories, and a list of values; an empty line starts
another space, and the grid is the union of all spaces; ``#`` starts a comment. The key ``cfg``
varies the base config itself: its values are yaml files or names of shipped ones.

    gnn.layer_type  l     ['gcnconv','sageconv']
    srnc.rounds     T     [2,3]
"""

from __future__ import annotations

import math
import random
import re
from pathlib import Path
from typing import NamedTuple, Sequence, Union

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.text import tell_changed
from graphgym_srnc.io.atomic import regular
from graphgym_srnc.io.checksums import is_edited
from graphgym_srnc.io.settings import plain_yaml

BASE_KEY = "cfg"
"""The key that names the base config."""

MAX_SETTINGS = 20_000
"""Settings of a grid that is run as a whole."""

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
    """The spaces of a grid file.

    Raises:
        InputError: it cannot be read, a line is not a key, an alias and a list, or a key or alias
            stands twice in a space.
    """
    try:
        text = regular(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} is not a readable text file ({error})"
        raise InputError.plain("--grid", message) from error

    if is_edited(path):
        tell_changed(str(path))
    spaces: list[Space] = [[]]
    for number, line in enumerate(text.splitlines(), 1):
        words, where = line.split(), f"{path}, line {number}"
        if not words:
            spaces.append([])
        # GraphGym takes a line with a lone # anywhere for a comment.
        elif not words[0].startswith("#") and "#" not in words:
            axis = _axis(line, where)
            for kind in ("key", "alias"):
                name = getattr(axis, kind)
                if name in [getattr(other, kind) for other in spaces[-1]]:
                    message = f"{where}: the {kind} {name} occurs twice in a search space"
                    raise InputError.plain("--grid", message, "Remove or rename one of them")
            spaces[-1].append(axis)
    spaces = [space for space in spaces if space]
    if not spaces:
        raise InputError.plain(
            "--grid",
            f"{path} contains no setting",
            "Write at least one line: key alias [value,value]",
        )
    return spaces


def _axis(line: str, where: str) -> Axis:
    def refuse(message: str, hint: str) -> InputError:
        return InputError.plain("--grid", f"{where}: {message}", hint)

    words = line.split(None, 2)
    if len(words) != 3:
        raise refuse(f"{line.strip()!r} does not have three parts", "Write key alias [value,value]")
    key, alias, text = words
    if not re.fullmatch(r"\w+", alias):
        raise refuse(
            f"{alias!r} is not a valid alias",
            "Use letters, digits and _; GraphGym splits names at - and =",
        )
    try:
        values = plain_yaml(text)
    except ValueError:
        values = None
    if (
        not isinstance(values, list)
        or not values
        or not all(isinstance(value, (str, list)) for value in values)
    ):
        raise refuse(
            f"{text!r} is not a list of values",
            "Write a list of at least one value, such as [1,2] or ['gcnconv','sageconv']",
        )
    if key == "seed":
        raise refuse("the key seed cannot be varied", "Use --repeat to run several seeds")
    return Axis(key, alias, tuple(map(_frozen, values)))


def _frozen(value: str | list) -> Value:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def size(space: Space) -> int:
    """Number of settings in a space."""
    return math.prod(len(axis.values) for axis in space)


def settings(spaces: Sequence[Space]) -> list[Setting]:
    """Every combination in every space, each once, the first axis of a space changing fastest, as
    in GraphGym.

    Raises:
        InputError: there are more than ``MAX_SETTINGS``.
    """
    number = sum(map(size, spaces))
    if number > MAX_SETTINGS:
        message = f"the grid has {number} settings; at most {MAX_SETTINGS} are possible"
        raise InputError.plain("--grid", message, "Draw N of them with --sample N")
    every = (_setting(space, index) for space in spaces for index in range(size(space)))
    return list(dict.fromkeys(every))


def sample(
    spaces: Sequence[Space], number: int, seed: int = 0, compare: Sequence[str] = ()
) -> list[Setting]:
    """Settings drawn at random without repetition, from each space in proportion to its size.

    Args:
        spaces: where to draw from.
        number: how many draws in all; where a space has fewer settings, all of them.
        seed: seeds the draw.
        compare: aliases. For each of them so many draws of all other axes are made and completed by
            every value of its axis, so that its values are compared on equal terms (GraphGym's
            ``sample_alias``).

    Raises:
        InputError: an alias is in no space, or ``number`` is below 1.
    """
    if number < 1:
        raise InputError("--sample", number, "1 or more")
    known = dict.fromkeys(axis.alias for space in spaces for axis in space)
    for alias in compare:
        if alias not in known:
            raise InputError("--sample-alias", alias, f"an alias of the grid: {', '.join(known)}")

    draw = random.Random(seed)
    drawn: list[Setting] = []
    for space, share in zip(spaces, _shares([size(space) for space in spaces], number)):
        for alias in compare or [None]:
            free = [axis for axis in space if axis.alias != alias]
            compared = [axis for axis in space if axis.alias == alias]
            if alias is not None and not compared:
                continue
            # By number instead of by list: a space may be far too large to write down.
            for index in draw.sample(range(size(free)), min(share, size(free))):
                for value in range(size(compared)):
                    points = [*_setting(free, index), *_setting(compared, value)]
                    by_key = {point.key: point for point in points}
                    drawn.append(tuple(by_key[axis.key] for axis in space))
    return list(dict.fromkeys(drawn))


def _setting(space: Space, index: int) -> Setting:
    """The setting of a space with a number, the first axis being the lowest digit."""
    points = []
    for axis in space:
        index, digit = divmod(index, len(axis.values))
        points.append(Point(axis.key, axis.alias, axis.values[digit]))
    return tuple(points)


def _shares(sizes: Sequence[int], number: int) -> list[int]:
    """Whole parts of a number in proportion to sizes, the largest remainders rounded up."""
    exact = [number * size / sum(sizes) for size in sizes]
    shares = [int(share) for share in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda i: shares[i] - exact[i])
    for index in by_remainder[: number - sum(shares)]:
        shares[index] += 1
    return shares


def name(base: str, setting: Setting) -> str:
    """The directory of an experiment, ``<base>-<alias>=<value>-...``, from which GraphGym's
    ``agg_batch`` reads the values back.

    GraphGym takes all before the first ``-`` for the base, so that one becomes ``_`` there; a value
    keeps what a file name may hold, and the folders and dashes of the name of a config are cut.
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
