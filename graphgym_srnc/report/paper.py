"""The numbers that the paper prints, and which of our runs each of them stands beside.

A run stands beside the row that has the name of its method and backbone. SRNC has several rows: a
run of it stands beside the first one whose settings it has, whatever its other settings, which the
paper tunes or leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

import yaml

from graphgym_srnc.report.names import method_name

# Config with dotted keys, and ``method`` and ``backbone``; lists are tuples.
Facts = Mapping[str, Any]


class Score(NamedTuple):
    """Mean and, where the paper has one, standard deviation over runs, in %."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Published:
    """A table of the paper.

    Args:
        title: name of the table.
        metrics: our names of its scores.
        columns: by name, what a run must have been trained on.
        variants: by name of a row of SRNC, the settings of a run of SRNC.
        numbers: by row, the scores of each column in turn, as in print.
    """

    title: str
    metrics: Sequence[str]
    columns: Mapping[str, Facts]
    variants: Mapping[str, Facts]
    numbers: dict[str, str]

    def find(self, row: str, column: str) -> dict[str, Score]:
        """The scores of a cell by metric; none where the paper has no such cell."""
        if row not in self.numbers or column not in self.columns:
            return {}
        scores = [Score(*map(float, word.split("±"))) for word in self.numbers[row].split()]
        first = len(self.metrics) * list(self.columns).index(column)
        return dict(zip(self.metrics, scores[first : first + len(self.metrics)]))

    def row_of(self, facts: Facts) -> str | None:
        """The row that a run stands beside."""
        name = method_name(facts["method"], facts["backbone"])
        if name not in self.numbers or facts.get(f"{facts['method']}.smoothing"):
            return None
        return _first(self.variants, facts) if name == "SRNC" else name

    def column_of(self, facts: Facts) -> str | None:
        """The column that a run stands beside."""
        block = facts.get("dataset.format")
        unseen = facts.get(f"{block}.unseen") or facts.get(f"{block}.num_unseen", 0)
        unseen = len(unseen) if isinstance(unseen, tuple) else unseen
        data = str(facts.get("dataset.name")).rpartition("/")[2].casefold()
        return _first(self.columns, {**facts, "data": data, "unseen": unseen})


def _first(entries: Mapping[str, Facts], facts: Facts) -> str | None:
    """The first entry whose wanted facts a run has; a key that its config lacks is not wanted."""
    for name, wanted in entries.items():
        if all(facts.get(key, value) == value for key, value in wanted.items()):
            return name
    return None


_FILE = yaml.safe_load(Path(__file__).with_name("paper.yaml").read_text(encoding="utf-8"))
TABLES = {name: Published(**table) for name, table in _FILE["tables"].items()}
DETAILS = "docs/explanation/srnc.md"  # all differences from the paper
