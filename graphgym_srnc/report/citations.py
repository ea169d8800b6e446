"""What a paper cites of a comparison: BibTeX of methods and data sets, and how it was measured."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from pandas import DataFrame

from graphgym_srnc import __version__
from graphgym_srnc.core.text import listed, plain
from graphgym_srnc.data import catalogue
from graphgym_srnc.errors import InputError
from graphgym_srnc.report import names, tables
from graphgym_srnc.report.compare import Table
from graphgym_srnc.report.sentences import legend, on_differences

BIB = Path(__file__).with_name("references.bib")

FAMILIES = {
    "Planetoid": "yang2016planetoid",
    "CitationFull": "bojchevski2018citationfull",
    "Amazon": "shchur2018pitfalls",
    "Coauthor": "shchur2018pitfalls",
    "WikiCS": "mernyei2020wikics",
    "Airports": "ribeiro2017airports",
    "Twitch": "rozemberczki2021twitch",
    "EllipticBitcoinDataset": "weber2019elliptic",
    "OGB": "hu2020ogb",
    "GraphLandDataset": "bazhenov2024graphland",
}
"""Entry of a family of data sets."""

SOFTWARE = ("zhu2022srnc", "you2020graphgym", "fey2019pyg")
RULES = {
    "target_val": "the episode with the best score on validation nodes",
    "source_val": "the episode with the best score on held-out source nodes",
    "target_modularity": "the episode with the largest modularity of the predicted classes",
    "last": "the last episode",
}
"""The episode of a run that counts, in words."""


def entries() -> dict[str, str]:
    """All entries by key."""
    found = re.finditer(r"^@\w+\{(\w+),\n.*?^\}$", BIB.read_text("utf-8"), re.M | re.S)
    return {entry[1]: entry[0] for entry in found}


def keys(runs: DataFrame) -> list[str]:
    """Keys of what runs use: the software, methods and data sets, each once."""
    found = [*SOFTWARE]
    for method in runs["method"].unique():
        found += names.cites(method)
    columns = ["dataset.format", "dataset.name", "cross_graph.source", "cross_graph.target"]
    for _, run in runs.reindex(columns=columns).drop_duplicates().iterrows():
        kind, name, *pair = map(str, run)
        if kind == "ocnnc":
            found.append("shen2025uaga")
        data = ",".join(pair).split(",") if kind == "cross_graph" else [name]
        for one in data if kind not in ("file", "synthetic") else ():
            if one in (*catalogue.NETWORKS["citation"], *catalogue.NETWORKS["blog"]):
                found.append("shen2020acdne")
            if one.startswith("MAG_"):
                found += ["liu2024pairalign", "hu2020ogb"]
            with contextlib.suppress(InputError):  # of your own
                family, _ = catalogue.resolve(one)
                found += [FAMILIES[family]] if family in FAMILIES else []
    return list(dict.fromkeys(found))


def bibtex(table: Table) -> str:
    """A ``.bib`` file of a comparison, which begins with :func:`measured` as a comment."""
    known = entries()
    head = "".join(f"% {sentence}\n" for sentence in re.split(r"(?<=\.) ", measured(table)))
    return "\n\n".join([head.rstrip(), *(known[key] for key in keys(table.runs))]) + "\n"


def measured(table: Table) -> str:
    """A paragraph on protocol, selection and tests of a comparison, for a paper."""
    metrics = listed([tables.name(metric) for metric in table.metrics], 50)
    rules = [RULES.get(rule, rule) for rule in sorted({*table.runs["selection"]})]
    sentences = [
        f"We compare {listed(table.rows, 50)} on {listed(table.columns, 50)} by {metrics} on"
        f" {table.split} nodes.",
        f"The scores of a run are those of {listed(rules)}.",
        *legend(table, "Bold", "Underlined"),
        *on_differences(table),
        f"All numbers are of graphgym-srnc {__version__}, which is based on GraphGym and PyTorch"
        " Geometric.",
    ]
    if table.chosen:
        sentences.insert(2, "Validation scores alone choose the setting of each cell.")
    return plain(" ".join(sentences))
