"""What a graph may hold beside numbers: ids, texts and addresses of nodes, feature names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from graphgym_srnc.core.text import short
from graphgym_srnc.data import extremes, read
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io import atomic

# A web address that a page may link to; other schemes, such as javascript, could run code.
ADDRESS = re.compile(r"https?://[^\s\"'<>]+")

PART = "letters "  # start of the name of a feature that counts a part of words
PIECE = "range of "  # start of the name of a feature that says how far a number is in a range
DERIVED = (PART, PIECE)  # starts of the names of features that are made of others
MISSING = " is missing"  # end of the name of a feature that marks the empty cells of a number


DATES = "dates.txt"  # of the nodes, a line each
DATE = re.compile(r"(\d{4}-\d\d-\d\d)?")
RECIPE = "recipe.json"  # how features were made, so that another table gets the same columns


class Unit(NamedTuple):
    """What turns the feature of a number into the number.

    Args:
        std: standard deviation of the numbers, or of their ranks, in the features.
        mean: their mean.
        ranks: of the numbers, see ``extremes``; None if the feature is no rank.
    """

    std: float
    mean: float
    ranks: extremes.Ranks | None = None

    def number(self, feature: float) -> float:
        """The number that has this feature."""
        found = feature * self.std + self.mean
        return extremes.value_of(found, self.ranks) if self.ranks else found


class Names(NamedTuple):
    """Names and web addresses in the order of nodes and feature columns; None = there are none.

    ``dates`` are those of the nodes, such as ``1994-01-31``; "" = unknown.
    ``units`` turn the features of numbers into these, by the names of their columns.
    """

    ids: list[str] | None = None
    texts: list[str] | None = None
    words: list[str] | None = None
    urls: list[str] | None = None
    units: dict[str, Unit] | None = None
    dates: list[str] | None = None


def of_folder(
    path: Path | None, num_nodes: int | None = None, num_features: int | None = None
) -> Names:
    """Names in ``nodes.csv`` and ``words.txt``, whose numbers are checked; each may be absent."""
    if path is None:
        return Names()
    ids = texts = words = urls = None
    if (path / "nodes.csv").is_file():
        table = read.table(path / "nodes.csv")
        if not {"id", "text"} & {*table}:
            raise InputError.plain(
                "nodes.csv",
                f"its first line is {','.join(table)[:80]!r}",
                "Name the columns id, text or both there",
            )
        ids, texts, urls = (
            [*table[name]] if name in table else None for name in ("id", "text", "url")
        )
        if len({*(ids or ())}) < len(ids or ()):
            raise InputError.plain(
                "nodes.csv", "an id occurs several times", "Give each node its own id"
            )
    if (path / "words.txt").is_file():
        words = [*map(str.strip, read.text(path / "words.txt").removesuffix("\n").split("\n"))]
    _check_lines("nodes.csv", ids or texts, num_nodes, "node")
    _check_lines("words.txt", words, num_features, "feature column")
    if urls is not None:
        urls = addresses(urls)
    return Names(ids, texts, words, urls, units_of(recipe_of(path)), dates_of(path, num_nodes))


def dates_of(path: Path, num_nodes: int | None = None) -> list[str] | None:
    """The dates of the nodes of a graph folder, "" for none; None if it has no file of them.

    Raises:
        InputError: a line is no date, or there is not one for each node.
    """
    if not (path / DATES).is_file():
        return None
    found = read.text(path / DATES).removesuffix("\n").split("\n")
    _check_lines(DATES, found, num_nodes, "node")
    wrong = [number for number, line in enumerate(found, 1) if not DATE.fullmatch(line)]
    if wrong:
        raise InputError.plain(
            DATES,
            f"line {wrong[0]} is {found[wrong[0] - 1][:40]!r}",
            "Write dates such as 1994-01-31, or leave the line empty",
        )
    return found


def recipe_of(path: Path) -> dict[str, Any]:
    """The recipe of the features of a graph folder; empty if it has none."""
    file = path / RECIPE
    hint = "Make the folder of the graph again"
    with reading(file, "a readable recipe of features", RECIPE, hint):
        return {**json.loads(atomic.content(file))} if file.exists() else {}


def units_of(recipe: Mapping[str, Any]) -> dict[str, Unit] | None:
    """The units of the numbers of a recipe of features; None if it has none."""
    numbers = recipe.get("numbers")
    if not numbers:
        return None
    scale = recipe["scales"][("text" in recipe) + ("parts" in recipe)]
    ranks = numbers.get("ranks", {})
    every = zip(numbers["columns"], numbers["std"], numbers["mean"])
    return {name: Unit(scale * std, mean, ranks.get(name)) for name, std, mean in every}


def together(words: Sequence[str]) -> list[int]:
    """The column of features that each column is made of: the number of a range, or itself."""
    place = {word: column for column, word in enumerate(words)}
    found = [*range(len(words))]
    for column, word in enumerate(words):
        if word.startswith(PIECE):
            number = word.removeprefix(PIECE).rpartition(": ")[0]
            found[column] = place.get(number, column)
    return found


def _check_lines(file: str, lines: list[str] | None, wanted: int | None, what: str) -> None:
    if lines and wanted not in (None, len(lines)):
        raise InputError.plain(
            file,
            f"it has {len(lines)} lines for {wanted} {what}s",
            f"Write one line for each {what}",
        )


def other_features(key: str, message: str, like: Path | None = None) -> InputError:
    """The error of features unlike those of training, whose graph is the folder ``like``."""
    hint = "Make its features like those of the graph of training, with `like`"
    error = InputError.plain(key, message, hint, "other_features")
    error.value = like or "TRAINED_GRAPH"
    return error


def check_features(
    trained: Any, given: Any, key: str = "graph: x", like: Path | None = None
) -> None:
    """Refuse features with other names or another order than in training, if both are lists."""
    if not isinstance(trained, list) or not isinstance(given, list) or len(trained) != len(given):
        return
    for place, (was, name) in enumerate(zip(map(str, trained), map(str, given))):
        if was != name:
            raise other_features(
                key,
                f"feature {place} is {short(name, 40)!r}, and {short(was, 40)!r} in training",
                like,
            )


def addresses(cells: Sequence[str]) -> list[str]:
    """The cells that are web addresses, and "" for the others."""
    return [cell if ADDRESS.fullmatch(cell) else "" for cell in cells]
