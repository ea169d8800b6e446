"""The whole path of a table of your own: from two tables to named classes and the next run."""

from __future__ import annotations

import base64
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas
import pytest

from graphgym_srnc.cli.main import main
from graphgym_srnc.io import records

TOPICS = {
    "fish": "trout salmon reel bait rod angler",
    "rocks": "basalt granite quartz fault mineral sediment",
    "stars": "nova comet orbit galaxy telescope planet",
}
PER_CLASS = 70
SETTINGS = {
    "gnn.dim_inner": "16",
    "srnc_plus.rounds": "1",
    "srnc_plus.steps": "12",
    "srnc_plus.fit_steps": "8",
    "srnc_plus.cluster_steps": "8",
    "srnc_plus.abstain": "False",
    "optim.base_lr": "0.06",
    "num_threads": "1",
}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Documents of three topics, two of which have labels, with links within topics."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    topic = np.repeat([*TOPICS], PER_CLASS)
    rows = []
    for k, name in enumerate(topic):
        words = rng.choice(TOPICS[name].split(), 4)
        label = name if k % 3 == 0 and name != "stars" else ""
        rows.append((f"d{k}", f"**Text** {k}\n# {' '.join(words)}", label))
    nodes = pandas.DataFrame(rows, columns=["id", "text", "label"])
    nodes.to_csv("nodes.csv", index=False)
    ends = rng.integers(0, PER_CLASS, (3, 200, 2)) + PER_CLASS * np.arange(3)[:, None, None]
    links = pandas.DataFrame(ends.reshape(-1, 2), columns=["a", "b"])
    links[links.a != links.b].map(lambda k: f"d{k}").to_csv("links.csv", index=False)
    return topic


@pytest.mark.usefixtures("few_numbers")
def test_from_two_tables_to_named_classes(tables, tmp_path, capsys, unchanged_globals):
    def told(words: str) -> str:
        assert main(shlex.split(words)) == 0, words
        return capsys.readouterr().out

    told("data make nodes.csv links.csv --text text --out graph")
    keys = " ".join(f"{key} {value}" for key, value in SETTINGS.items())
    told(f"run --cfg own --name first --no-figures --no-tensorboard dataset.name graph {keys}")

    summary = told("predict results/first --out all.csv")
    predicted = pandas.read_csv("all.csv").set_index("id")["class"]
    counts = predicted.value_counts()
    lines = {line.split()[0]: line.split() for line in summary.splitlines() if line.strip()}
    for name in ("fish", "rocks", "unknown"):
        assert int(lines[name][1].replace(",", "")) == counts[name]
    hidden = predicted[[f"d{k}" for k in np.flatnonzero(tables == "stars")]]
    assert (hidden == "unknown").mean() > 0.9

    said = told("discover results/first --new 1 --out page.html --nodes nodes-out.csv")
    page = (tmp_path / "page.html").read_text()
    legend, by_class, *_ = json.loads(
        page.partition('id="map-data">')[2].partition("</script>")[0]
    )["colourings"]
    assert dict(zip(by_class["names"], by_class["sizes"])) == counts.to_dict()
    sizes = dict(zip(legend["names"], legend["sizes"]))
    assert [sizes[f"known: {name}"] for name in ("fish", "rocks")] == [
        counts["fish"],
        counts["rocks"],
    ]
    assert sum(legend["sizes"][2:]) == counts["unknown"]  # the new cluster and the rest
    drawn = np.frombuffer(base64.b64decode(legend["of"]), dtype="<u2")
    assert np.bincount(drawn).tolist() == [n for n in legend["sizes"] if n]
    listed = pandas.read_csv("nodes-out.csv").set_index("id")
    assert (listed["class"] == predicted).all()
    assert "# " not in said and "Text 1" in said and "clear" in said

    named = told("discover results/first --new 1 --name 1=stars --labels-out next")
    printed = [line for line in named.splitlines() if "dataset.name next" in line]
    (again,) = (line for line in printed if "file.open_set" not in line)
    Path("predictions.csv").touch()
    second = told(again.removeprefix("  graphgym-srnc ") + " --no-figures --no-tensorboard")
    record = records.read_results(tmp_path / "results" / "next")[0]
    for key, value in SETTINGS.items():
        block, _, name = key.rpartition(".")
        kept = record["config"][block][name] if block else record["config"][name]
        assert str(kept) == value, key
    assert f"Predicted as unknown: {counts['unknown']} nodes before the new labels, " in second
    assert " did not change: results/first predicted" in second
    (named,) = (line for line in second.splitlines() if "nodes of named clusters" in line)
    kept, total = map(
        int, re.search(r"stars ([\d,]+) of ([\d,]+)\.", named.replace(",", "")).groups()
    )
    assert 0.8 * total < kept <= total and "were lost" not in named
    # The printed command replaces no earlier predictions.
    (after,) = (line for line in second.splitlines() if "graphgym-srnc predict" in line)
    told(after.partition("#")[0].removeprefix("  graphgym-srnc "))
    (compared,) = (line for line in second.splitlines() if "graphgym-srnc discover" in line)
    assert " --since results/first " in compared
    told_since = told(compared.partition("#")[0].removeprefix("  graphgym-srnc "))
    assert "Predictions of the two runs, for the same nodes" in told_since
    final = pandas.read_csv("predictions-2.csv").set_index("id")["class"]
    stars = final.index[final == "stars"]
    assert (final[hidden.index] == "stars").mean() > 0.7
    assert stars.isin(hidden.index).mean() > 0.9
