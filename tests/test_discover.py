"""Discovery of new classes: figures against other libraries, named clusters, page and command."""

from __future__ import annotations

import csv
import re
from html import unescape
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import refusal
from sklearn.metrics import silhouette_samples
from torch_geometric.data import Data

from graphgym_srnc import ERM, discover, shifts
from graphgym_srnc.backbones import prepare
from graphgym_srnc.cli.main import main
from graphgym_srnc.data.names import Names
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.discover import clusters, feedback, page, table
from graphgym_srnc.own.discover.table import column_name, node_name

NASTY = "<script>alert('x')</script> & \"quotes\""


def planted(classes: int = 6, per_class: int = 50, features: int = 60, seed: int = 0) -> Data:
    """Blocks with words of their own, a tenth of the features each."""
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(classes), per_class)
    chance = np.where(y[:, None] == y, 6 / per_class, 0.4 / per_class)
    edges = np.argwhere(np.triu(rng.random_sample(chance.shape) < chance, 1)).T
    own = np.arange(features) // (features // classes) == y[:, None]
    x = rng.random_sample(own.shape) < np.where(own, 0.35, 0.04)
    return Data(
        x=torch.from_numpy(x).float(),
        edge_index=torch.from_numpy(np.concatenate([edges, edges[::-1]], 1)),
        y=torch.from_numpy(y),
    )


def posterior_of(graph: Data, known: int = 3, sure: float = 0.9) -> torch.Tensor:
    """A model that is right but for each tenth node; it knows classes below ``known``."""
    predicted = graph.y.clamp(max=known).clone()
    predicted[::10] = (predicted[::10] + 1) % known
    p = torch.full((len(predicted), known + 1), (1 - sure) / known, dtype=torch.double)
    return p.scatter(1, predicted[:, None], sure)


@pytest.fixture(scope="module")
def graph() -> Data:
    return planted()


@pytest.fixture(scope="module")
def found(graph) -> clusters.Discovery:
    return clusters.find(graph, posterior_of(graph), 6, ["a", "b", "c"])


def test_separation_is_that_of_networkx(graph):
    cluster = np.random.RandomState(0).randint(0, 4, graph.num_nodes)
    adjacency = prepare(graph, "auto").adjacency("raw").matrix
    modularity, conductance = clusters.separation(adjacency, cluster, 4)
    network = nx.from_scipy_sparse_array(adjacency)
    groups = [set(np.flatnonzero(cluster == k).tolist()) for k in range(4)]
    assert modularity.sum() == pytest.approx(nx.community.modularity(network, groups))
    assert conductance == pytest.approx([nx.conductance(network, group) for group in groups])


def test_simplified_silhouette():
    rng = np.random.RandomState(0)
    centre = torch.tensor([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [torch.inf, torch.inf]])
    x = torch.from_numpy(rng.randn(90, 2)).float() + centre[torch.arange(90) % 3]
    own, fit = clusters.nearest(x, centre)
    distance = np.linalg.norm(x.numpy()[:, None] - centre.numpy()[None, :3], axis=2)
    order = np.sort(distance, 1)
    assert own.tolist() == distance.argmin(1).tolist()
    np.testing.assert_allclose(fit, (order[:, 1] - order[:, 0]) / order[:, 1], rtol=1e-4)
    proper = silhouette_samples(x.numpy(), own.numpy())
    assert np.corrcoef(fit, proper)[0, 1] > 0.95 and abs(float(fit.mean()) - proper.mean()) < 0.1


def test_topics_are_principal_axes_of_smoothed_words(graph):
    x, dense = graph.x.numpy(), np.zeros((graph.num_nodes,) * 2)
    idf = np.log((1 + len(x)) / (1 + (x > 0).sum(0)))
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) * idf
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    dense[tuple(graph.edge_index.numpy())] = 1
    walk = dense + np.eye(len(dense))
    walk /= walk.sum(1, keepdims=True)
    smooth = x
    for _ in range(clusters.STEPS):
        smooth = 0.9 * walk @ smooth + 0.1 * x
    left, scale, _ = np.linalg.svd(smooth - smooth.mean(0), full_matrices=False)
    wanted = left[:, :5] * scale[:5]
    got = clusters.topics(graph, 5).numpy()
    np.testing.assert_allclose(got @ got.T, wanted @ wanted.T, atol=1e-3)
    assert torch.equal(clusters.topics(graph, 5), clusters.topics(graph, 5))
    narrow = Data(x=graph.x[:, :1], edge_index=graph.edge_index)
    assert clusters.topics(narrow).shape == (graph.num_nodes, 1)


@pytest.mark.parametrize(
    "x", [torch.ones(40, 8), torch.zeros(40, 8), torch.eye(40), torch.rand(40, 300).round()]
)
def test_odd_features(x):
    links = torch.randint(0, 40, (2, 60), generator=torch.Generator().manual_seed(0))
    graph = Data(x=x, edge_index=links)
    p = 0.1 + 0.6 * torch.eye(4, dtype=torch.double).repeat(10, 1)
    found = clusters.find(graph, p, 5)
    assert torch.isfinite(found.state).all() and found.new
    count = clusters.suggested(clusters.modularities(graph, p, found.state))
    assert len(clusters.find(graph, p).every) == count >= 4
    assert table.rows(found, graph, Names())


def test_clusters_find_planted_classes(graph, found):
    assert [cluster.number for cluster in found.new] == [1, 2, 3]
    assert found.classes == ["a", "b", "c"]
    for cluster in found.new:
        assert found.cluster[cluster.nodes].unique().tolist() == [2 + cluster.number]
        assert len(graph.y[cluster.nodes[:10]].unique()) == 1 and graph.y[cluster.nodes[0]] >= 3
        assert cluster.predicted_unknown > 0.8
        assert sum(share for _, share in cluster.nearest) == pytest.approx(1)
        assert (found.typical[cluster.nodes].diff() <= 0).all()
    new, known = ([cluster.newness for cluster in part] for part in (found.new, found.known))
    assert sorted(new, reverse=True) == new and max(known) < min(new)
    assert sum(len(cluster.nodes) for cluster in found.every) == graph.num_nodes
    lone = found.new[0].nodes[0]
    links = graph.edge_index[:, (graph.edge_index != lone).all(0)]
    again = clusters.find(Data(x=graph.x, edge_index=links), posterior_of(graph), 6)
    joined = again.every[again.cluster[lone]]
    assert joined.nodes[-1] == lone and joined.small == 1, "a node without links is last"


def test_a_class_that_no_node_is_named(graph):
    p = posterior_of(graph)
    p = torch.cat([p[:, :3], torch.full((len(p), 1), 1e-9, dtype=torch.double), p[:, 3:]], 1)
    found = clusters.find(graph, (p / p.sum(1, keepdim=True)).numpy(), 6)
    assert len(found.known[3].nodes) == 0 and found.known[3].p_unknown == 0 and len(found.new) == 2


def test_what_cannot_be_clustered_is_refused(graph):
    with pytest.raises(InputError, match="num_clusters"):
        clusters.find(graph, posterior_of(graph), 1000)
    with pytest.raises(InputError, match="nothing to discover. Only a weak sign"):
        clusters.check(torch.eye(4)[:3], 4, "Only a weak sign")
    with pytest.raises(InputError, match="predicts no node as unknown"):
        clusters.find(graph, torch.tensor([[0.7, 0.1, 0.1, 0.1]]).expand(graph.num_nodes, 4), 6)


@pytest.mark.parametrize("classes", [6, 5, 4])
def test_suggested_number_on_planted_blocks(classes):
    graph = planted(classes, 60)
    p = posterior_of(graph)
    curve = clusters.modularities(graph, p, clusters.states(graph, p))
    assert [*curve] == [*range(4, 14)] and clusters.suggested(curve) == classes
    found = clusters.find(graph, p, classes)
    total = sum(cluster.modularity for cluster in found.every)
    assert curve[classes] == pytest.approx(total, abs=0.01)
    new = f"{classes - 3} new cluster{'s' * (classes > 4)} ({classes} with the known classes)"
    assert table.on_number(curve, 3, 5).startswith(f"The links suggest {new}.")
    told = table.on_number({4: 0.5, 5: 0.598, 6: 0.6, 7: 0.597, 8: 0.55}, 3, 5)
    assert told.startswith("The links fit 2 to 4 new clusters about equally well")
    assert "default is 2 new clusters (5 with" in told and "such as --clusters 6:" in told
    assert clusters.suggested({4: 0.5, 5: 0.598, 6: 0.6, 7: 0.55}) == 5
    assert clusters.suggested({4: -0.2, 5: -0.1}) == 5


def test_the_next_number_splits_two_classes(graph, found):
    coarse = clusters.find(graph, posterior_of(graph), 5)
    told = table.on_split(coarse, found, table.rows(found, graph, Names()))
    mixed = max(coarse.new, key=lambda cluster: len(cluster.nodes))
    sizes = torch.bincount(found.cluster[mixed.nodes]).sort(descending=True).values
    whole = f"With 6 clusters, cluster {mixed.number} ({len(mixed.nodes)} nodes) splits into"
    assert told.startswith(f"{whole} {sizes[0]} and {sizes[1]} nodes: feature ") and sizes[1] > 30


def test_log_odds_by_hand():
    counts, others, prior = np.array([8.0, 1, 0]), np.array([2.0, 20, 5]), np.array([1.0, 2, 0.5])
    n, m, a0 = counts.sum(), others.sum(), prior.sum()
    for z, y, other, a in zip(table.log_odds(counts, others, prior), counts, others, prior):
        delta = np.log((y + a) / (n + a0 - y - a)) - np.log((other + a) / (m + a0 - other - a))
        assert z == pytest.approx(delta / np.sqrt(1 / (y + a) + 1 / (other + a)))


@pytest.mark.filterwarnings("error")
def test_words_that_set_blocks_apart(graph):
    y, words = graph.y.numpy(), graph.x.numpy()
    dense = words - 0.5 + 0.1 * np.random.RandomState(0).randn(*words.shape)
    for x in (words, sp.csr_array(words), dense):
        columns = table.distinguishing(x, y, 6, 8)
        assert all({column // 10 for column in columns[k]} == {k} for k in range(6))
        assert x is dense or all(len(columns[k]) == 8 for k in range(6))
    columns = table.distinguishing(dense, np.where(y == 1, 2, y), 6, 8)
    assert columns[1] == [] and columns[0], "a group without nodes has no words"


def test_page_and_tables_are_whole_and_escaped(graph):
    texts, words = [f"{NASTY} {i}" for i in range(300)], [f"={NASTY}{i}" for i in range(60)]
    names, p = Names(None, texts, words), posterior_of(graph)
    found = clusters.find(graph, p, 6, [f"={NASTY}"] * 3).named({1: NASTY})
    found.new[1] = clusters.replace(found.new[1], small=6)
    rows = table.rows(found, graph, names)
    commands = {"again": NASTY, "naming": NASTY, "merge": NASTY}
    html = page.render(NASTY, rows, found, names, {6: 0.5, 7: 0.501}, commands, {}, [NASTY], NASTY)
    assert not re.search(r"<(link|iframe|a|script>alert)\b", html)
    assert unescape(html).count(NASTY) > 10 and "default-src 'none'" in html
    lines = list(csv.DictReader(table.to_csv(rows).splitlines()))
    assert [int(row["nodes"]) for row in lines] == [len(cluster.nodes) for cluster in found.new]
    assert all(line[key][0] == "'" for line in lines for key in ("words", "nearest_known_classes"))
    assert table.left_out(rows) == ""
    found.new[2] = clusters.replace(found.new[2], predicted_unknown=0.4)
    told = table.left_out(table.rows(found, graph, names))
    assert told.startswith("left out: 3, since most of the nodes are predicted as a known class")
    small = f"{6 / len(found.new[1].nodes):.0%}".replace("%", " %")
    assert f">{small}</td>" in html and table.to_text(rows).splitlines()[2].endswith(small)
    assert table.ON_SMALL[1:] in html and "small" not in table.to_text(rows[:-2])
    assert [row["in_small_components"] for row in lines] == ["0", "6", "0"]
    assert "cluster 1, <script>" in table.to_text(rows)
    assert (
        "the default is 3 new clusters (6 with the known classes)" in html
        and "such as --clusters 7:" in html
    )
    assert html.index("<details>") < html.index("conductance")


def test_clusters_with_the_same_words_may_be_one_class(graph):
    """A class that is split in two, and nothing else, gets a hint and the command that merges."""
    split = graph.y.clone()
    split[(graph.y == 5).nonzero()[::2]] = 6
    found = clusters.find(graph, posterior_of(graph), 6)
    whole = found.new[[int(graph.y[c.nodes[0]]) for c in found.new].index(5)]
    half = clusters.replace(whole, number=4, nodes=whole.nodes[::2])
    cluster = found.cluster.index_fill(0, half.nodes, 6)
    halved = clusters.replace(found, cluster=cluster, new=[*found.new, half])
    rows = table.rows(halved, graph, Names())
    twins = {row.cluster.number: row.twins for row in rows if row.cluster.number}
    assert twins[whole.number] == [4] and twins[4] == [whole.number]
    assert [] in twins.values() and "perhaps one class" in table.to_text(rows)
    commands = {"again": "", "merge": "discover R"}
    html = page.render("t", rows, halved, Names(), {6: 0.5}, commands, {"0": 3}, ["few!"])
    merge = f"discover R --name {whole.number}=NAME --name 4=NAME --labels-out NEXT"
    assert merge in html and "few!</p>" in html and "too few</strong>" in html


def test_names_of_nodes_and_columns():
    names = Names(["a", "b 1"], ["one, and\nmore", "b 1: title"], ["x", "y", "z"])
    assert node_name(names, 0) == "a: one, and more" and node_name(names, 1) == "b 1: title"
    assert column_name(names, 2) == "z" and column_name(Names(), 2) == "feature 2"
    assert node_name(Names(), 1) == "node 1"
    assert node_name(Names(None, ["word " * 99]), 0).endswith(" word w…")
    assert node_name(Names(None, ["\x1b[31mred"]), 0) == "node 0: ?[31mred"


def test_bad_names():
    long = "1=" + "a" * 101
    for word in ("9=a", "0=a", "x=a", "1", "1=", "1=7", "1=unknown", "1=a\x07b", long, "2=again"):
        with pytest.raises(InputError, match="--name"):
            feedback.parse_names(["2=fine", word], 3)


def test_named_clusters_are_classes_of_the_next_run(graph, found, tmp_path):
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    y = graph.y.clamp(max=3)
    train = torch.cat([order[y[order] == k][:5] for k in range(3)])
    rest = order[~torch.isin(order, train)]
    parts = {"train": train, "val": rest[:60], "test": rest[60:140]}
    names = feedback.parse_names(["1=graph, theory", " 2 = biology"], 3)
    made = feedback.labels(found.named(names), parts, y, per_class=8)
    label, split = map(np.array, made)
    (told, *_) = feedback.counts(found.named(names), parts, made)
    assert told == "cluster 1: 8 training and 4 validation nodes got the label graph, theory"
    assert (split[train] == "train").all()
    first = np.flatnonzero(label == "graph, theory")
    assert (split[first] == "train").sum() == 8 and (split[first] == "val").sum() == 4
    assert all(int(found.label[node]) == 3 and int(found.cluster[node]) == 3 for node in first)
    # Unknown nodes that the user knows of stay unknown, but for those inside a named cluster.
    unknown = np.flatnonzero(label == "unknown")
    assert len(unknown)
    assert all(int(found.cluster[node]) not in (3, 4) and int(y[node]) == 3 for node in unknown)

    folder = tmp_path / "next"
    (tmp_path / "recipe.json").write_text('{"text": {"columns": ["title"]}}')
    named = Names(None, [NASTY] * graph.num_nodes, None)
    feedback.write(folder, graph, made, named, source=tmp_path)
    assert (folder / "recipe.json").read_text() == '{"text": {"columns": ["title"]}}'
    assert not list(tmp_path.glob(".*"))
    task = shifts.find("file")(path=str(folder))
    assert task.class_names == ("a", "b", "biology", "c", "graph, theory")
    assert task.open_set and torch.equal(task.target.x, graph.x)
    assert torch.bincount(task.source.y[task.train]).tolist() == [5, 5, 8, 5, 8]
    assert set(task.test.tolist()) == set(np.flatnonzero(split == "test").tolist())
    for taken in (folder, tmp_path / "none" / "below"):
        with pytest.raises(InputError, match="--labels-out"):
            feedback.write(taken, graph, made)
    (tmp_path / "recipe.json").write_text("{")
    with pytest.raises(InputError, match="recipe.json is not a readable recipe"):
        feedback.write(tmp_path / "other", graph, made, named, source=tmp_path)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A small finished run of open-set shift, made as a user makes it."""
    folder = tmp_path_factory.mktemp("run")
    words = (
        "run --name one --no-figures --no-tensorboard gnn.dim_inner 16 train.max_episodes 2"
        " synthetic.num_nodes 400 synthetic.num_classes 5 synthetic.num_val 80"
        " synthetic.num_test 120 synthetic.num_features 100"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(words.split()) == 0
    return folder


def test_from_a_run_to_the_next_one(run, monkeypatch, unchanged_globals, capsys):
    monkeypatch.chdir(run)
    words = ["discover", "results/one", "--clusters", "5"]
    assert main([*words, "--name", "1==cmd", "--nodes", "nodes.csv", "--out", "named.html"]) == 0
    told = capsys.readouterr().out
    assert "cluster 1, =cmd:" in told and "--name 1==cmd" in told and "--labels-out NEXT" in told
    assert " with the known classes)" in told
    nodes = list(csv.DictReader(open("nodes.csv")))
    assert {row["cluster_name"] for row in nodes if row["cluster"] == "1"} == {"'=cmd"}
    html = (run / "named.html").read_text()
    assert "Cluster 1, =cmd" in html and "Name the clusters" in html

    written = "--csv table.csv --labels-out labels --nodes-per-class 6 --name".split()
    assert main([*words, *written, "1=new things", "--name", "2=new things"]) == 0
    out, err = capsys.readouterr()
    run_again = "graphgym-srnc run --cfg own --name labels dataset.name labels"
    assert f"next, if every class has labels now:\n  {run_again} file.open_set False\n" in out
    assert f"next, if classes are still unknown:\n  {run_again}\n" in out
    assert all(text in out for text in ("P(unknown)", "wrote labels", "feature "))
    assert "Warning" not in err and len(list(csv.reader((run / "table.csv").open()))) == 3
    task = shifts.find("file")(path=str(run / "labels"))
    assert "new things" in task.class_names and task.num_known == 4 and task.open_set
    new = task.source.y[torch.cat([task.train, task.val])] == task.class_names.index("new things")
    assert task.info["labels from discover"] == int(new.sum()) > 0
    (run / "labels" / "words.txt").write_text("".join(f"word{k}\n" for k in range(100)))
    assert main(["discover", "results/one", "--graph", "labels"]) == 0
    assert ": word" in capsys.readouterr().out


def test_a_table_of_all_nodes(graph, found):
    named = Names([f"n{i}" for i in range(300)], ["text"] * 300, None)
    columns = table.of_nodes(found.named({1: "new art"}), named, clusters.layout(found))
    heads = "node id text x y class p_unknown cluster cluster_name newness typical"
    assert list(columns) == heads.split()
    new = found.new[0]
    assert {columns["cluster"][node] for node in new.nodes.tolist()} == {1}
    assert columns["cluster"].count(1) == len(new.nodes) == columns["cluster_name"].count("new art")
    assert columns["newness"][int(new.nodes[0])] == new.newness
    assert columns["cluster_name"][int(found.known[1].nodes[0])] == "b"
    assert columns["p_unknown"] == found.posterior[:, -1].tolist()


def test_bad_input_in_one_line(run, capsys, monkeypatch, unchanged_globals):
    monkeypatch.chdir(run)
    before = set(run.rglob("*"))
    for words, named in (
        ("nowhere", "RUN"),
        ("results/one --clusters 2", "--clusters"),
        ("results/one --labels-out new", "--labels-out"),
        ("results/one --nodes nodes.txt", "--nodes"),
        ("results/one --out nowhere/page.html", "--out"),
        ("results/one --name 99=a --labels-out new", "--name"),
    ):
        assert named in refusal(main(["discover", *words.split()]), capsys)
    assert set(run.rglob("*")) == before


def test_discovery_from_python(graph, tmp_path):
    own = graph.clone()
    own.y = [("a", "b", "c")[k] if k < 3 else "" for k in graph.y.tolist()]
    own.train_mask = torch.tensor([bool(label) and i % 2 == 0 for i, label in enumerate(own.y)])
    own.ids = [f"n{node}" for node in range(graph.num_nodes)]
    model = ERM(hidden=16, steps=30, open_set=True).fit(own)
    found = discover(model, own, 5)
    assert (found.nodes().cluster.value_counts()[[1, 2]] == found.frame().nodes).all()
    frame = found.frame()
    assert frame.index.tolist() == [1, 2] and {*frame.columns} >= {"nodes", "newness", "words"}
    assert {*frame.typical[1]} <= {*own.ids} and "2 new clusters beside 3" in repr(found)
    found.html(tmp_path / "page.html")
    assert "New classes" in (tmp_path / "page.html").read_text("utf-8")
    made = found.labelled({2: "rust"}, nodes_per_class=6)
    rust = [node for node, label in enumerate(made.y) if label == "rust" and made.train_mask[node]]
    assert {*rust} <= {*found.clusters.new[1].nodes.tolist()} and 0 < len(rust) <= 9
    assert made.train_mask[own.train_mask].all() and own.y.count("rust") == 0
    assert "val_mask" not in made  # or it would have nodes of the new class alone
    every = np.arange(own.num_nodes)
    assert model.score(own, model.predict(own), every) == 1  # "unknown" is a class here
    assert "rust" in ERM(hidden=8, steps=2, open_set=True).fit(made).classes_
    for names, few, key in (({3: "rust"}, 9, "names"), ({1: "unknown"}, 9, "names"), ({}, 0, "no")):
        with pytest.raises(InputError, match=f"^{key}"):
            found.labelled(names, few)
    with pytest.raises(InputError, match="^num_clusters: got '3'; allowed: a whole number"):
        discover(model, own, "3")
    with pytest.raises(InputError, match="^model: it is a Data. Give a fitted estimator and then"):
        discover(own, model)
    with pytest.raises(InputError, match="^names: it is a list. Give the class by number"):
        found.labelled(["travel"])
    with pytest.raises(InputError, match="^path: .* folder that exists"):
        found.html(tmp_path / "no" / "page.html")
    closed = ERM(hidden=8, steps=2, open_set=False).fit(own)
    with pytest.raises(InputError, match="nothing to discover. Fit with open_set=True"):
        discover(closed, own)


def test_class_names_may_be_an_array(graph):
    found = clusters.find(graph, posterior_of(graph), 6, np.array([3, 4, 5, -1]))
    assert found.classes == ["3", "4", "5"]
