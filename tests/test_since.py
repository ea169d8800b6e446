"""Classes over time: planted changes, statistics against statsmodels, names, page and command."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Mapping, Sequence

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import refusal, rows
from statsmodels.stats.proportion import confint_proportions_2indep
from torch_geometric.data import Data

from graphgym_srnc import ERM, SRNCPlus, discover
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.text import plain
from graphgym_srnc.data.block_model import class_topics, dcsbm
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared import label_density
from graphgym_srnc.own.discover import analysis, clusters, feedback, since

THEN = {"a": 0.3, "b": 0.3, "c": 0.15, "d": 0.25}
NOW = {"a": 0.25, "b": 0.25, "c": 0.3, "e": 0.2}
SHORT = {"hidden": 16, "rounds": 1, "steps": 12, "fit_steps": 4, "cluster_steps": 4, "lr": 0.06}


def labelled(graph: Data, truth: np.ndarray, known: Sequence[str], rng: np.random.RandomState):
    """A graph of which three in ten nodes of some classes have labels, which train."""
    is_given = np.isin(truth, [*known]) & (rng.random_sample(len(truth)) < 0.3)
    graph.y = [name if given else "" for name, given in zip(truth, is_given)]
    graph.train_mask = torch.from_numpy(is_given)
    return graph, truth


def block_model(
    shares: Mapping[str, float], topics: np.ndarray, known: str, rng: np.random.RandomState
) -> tuple[Data, np.ndarray]:
    """A block model of some of the classes a to e, and the class of each node."""
    own = topics[["abcde".index(name) for name in shares]]
    graph = dcsbm(num_nodes=400, shares=np.array([*shares.values()]), topics=own, rng=rng)
    return labelled(graph, np.array([*shares])[graph.y.numpy()], known, rng)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_new_a_grown_and_a_vanished_class_are_named_right(seed, monkeypatch):
    """Class c has no label today, and is there twice as often; d vanishes, and e is new."""
    monkeypatch.setattr(label_density, "STEPS", 100)
    rng = np.random.RandomState(seed)
    topics = class_topics(5, 100, 0.6, rng)
    then, was = block_model(THEN, topics, "abcd", rng)
    now, truth = block_model(NOW, topics, "ab", rng)
    earlier = ERM(hidden=16, steps=50, open_set=False, random_state=seed).fit(then)
    model = SRNCPlus(open_set=True, random_state=seed, hidden=16, rounds=1).fit(now)
    found = discover(model, now, since=(earlier, then))
    changes = found.changes()
    (new,) = changes.index[changes.status == "new"]
    assert changes.status.drop(new).to_dict() | {"a": "", "b": ""} == {
        "a": "", "b": "", "c": "grown", "d": "gone"
    }  # fmt: skip
    named = found.nodes().cluster_name.to_numpy()
    number = int(new.removeprefix("cluster "))
    assert (truth[named == "c"] == "c").mean() > 0.8
    assert (truth[found.nodes().cluster == number] == "e").mean() > 0.8
    for name in "cd":
        true = (truth == name).mean() - (was == name).mean()
        assert changes.change[name] == pytest.approx(true, abs=0.1)
    assert changes.then.sum() == 400 and changes.now.sum() <= 400
    assert new in repr(found) and "gone" in repr(found)
    made = found.labelled({number: "rust"})
    assert {*made.y} == {*now.y, "c", "rust"}, "the name of c carries over"


def test_the_interval_is_newcombes():
    for counts, totals in (((30, 90), (200, 300)), ((0, 20), (50, 400)), ((7, 0), (7, 90))):
        change = since._change(counts, totals)
        wanted = confint_proportions_2indep(
            counts[1], totals[1], counts[0], totals[0], method="newcomb", compare="diff"
        )
        assert (change.low, change.high) == pytest.approx(wanted)
        assert change.change == pytest.approx(counts[1] / totals[1] - counts[0] / totals[0])


def status(then: int, now: int, total: int = 1000) -> str:
    return since._status(since._change((then, now), (total, total)), True, False)


def test_statuses():
    assert [status(100, now) for now in (9, 11, 70, 95, 105, 140)] == [
        "gone", "shrunk", "shrunk", "unchanged", "unchanged", "grown"
    ]  # fmt: skip
    assert status(0, 0) == "unchanged" and status(0, 30) == "grown" and status(5, 0) == "gone"


def discovery(num_new: int) -> tuple[np.ndarray, clusters.Discovery]:
    """Features of 300 nodes, and clusters by a model that is right of the classes a, b and c."""
    rng = np.random.RandomState(0)
    shares = np.full(3 + num_new, 1 / (3 + num_new))
    topics = class_topics(len(shares), 60, 0.8, rng)
    graph = dcsbm(num_nodes=300, shares=shares, topics=topics, rng=rng)
    posterior = 0.02 + 0.92 * torch.eye(4, dtype=torch.double)[graph.y.clamp(max=3)]
    found = analysis.analyse(graph, posterior, Names(), "abc", num_new=num_new)
    assert len(found.new) == num_new
    return graph.x.numpy(), found.discovery


@pytest.mark.usefixtures("few_numbers")
def test_names_maximise_similarity():
    """All assignments by brute force, of clusters to two free classes or to none."""
    _, found = discovery(3)
    classes = [*"abcxy"]
    rng = np.random.default_rng(0)
    for _ in range(20):
        similarity = rng.uniform(0, 1, (7, 5))
        similarity[:3, 3:] = 0
        similarity[:3, :3] = np.eye(3) * 0.4 + 0.4  # the middle of equal and other names is 0.6
        own = np.concatenate([similarity[3:6, 3:], np.full((3, 3), 0.6)], 1)
        best = max(itertools.permutations(range(5), 3), key=lambda way: sum(own[[0, 1, 2], way]))
        wanted = {}
        for row, column in enumerate(best):
            if column < 2 or own[row, :2].max() > 0.6:  # further clusters follow
                wanted[str(row + 1)] = "xy"[column if column < 2 else own[row, :2].argmax()]
        assert since.carried_names(found, classes, similarity) == wanted
    assert since.carried_names(found, [*"abc"], similarity[:, :3]) == {}
    named = found.named({"1": "x", "2": "y"})
    assert since.carried_names(named, classes, similarity) == {}, "no earlier class is free"


@pytest.mark.usefixtures("few_numbers")
def test_what_the_nodes_of_a_class_were_before():
    """Known class c was unknown before; 20 nodes are new, and 5 nodes of a were of b."""
    x, found = discovery(1)
    ids = [f"n{node}" for node in range(300)]
    then = found.label.clone()
    then[then == 2] = 3
    moved = (then[:280] == 0).nonzero()[:5, 0]
    then[moved] = 1
    then = then[:280] - (then[:280] == 3).long()  # the earlier model knows a and b alone
    assert int(then.max()) == 2
    named = found.named({"1": "dust"})
    _, changes = since.compare(named, since.Earlier([*"ab"], then, x[:280], Names(ids[:280])),
                               x, Names(ids))  # fmt: skip
    rows = changes.table.set_index("name")
    assert rows.status[["c", "dust"]].to_dict() == {"c": "named", "dust": "new"}
    label = found.label.numpy()
    for name, k in (("c", 2), ("dust", 3)):
        before = f"{(label[:280] == k).sum()} unknown, {(label[280:] == k).sum()} new nodes"
        assert rows.before[name] == before
    assert rows.before["a"].split(", ")[1] == "5 b"
    counts = {name: int((label[:280] == k).sum()) for name, k in (("c", 2), ("dust", 3))}
    total = sum(counts.values()) + 5
    assert changes.moves[0] == f"{total} of 280 nodes are in another class than then"
    wanted = {f"{n} from unknown to {name}" for name, n in counts.items()}
    assert {*changes.moves[1:]} == {*wanted, "5 from b to a"}
    columns = changes.columns
    changed = columns["class_then"][:280] != columns["class_now"][:280]
    assert changed.sum() == total and not any(columns["class_then"][280:])
    assert changes.cells[0][-1] == "classes of its nodes then"
    _, unnamed = since.compare(found, since.Earlier([*"ab"], then, x[:280], Names(ids[:280])),
                               x, Names(ids))  # fmt: skip
    assert "dust" not in " ".join(unnamed.moves), "an unnamed cluster is still unknown"
    assert unnamed.moves[0].startswith(f"{counts['c'] + 5} of 280")
    _, other = since.compare(found, since.Earlier([*"ab"], then, x[:280], Names()), x, Names(ids))
    assert not other.moves and not other.columns and "predicted" in other.notes[-1]


@pytest.mark.usefixtures("few_numbers")
def test_similarities_by_hand():
    x, found = discovery(2)
    group = np.arange(300) % 4
    ids = [f"n{node}" for node in range(300)]
    label = found.label.clone()
    earlier = since.Earlier([*"abc"], label[:200], x[:200], Names(ids[:200]))
    by_ids = since.profiles(found, earlier, x, Names(ids))
    similarity = by_ids.similarity(label[:200], 3, group, 4)
    for k, name in itertools.product(range(4), range(3)):
        mine = {node for node in range(200) if group[node] == k}
        theirs = {node for node in range(200) if label[node] == name}
        shared = len(mine & theirs) / (len(mine) * len(theirs)) ** 0.5
        assert similarity[k, name] == pytest.approx(shared)
    words = [
        since.profiles(found, earlier._replace(x=form(x[:200]), names=Names()), form(x), Names())
        for form in (np.asarray, sp.csr_array)
    ]
    first, second = (own.similarity(label[:200], 3, group, 4) for own in words)
    assert first == pytest.approx(second) and not np.allclose(first, similarity)
    dense = np.random.default_rng(0).normal(1, [1, 100, 1], (300, 3))
    earlier = earlier._replace(x=dense[:200], names=Names())
    similarity = since.profiles(found, earlier, dense, Names()).similarity(label[:200], 3, group, 4)
    both = np.concatenate([dense[:200], dense])
    both = (both - both.mean(0)) / both.std(0)
    first = both[200:][group == 1].mean(0)
    second = both[:200][label[:200].numpy() == 2].mean(0)
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    assert similarity[1, 2] == pytest.approx(cosine)
    with pytest.raises(InputError, match="^since: that graph has 3 features, and this one 60"):
        since.profiles(found, earlier, x, Names())
    earlier = earlier._replace(names=Names(words=[*"pqr"]))
    with pytest.raises(InputError, match="^since: feature 1 is 's', and 'q' in training"):
        since.profiles(found, earlier, dense, Names(words=[*"psr"]))


@pytest.mark.filterwarnings("ignore")
def test_python_says_what_is_wrong_with_since():
    now, _ = block_model(NOW, class_topics(5, 60, 0.6, np.random.RandomState(0)), "ab",
                         np.random.RandomState(0))  # fmt: skip
    model = ERM(hidden=8, steps=5, open_set=True).fit(now)
    with pytest.raises(InputError, match="^since: it is a ERM. Give a tuple of the earlier est"):
        discover(model, now, since=model)
    with pytest.raises(InputError, match="^since: it is a Data. Give a fitted estimator"):
        discover(model, now, since=(now, model))
    with pytest.raises(InputError, match="^since: discover was called without it"):
        discover(model, now, num_new=1).changes()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("few_numbers")
def test_from_last_month_to_this_one(tmp_path, monkeypatch, unchanged_globals, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(0)
    topics = class_topics(5, 100, 0.6, rng)
    for month, shares, known in (("may", THEN, "abcd"), ("june", NOW, "ab")):
        graph, _ = block_model(shares, topics, known, rng)
        made = feedback.Labels(graph.y, [""] * 400, set())
        feedback.write(tmp_path / month, graph, made)
        words = f"run --cfg own --name run_{month} dataset.name {month} gnn.dim_inner 16"
        words += " --no-figures --no-tensorboard optim.base_lr 0.06"
        own = SHORT.keys() - {"hidden", "lr"}
        of_june = "".join(f" srnc_plus.{key} {SHORT[key]}" for key in own)
        of_june += " srnc_plus.abstain False"
        words += " train.mode erm erm.steps 25" if month == "may" else of_june
        assert main(words.split()) == 0
    capsys.readouterr()
    words = "discover results/run_june --new 2 --since results/run_may".split()
    assert main([*words, "--changes", "classes_over_time.csv", "--out", "june.html",
                 "--nodes", "now.csv"]) == 0  # fmt: skip
    told = capsys.readouterr().out
    assert "Classes over time" in told and "Newcombe" in told and "=c " in told
    changes = {row["name"]: row for row in rows("classes_over_time.csv")}
    assert {name: changes[name]["status"] for name in "cd"} == {"c": "grown", "d": "gone"}
    assert [row["status"] for name, row in changes.items() if name not in "abcd"] == ["new"]
    assert "class_then" not in Path("now.csv").read_text(), "most ids are of other classes"
    assert int(changes["c"]["now"]) / 400 == float(changes["c"]["share_now"])
    page = Path("june.html").read_text()
    assert 'id="since"' in page and f">{plain(changes['d']['status'])}</td>" in page
    assert main([*words, "--labels-out", "next"]) == 0
    assert "got the label c" in capsys.readouterr().out
    assert ",c" in Path("next/labels.csv").read_text()

    for wrong, said in (
        ("--changes x.csv", "--changes: it compares two graphs. Add --since RUN"),
        ("--since results/run_june", "--since: results/run_june is RUN itself"),
        ("--since nowhere", "--since: nowhere does not exist"),
        ("--since results/run_may --changes x.txt", "--changes: 'x.txt' has the wrong file type"),
    ):
        assert said in refusal(main(["discover", "results/run_june", *wrong.split()]), capsys)
