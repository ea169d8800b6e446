"""BibTeX of comparisons against the docstrings of methods, and the paragraph for a paper."""

from __future__ import annotations

import re

import pandas
import pytest
from conftest import refusal
from stored import store_runs

from graphgym_srnc import methods
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.options import sections
from graphgym_srnc.data import catalogue
from graphgym_srnc.report import citations, names


def fields(entry: str) -> dict[str, str]:
    return dict(re.findall(r"^  (\w+) = \{(.*)\},?$", entry, re.M))


def test_every_method_and_data_set_has_its_entries():
    known = citations.entries()
    assert len(known) == citations.BIB.read_text("utf-8").count("@")
    for entry in known.values():
        assert {"author", "title", "year"} <= fields(entry).keys()
        assert entry.count("{") == entry.count("}")
    assert {*catalogue.FAMILIES} <= {*citations.FAMILIES}
    for key in [*citations.FAMILIES.values(), *citations.SOFTWARE]:
        assert key in known


@pytest.mark.parametrize("name", methods.own_names())
def test_an_entry_is_what_the_method_names(name):
    references = " ".join(sections(methods.find(name)).get("References", "").split())
    assert names.cites(name) == methods.find(name).cites and (names.cites(name) or name == "iid")
    for key in names.cites(name):
        entry = fields(citations.entries()[key])
        assert entry["year"] in references
        assert name == "adalign" or entry["title"] in references
        first = entry["author"].split(",")[0].strip("{")
        assert name == "adalign" or first in references


@pytest.fixture
def stored_results(tmp_path):
    for task in ("open_set/Cora", "open_set/Photo"):
        for method, score in (("erm", 0.6), ("srnc", 0.7), ("iid", 0.9)):
            scores = [score + 0.01 * seed + 0.002 * len(method) * (seed % 3) for seed in range(8)]
            store_runs(tmp_path / "results" / method, task[9:], scores, method, task)
    return tmp_path


def test_the_file_has_the_entries_of_its_runs_and_a_paragraph(stored_results, capsys):
    out = stored_results / "table.bib"
    words = ["compare", str(stored_results / "results"), "--bibtex", str(out)]
    assert main([*words, "--against", "erm"]) == 0
    assert str(out) in capsys.readouterr().out
    text = out.read_text("utf-8")
    found = re.findall(r"^@\w+\{(\w+),$", text, re.M)
    expected = [*citations.SOFTWARE, "hendrycks2017baseline", "yang2016planetoid"]
    assert {*found} == {*expected, "shchur2018pitfalls"} and len(found) == len({*found})
    comment = " ".join(line[2:] for line in text.splitlines() if line.startswith("% "))
    for part in (
        "We compare GCN (IID), SRNC and GCN on Cora and Photo",
        "Micro-F1",
        "over 8 runs.",
        "two-sided Wilcoxon's signed-rank test on common splits and seeds, Holm's correction",
        "Difference to GCN: mean over 8 pairs",
        "GCN (IID): the oracle, trained with labels that other rows lack",
    ):
        assert part in comment, part
    assert "exists" in refusal(main(words), capsys)
    assert main([*words, "--overwrite"]) == 0
    assert "Difference to" not in out.read_text("utf-8")
    wrong = ["compare", str(stored_results / "results"), "--bibtex", str(stored_results / "a.txt")]
    assert "--bibtex" in refusal(main(wrong), capsys)


def test_pairs_of_networks_and_arguments_of_data_sets():
    runs = pandas.DataFrame(
        {
            "method": ["mmd", "mmd", "mmd", "erm", "erm"],
            "dataset.format": [*["cross_graph"] * 3, "own_split", "file"],
            "dataset.name": ["c", "T", "MAG", "GraphLandDataset/web-topics?split=TH", "mine"],
            "cross_graph.source": ["Blog1,dblpv7", "Twitch/DE", "MAG_US", "acmv9", "acmv9"],
            "cross_graph.target": ["Blog2", "own.npz", "MAG_CN", "citationv1", "citationv1"],
        }
    )
    assert citations.keys(runs) == [
        *citations.SOFTWARE,
        "long2015dan",
        "gretton2012mmd",
        "hendrycks2017baseline",
        "shen2020acdne",
        "rozemberczki2021twitch",
        "liu2024pairalign",
        "hu2020ogb",
        "bazhenov2024graphland",
    ]
