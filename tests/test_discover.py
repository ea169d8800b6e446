"""Discovery of new classes: figures against other libraries, named clusters, page and command."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import re
import shutil
from dataclasses import replace
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
import torch
from conftest import NO_PICTURES, refusal
from conftest import rows as csv_rows
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import normalize
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from graphgym_srnc import ERM, discover, shifts
from graphgym_srnc.cli import discover as command
from graphgym_srnc.cli.main import main
from graphgym_srnc.data import folder as graph_folder
from graphgym_srnc.data.names import Names, Unit, of_folder
from graphgym_srnc.errors import InputError, ShiftWarning
from graphgym_srnc.io import records
from graphgym_srnc.methods.shared import label_scan
from graphgym_srnc.methods.shared import topics as topics_of
from graphgym_srnc.methods.shared.label_scan import Scan
from graphgym_srnc.own.discover import (
    analysis,
    candidates,
    clusters,
    feedback,
    number,
    page,
    representation,
    table,
)
from graphgym_srnc.own.discover.candidates import Evidence
from graphgym_srnc.own.discover.number import Fit
from graphgym_srnc.own.discover.words import (
    column_name,
    contrast,
    described,
    log_odds,
    shared_values,
    shown_node,
    typical_numbers,
    typical_words,
)

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


def find(
    graph: Data, p: torch.Tensor, num_new: int, classes: Sequence[str] = ()
) -> clusters.Discovery:
    """Clusters of a graph without labels, by these posteriors."""
    topics = topics_of.topics(graph)
    seeds = candidates.seeds(topics, p, torch.full((len(p),), -1))
    state = representation.states(topics, p, seeds.predicted)
    names = classes or [str(k) for k in range(p.size(1) - 1)]
    made = clusters.of_means(state, p, seeds, num_new)
    return clusters.find(graph, p, state, seeds, *made, names)


@pytest.fixture(scope="module")
def graph() -> Data:
    return planted()


@pytest.fixture(scope="module")
def found(graph) -> clusters.Discovery:
    return find(graph, posterior_of(graph), 3, ["a", "b", "c"])


def principal_axes(x: np.ndarray) -> np.ndarray:
    """Products of the rows of a matrix by its first five principal axes."""
    left, scale, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
    places = left[:, :5] * scale[:5]
    return places @ places.T


def test_topics_are_principal_axes_of_smoothed_words(graph):
    x, walk = graph.x.numpy(), np.eye(graph.num_nodes)
    idf = np.log((1 + len(x)) / (1 + (x > 0).sum(0)))
    x = normalize(normalize(x) * idf)
    walk[tuple(graph.edge_index.numpy())] = 1
    walk /= walk.sum(1, keepdims=True)
    smooth = x
    for _ in range(topics_of.STEPS):
        smooth = 0.9 * walk @ smooth + 0.1 * x
    got = topics_of.topics(graph, 5)
    np.testing.assert_allclose(got @ got.T, principal_axes(smooth), atol=1e-3)
    assert topics_of.topics(graph, 5).equal(got)
    alone = topics_of.topics(graph, 5, steps=0)
    np.testing.assert_allclose(alone @ alone.T, principal_axes(x), atol=2e-2)
    narrow = Data(x=graph.x[:, :1], edge_index=graph.edge_index)
    assert topics_of.topics(narrow).shape == (graph.num_nodes, 1)


def test_labels_decide_whether_topics_are_those_of_neighbourhoods(graph):
    label = graph.y.where(graph.y < 3, -1)
    assert topics_of.best_topics(graph, label).equal(topics_of.topics(graph))
    links = torch.randint(0, graph.num_nodes, (2, 600), generator=torch.Generator().manual_seed(0))
    mixed = Data(x=graph.x, edge_index=links)
    assert topics_of.best_topics(mixed, label).equal(topics_of.topics(mixed, steps=0))
    none = torch.full_like(label, -1)
    assert topics_of.best_topics(mixed, none).equal(topics_of.topics(mixed))


def test_topics_are_scaled_where_other_directions_hide_the_classes(count=300):
    random = torch.Generator().manual_seed(0)
    label = torch.randint(0, 4, (count,), generator=random)
    x = 3 * torch.randn(count, 8, generator=random)  # says nothing about the classes
    angle = label * math.pi / 2 + 0.1 * x[:, 0]
    x[:, :2] = torch.stack([angle.cos(), angle.sin()], 1)
    graph = Data(x=x, edge_index=torch.randint(0, count, (2, 900), generator=random))
    learned = torch.arange(100)
    given = label.where(torch.arange(count) < 100, -1)
    alone = topics_of.topics(graph, steps=0)
    scaled = topics_of.scaled_by_classes(alone, learned, label[learned])
    assert topics_of.best_topics(graph, given).equal(scaled)
    assert topics_of.told_apart(alone, label) < 0.5 < topics_of.told_apart(scaled, label)

    within = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True)
    covariance = within.fit(alone[learned], label[learned]).covariance_.astype(float)
    covariance += 0.1 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    wanted = alone.numpy() @ np.linalg.inv(covariance) @ alone.numpy().T
    np.testing.assert_allclose(scaled @ scaled.T, wanted, rtol=1e-3, atol=1e-3)


def test_nodes_are_told_apart_by_the_means_of_the_others():
    topics = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    node = np.arange(40)
    label = node % 4
    unit = normalize(topics)
    right = 0
    for one in node:
        means = [unit[(label == k) & (node != one)].mean(0) for k in range(4)]
        right += np.argmax(normalize(means) @ unit[one]) == label[one]
    assert topics_of.told_apart(topics, torch.from_numpy(label)) == pytest.approx(right / 40)


@pytest.mark.parametrize(
    "x", [torch.ones(40, 8), torch.zeros(40, 8), torch.eye(40), torch.rand(40, 300).round()]
)
def test_odd_features(x):
    links = torch.randint(0, 40, (2, 60), generator=torch.Generator().manual_seed(0))
    graph = Data(x=x, edge_index=links)
    p = 0.1 + 0.6 * torch.eye(4, dtype=torch.double).repeat(10, 1)
    found = analysis.analyse(graph, p, Names(), range(3))
    assert torch.isfinite(found.discovery.state).all() and found.new
    assert {*found.fits} == {1, 2} and len(found.new) <= number.suggested(found.fits)
    assert all(
        np.isnan(fit.words) == (not topics_of.are_words(x.numpy())) for fit in found.fits.values()
    )


def test_clusters_find_planted_classes(graph, found):
    assert [cluster.number for cluster in found.new] == [1, 2, 3]
    assert found.classes == ["a", "b", "c"]
    for cluster in found.new:
        assert found.cluster[cluster.nodes].unique().tolist() == [2 + cluster.number]
        assert len(graph.y[cluster.nodes[:10]].unique()) == 1 and graph.y[cluster.nodes[0]] >= 3
        assert not cluster.is_mixed
        p = found.posterior[cluster.nodes].sum(0)[:3]
        assert cluster.nearest == p.argmax()
        assert cluster.nearest_share == pytest.approx(float(p.max() / p.sum()))
        assert (found.typical[cluster.nodes].diff() <= 0).all()
    # Clusters of known classes are the predictions, and the others have each unknown node once.
    others = torch.cat([cluster.nodes for cluster in (*found.new, found.rest)])
    for k, nodes in enumerate([*(cluster.nodes for cluster in found.known), others]):
        assert nodes.sort().values.equal(torch.where(found.label == k)[0])
    new, known = ([cluster.newness for cluster in part] for part in (found.new, found.known))
    assert sorted(new, reverse=True) == new and max(known) < min(new)
    lone = found.new[0].nodes[0]
    links = graph.edge_index[:, (graph.edge_index != lone).all(0)]
    again = find(Data(x=graph.x, edge_index=links), posterior_of(graph), 3)
    joined = again.every[again.cluster[lone]]
    assert joined.nodes[-1] == lone and joined.small == 1, "a node without links is last"


def test_a_typical_node_is_central_linked_and_sure():
    """Ranks by hand, of three nodes in one cluster."""
    state = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
    links = sp.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    group = torch.zeros(3, dtype=torch.long)
    typical = clusters.centrality(state, links, torch.tensor([0.9, 0.8, 0.7]), group)
    # The mean is nearest to the second node, which also has most links; the first is the surest.
    similar, linked, sure = [1, 3, 2], [1.5, 3, 1.5], [3, 2, 1]
    wanted = [(a + b + c) / 9 for a, b, c in zip(similar, linked, sure)]
    assert typical.tolist() == pytest.approx(wanted)


def test_a_class_that_no_node_is_named(graph):
    p = posterior_of(graph)
    p = torch.cat([p[:, :3], torch.full((len(p), 1), 1e-9, dtype=torch.double), p[:, 3:]], 1)
    found = find(graph, p / p.sum(1, keepdim=True), 2)
    assert len(found.known[3].nodes) == 0 and found.known[3].p_unknown == 0 and len(found.new) == 2


@pytest.mark.parametrize("links", [0, 3])
def test_a_mixed_cluster_is_a_leftover(graph, links):
    """A sixth of each class, chosen at random, is less alike than any class, also with links."""
    keep = torch.where(graph.y < 3)[0]
    scattered = torch.from_numpy(np.random.RandomState(1).choice(300, 50, replace=False))
    p = torch.full((300, 4), 0.1 / 3, dtype=torch.double)
    p = p.scatter(1, graph.y.clamp(max=2)[:, None], 0.9)
    p[scattered] = torch.tensor([0.1 / 3] * 3 + [0.9], dtype=torch.double)
    small = graph.subgraph(keep)
    inside = torch.where(torch.isin(keep, scattered))[0]
    for step in range(1, 1 + links):
        ring = torch.stack([inside, inside.roll(step)])
        small.edge_index = torch.cat([small.edge_index, ring, ring.flip(0)], 1)
    (row,) = analysed(small, find(small, p[keep], 1)).new
    assert row.cluster.is_mixed
    assert row.leftover == "its nodes are less alike than those of each known class"


def test_a_cluster_of_clear_nodes_is_no_leftover_though_known_classes_are_more_alike(found):
    loose = dataclasses.replace(found.new[0], is_mixed=True, p_unknown=0.9, cohesion=0.8)
    assert loose.is_clear and not loose.weakness
    unsure = dataclasses.replace(loose, p_unknown=0.7)
    assert unsure.weakness == "its nodes are less alike than those of each known class"


@pytest.mark.parametrize("is_usual", [False, True])
def test_few_links_are_a_weakness_only_where_known_classes_have_links(graph, is_usual):
    """Nodes of the first new class, and perhaps of the first known one, lose all links."""
    alone = torch.isin(graph.y, torch.tensor([3, 0] if is_usual else [3]))
    ends = alone[graph.edge_index].any(0)
    sparse = Data(x=graph.x, y=graph.y, edge_index=graph.edge_index[:, ~ends])
    p = torch.full((300, 4), 0.01, dtype=torch.double)
    found = find(sparse, p.scatter(1, graph.y.clamp(max=3)[:, None], 0.97), 3)
    (cluster,) = (
        row.cluster
        for row in analysed(sparse, found).new
        if (graph.y[row.cluster.nodes] == 3).float().mean() > 0.9
    )
    assert cluster.small > 0.9 * len(cluster.nodes)
    assert cluster.has_few_links is not is_usual
    assert ("small" in cluster.weakness or "components" in cluster.weakness) is not is_usual


@pytest.mark.parametrize("num_new, verdict", [(1, "leftover"), (3, "clear")])
def test_clarity_tells_one_class_from_several(graph, num_new, verdict):
    """Three hidden classes as one cluster and as three; topics by another route."""
    topics = normalize(topics_of.topics(graph))
    found = find(graph, posterior_of(graph, sure=0.97), num_new)
    rows = analysed(graph, found.named({"1": "a name"})).new  # which changes no verdict
    assert [row.verdict for row in rows] == [verdict] * num_new
    for row in rows:
        nodes = row.cluster.nodes.numpy()
        likeness = np.linalg.norm(topics[nodes].mean(0))
        mean = found.posterior[nodes, -1].mean()
        assert row.cluster.clarity == pytest.approx(float(likeness * mean), abs=1e-4)
        purity = np.bincount(graph.y[nodes]).max() / len(nodes)
        assert (purity > 0.9) == (verdict == "clear")
    assert f"0.{100 * rows[0].cluster.clarity:.0f} {verdict}" in table.to_text(rows)
    first, *_ = csv.DictReader(table.to_csv(rows).splitlines())
    assert first["verdict"] == verdict and 0 < float(first["clarity"]) < 1


def abstaining() -> tuple[Data, torch.Tensor, torch.Tensor]:
    """A graph of six classes, a fifth of three of which is labelled; the model knows these alone.

    It is sure of every node, as a model is that has learned its own predictions.
    """
    graph = planted(6, 100)
    own = graph.y % 3
    p = torch.full((600, 3), 0.05, dtype=torch.double).scatter(1, own[:, None], 0.9)
    is_given = (graph.y < 3) & (torch.arange(600) % 5 == 0)
    return graph, p, graph.y.where(is_given, -1)


@pytest.mark.usefixtures("few_numbers")
def test_candidates_where_no_node_is_unknown():
    graph, p, given = abstaining()
    for evidence, told in (
        (
            Evidence(True, 0.028, is_clear=False),
            "The labels give no significant evidence that any of these is a new class (p = 0.028;",
        ),
        (
            Evidence(open_set=False),
            "The model was trained without an unknown class, so it does not",
        ),
    ):
        posterior = torch.cat([p, torch.zeros(600, 1)], 1) if evidence.open_set else p
        found = analysis.analyse(graph, posterior, Names(), "abc", evidence, given)
        # Each hidden class would have 10 labels, so the groups are significant.
        sign = "Cluster 1 has fewer labels than chance explains (p = 0.001), a sign of a new class"
        assert found.lead[0].startswith(told if evidence.p_value < 0 else sign)
        assert "Candidates for new classes: 3 groups of similar nodes" in found.lead[1]
        assert found.head == "missing labels" and not found.discovery.seeds.predicted
        assert sorted(graph.y[row.cluster.nodes].median().item() for row in found.new) == [3, 4, 5]
        for row in found.new:
            hidden = graph.y[row.cluster.nodes]
            assert (hidden == hidden.median()).double().mean() > 0.9 and len(hidden) > 80
            assert row.few_labels.startswith("0 labels where ")
        said = table.to_text(found.new, found.head)
        assert found.new[0].few_labels in said
        assert "missing labels" in said.splitlines()[0] and "Most clear clusters" in said
        said = table.to_text(found.new, found.head, len(found.new) - 1)
        assert "With more clusters than suggested" in said and "Most clear" not in said
        html = page.render("t", found, {}, {}, [])
        assert html.index(found.lead[0]) < html.index("<h2>") and "known: a" in html
        assert '"candidate 1' in html and '"new 1' not in html
    row = found.new[0]
    assert not row.by_chance and not row.cluster.weakness
    by_chance = row._replace(by_chance=True)
    assert by_chance.verdict == "perhaps known"
    named = by_chance._replace(cluster=dataclasses.replace(row.cluster, name="x"))
    assert named.verdict != "perhaps known"
    assert "p = 0.5;" in Evidence(True, 0.5, is_clear=False).sentence
    assert Evidence(True, 0.002).sentence == Evidence(True, -1).sentence == ""


def two_spots(labels: int) -> Scan:
    """The scan of two spots of 160 nodes of one class, with labels in the first one alone."""
    spots = torch.eye(2).repeat_interleave(160, 0)
    spots += torch.randn(320, 2, generator=torch.Generator().manual_seed(0)) / 1e3
    label = torch.full((320,), -1)
    label[:labels] = 0
    return Scan(spots, torch.ones(320, 1), label)


def test_a_scan_by_hand():
    spots = two_spots(38)
    assert spots.inside.shape == (19, 10) and (spots.inside[-1] == 1).all()  # 320 // 30 leaves
    assert spots.expected[-1] == pytest.approx(38) and spots.found[-1] == 38
    assert spots.is_small.tolist() == [True] * 18 + [False]
    first, *_ = spots.groups()
    assert sorted(first.nodes.tolist()) == [*range(160, 320)]
    assert (first.found, first.expected) == (0, pytest.approx(19))
    assert first.p_alone == pytest.approx(stats.poisson.cdf(0, 19)) and first.p_value == 0.001
    missing = spots.missing
    assert missing[160:].tolist() == pytest.approx([1 - 1 / 20] * 160)
    assert float(missing[:38].max()) < 0.5


def test_p_values_of_a_scan_are_uniform_or_larger():
    """Labels at random: few graphs have a significant group."""
    rng = torch.Generator().manual_seed(0)
    topics = torch.randn(600, 5, generator=rng)
    smallest = []
    for _ in range(40):
        label = torch.where(torch.rand(600, generator=rng) < 0.1, 0, -1)
        smallest.append(Scan(topics, torch.ones(600, 1), label).groups()[0].p_value)
    assert 0.25 < np.mean(np.array(smallest) < 0.5) < 0.75
    assert np.mean(np.array(smallest) < 0.05) <= 0.15


def test_groups_of_a_scan_are_disjoint_merges():
    inside = label_scan.tree(np.array([[0.0], [0.1], [5.0], [5.2], [9.0]]))
    assert inside.shape == (9, 5) and (inside[:5] == np.eye(5)).all()
    assert inside[5:].astype(int).tolist() == [
        [1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 1, 1, 1],
        [1, 1, 1, 1, 1],
    ]
    found = two_spots(100).groups()
    every = torch.cat([one.nodes for one in found])
    assert len(every.unique()) == len(every)
    assert [one.p_value for one in found] == sorted(one.p_value for one in found)
    none = Scan(torch.eye(3), torch.ones(3, 1), torch.full((3,), -1))
    assert none.groups() == [] and label_scan.tree(np.zeros((1, 2))).tolist() == [[1.0]]


@pytest.mark.usefixtures("few_numbers")
def test_groups_of_known_nodes_that_lack_labels():
    """One hidden class is predicted as unknown, the other one as a known class."""
    graph, p, given = abstaining()
    p = torch.cat([p, torch.full((600, 1), 0.01, dtype=torch.double)], 1)
    p[graph.y == 3] = torch.tensor([0.01, 0.01, 0.01, 0.97], dtype=torch.double)
    found = analysis.analyse(graph, p, Names(), "abc", Evidence(), given)
    assert found.discovery.seeds.predicted and (graph.y[found.new[0].cluster.nodes] == 3).all()
    for row in found.also:
        group = row.found
        assert not {3} & {*graph.y[group.nodes].tolist()} and (given[group.nodes] < 0).all()
        assert group.found < group.expected
    first = found.also[0].found
    assert first.found == 0 and (graph.y[first.nodes] >= 4).all()
    # The known classes have 20 labels in 200 nodes, the hidden ones beside them none.
    assert len(first.nodes) * 20 / 200 == pytest.approx(first.expected, rel=0.1)
    assert first.p_alone == pytest.approx(np.exp(-first.expected)) and first.p_value < 0.05
    # A group is named by its number, like a cluster, and its nodes get labels like those of one.
    assert [row.found.number for row in found.also] == [*range(2, 2 + len(found.also))]
    y = torch.where(given < 0, 3, given)
    named = found.discovery.named({"2": "hidden"})
    made = feedback.labels(named, {"train": (given >= 0).nonzero().view(-1)}, y)
    assert made.label.count("hidden") == len(made.added) >= 5
    assert made.added <= {*first.nodes.tolist()}
    assert "cluster 2: " in feedback.counts(named, made)[0]
    groups = table.of_nodes(found.discovery, Names())["group_with_few_labels"]
    assert groups[groups == "2"].index.tolist() == sorted(first.nodes.tolist())
    said = "\n".join(table.on_also(found.also))
    head = "Possibly also new: groups predicted as known classes that have few labels. "
    assert f"{head}{table.on_evidence(found.also)}" in said
    assert ("significant (p < 0.05)" in said) == (first.p_value < 0.05)
    weak = [row._replace(found=row.found._replace(p_value=0.9)) for row in found.also]
    assert "No group alone is significant (p < 0.05)" in "\n".join(table.on_also(weak))
    html = page.render("t", found, {}, {}, [])
    assert "<h2>Possibly also new</h2>" in html and found.also[0].facts in html
    assert "Possibly also" not in page.render("t", found._replace(also=[]), {}, {}, [])
    *others, colours = page.map_data(found)["colourings"]
    assert colours["by"] == "few labels" and colours["pale"] == [len(found.also)]
    count = len(found.also)
    first = page.map_data(found)["colourings"][0]["colours"]
    assert not {*colours["colours"][:count]} & {*first[-1 - len(found.new) : -1]}
    assert f'<a href="#group-{found.also[0].found.number}">' in html
    sizes = [len(row.found.nodes) for row in found.also]
    assert colours["sizes"] == [*sizes, 600 - sum(sizes)]
    assert len(page.map_data(found._replace(also=[]))["colourings"]) == len(others)
    none = torch.full((600,), -1)
    assert candidates.also_possible(torch.rand(600, 3), p, none) == []

    # Without a command that names them, as for another graph, clear ones are not called unclear.
    weak = [row._replace(cluster=replace(row.cluster, p_unknown=0.0)) for row in found.rows]
    assert found.new[0].verdict == "clear" and command._next(found, {}) == []
    assert command._next(found._replace(rows=weak), {}) == [table.ALL_LEFTOVERS]

    part = graph.clone()
    part.drawn_mask = graph.y != 4  # class 5 remains among the nodes that could have labels
    partly = analysis.analyse(part, p, Names(), "abc", Evidence(), given)
    assert partly.also and partly.lead[0] == found.lead[0]
    assert "nothing tests for a new class, and of the others" in partly.lead[1]
    evidence = Evidence(True, 0.3, is_clear=False)
    unclear = analysis.analyse(part, p, Names(), "abc", evidence, given)
    assert "Among these there is no clear sign of a new class (p = 0.3)" in unclear.lead[1]
    assert all(part.drawn_mask[row.found.nodes].all() for row in partly.also)
    closed = partly._replace(evidence=Evidence(open_set=False))
    assert "without an unknown class" in closed.lead[1] and len(closed.lead) == 2


def test_candidates_without_labels_are_the_least_certain():
    graph, p, _ = abstaining()
    p[7:67] = torch.tensor([0.4, 0.35, 0.25], dtype=torch.double)
    none = torch.full((600,), -1)
    topics = topics_of.topics(graph)
    seeds = candidates.seeds(topics, candidates.padded(p, Evidence(False)), none)
    assert seeds.measure == "doubt" and seeds.nodes.tolist() == [*range(7, 67)]
    assert float(seeds.doubt[8]) == pytest.approx(0.6) and seeds.share == 0.1
    more = candidates.seeds(
        topics, candidates.padded(p, Evidence(False)), none, Evidence(True, 0.03, 0.2)
    )
    assert len(more.nodes) == 120 and {*seeds.nodes.tolist()} < {*more.nodes.tolist()}


def test_candidates_are_of_nodes_that_the_labels_represent():
    """Half of the nodes are of another time, and have no labels or all of them."""
    graph, p, given = abstaining()
    topics = topics_of.topics(graph)
    closed = candidates.padded(p, Evidence(False))
    here = torch.arange(600) % 2 == 0
    found = candidates.seeds(topics, closed, given.where(here, -1), Evidence(), here)
    assert found.groups and here[found.nodes].all() and not found.doubt[~here].any()
    # The labels of the other nodes do not count.
    more = candidates.seeds(topics, closed, given.where(here, 0), Evidence(), here)
    assert torch.equal(found.nodes, more.nodes)
    p[7:67] = torch.tensor([0.4, 0.35, 0.25], dtype=torch.double)
    others = candidates.seeds(
        topics, candidates.padded(p, Evidence(False)), given, Evidence(), here, covered=False
    )
    assert others.measure == "doubt" and not others.groups
    wanted = [node for node in range(7, 67, 2) if given[node] < 0]
    assert not here[others.nodes].any() and {*wanted} <= {*others.nodes.tolist()}


@pytest.mark.parametrize("classes", [6, 4])
def test_suggested_number_on_planted_blocks(classes):
    graph = planted(classes, 60)
    p = posterior_of(graph)
    found = analysis.analyse(graph, p, Names(), range(3))
    assert [*found.fits] == [*range(1, 11)] and len(found.new) == classes - 3
    total = sum(cluster.modularity for cluster in found.discovery.every)
    assert found.fits[classes - 3].modularity == pytest.approx(total, abs=0.01)
    new = "1 new cluster." if classes == 4 else f"{classes - 3} new clusters."
    assert table.on_number(found.fits).startswith(f"Links, stability and words suggest {new}")


@pytest.mark.usefixtures("few_numbers")
def test_a_number_without_a_clear_cluster_is_raised(monkeypatch):
    """Three planted classes in one cluster are less alike than each known class."""
    monkeypatch.setattr(number, "suggested", lambda fits: 1)
    graph = planted(6, 40)
    found = analysis.analyse(graph, posterior_of(graph), Names(), range(3))
    assert found.divided == 3 and {row.verdict for row in found.new} == {"clear"}
    told = table.on_number(found.fits, found.divided)
    assert told.endswith("so 3 are shown. Give those of one class one name.")
    one = analysis.analyse(graph, posterior_of(graph), Names(), range(3), num_new=1)
    assert one.divided == 0 and [row.verdict for row in one.new] == ["leftover"]
    unsure = analysis.analyse(graph, posterior_of(graph, sure=0.58), Names(), "abc")
    assert unsure.suggested == 1 < unsure.divided
    assert "perhaps mixed" in {row.verdict for row in unsure.new}, "no part is clear"


@pytest.mark.parametrize(
    "wanted, fits",
    [
        (2, [(0.50, 1, 9), (0.60, 0.9, 9), (0.62, 0.5, 9)]),  # stability counts
        (2, [(0.50, 1, 9), (0.501, 1, 8)]),  # words are shorter at nearly no cost
        (1, [(0.50, 1, 9), (0.501, 1, 9)]),
        (4, [(0.3, 1, 9), (0.5, 1, 8), (0.51, 1, 9), (0.49, 1, 7)]),
        (2, [(0.3, 1, 9), (0.5, 1, 8), (0.51, 1, 9), (0.44, 1, 7)]),  # fits worse by 14 %
        (2, [(0.3, 1, np.nan), (0.5, 1, np.nan), (0.51, 1, np.nan)]),
        # At most twice the smallest one and one more.
        (5, [(0.3, 1, 9.0), *[(0.5, 1, 9.0 - k) for k in range(1, 9)]]),
        (1, [(0.4, 1, 9)]),
        (2, [(-0.2, 1, 9), (-0.1, 1, 9)]),
    ],
)
def test_the_rule_for_the_number(wanted, fits):
    assert number.suggested({k: Fit(*fit) for k, fit in enumerate(fits, 1)}) == wanted


def test_numbers_that_fit_about_equally_well_are_told():
    told = table.on_number({1: Fit(0.3, 1, 9), 2: Fit(0.5, 1, 9), 3: Fit(0.49, 1, 9)})
    assert told.endswith("suggest 2 new clusters. 3 fits about equally well.")


def test_stability_and_description_by_hand():
    rng = np.random.default_rng(0)
    unit = np.concatenate([rng.normal(centre, 0.01, (40, 2)) for centre in ((1, 0), (0, 1))])
    assert number.stability(unit, 2) == 1 and number.stability(unit, 5) < 0.7
    assert number.stability(unit, 1) == 1 and number.stability(unit[:3], 2) == 0
    words = np.kron(np.eye(2), np.ones((30, 20)))  # two groups without a common word
    halves, parted = np.repeat([0, 1], 30), np.arange(60) % 2
    whole = number.description(words, np.zeros(60, dtype=int))
    assert number.description(words, halves) < whole < number.description(words, parted)
    assert number.description(sp.csr_array(words), halves) == number.description(words, halves)
    # One group has the likelihood of a Polya urn, word by word.
    urn, total, seen = 0.0, 0, np.zeros(40)
    for word in np.nonzero(words)[1]:
        urn -= np.log((seen[word] + number.PRIOR / 40) / (total + number.PRIOR))
        seen[word], total = seen[word] + 1, total + 1
    assert whole == pytest.approx(urn)
    assert np.isnan(number.description(words - 1, halves))


@pytest.mark.usefixtures("few_numbers")
def test_a_cluster_of_two_topics_has_two_parts(graph):
    p = posterior_of(graph)
    found = analysis.analyse(graph, p, Names(), "abc", num_new=2)
    mixed = max(found.new, key=lambda row: len(row.cluster.nodes))
    assert [len(part.nodes) for part in mixed.cluster.parts] == [part.size for part in mixed.parts]
    assert len(mixed.parts) == 2 and sum(part.size for part in mixed.parts) == len(
        mixed.cluster.nodes
    )
    for part in mixed.cluster.parts:
        classes = graph.y[part.nodes].bincount()
        assert classes.max() > 0.9 * len(part.nodes)
    assert f"part {mixed.cluster.number}a, " in table.to_text(found.new)
    columns = table.of_nodes(found.discovery, Names())
    assert (columns["part"] == f"{mixed.cluster.number}b").sum() == mixed.parts[1].size
    single = analysis.analyse(graph, p, Names(), np.array([3, 4, 5]), num_new=3)
    assert not any(row.parts for row in single.new) and single.discovery.classes == [*"345"]


def test_a_small_mixed_cluster_has_parts():
    # Halves of so few nodes agree less than those of a large cluster.
    draw = torch.Generator().manual_seed(2)
    topic = torch.arange(3).repeat_interleave(torch.tensor([16, 14, 10]))
    state = torch.eye(3, 16)[topic] + 0.3 * torch.randn(40, 16, generator=draw)
    often = torch.arange(60)[None] // 20 == topic[:, None]
    words = torch.rand(40, 60, generator=draw) < torch.where(often, 0.3, 0.05)
    found = number.parts(state, words.double().numpy(), torch.arange(40))
    counts = torch.stack([topic[part].bincount(minlength=3) for part in found])
    assert sorted(counts.argmax(1).tolist()) == [0, 1, 2]
    assert (counts.amax(1) / counts.sum(1)).min() > 0.75


@pytest.mark.usefixtures("few_numbers")
def test_a_part_has_a_name_of_its_own(graph):
    p = posterior_of(graph)
    first = analysis.analyse(graph, p, Names(), "abc", num_new=2)
    mixed = max(first.discovery.new, key=lambda new: len(new.nodes))
    one, other = mixed.parts
    train = torch.arange(0, graph.num_nodes, 5)[(graph.y[::5] < 3).numpy()]
    parts, y = {"train": train}, graph.y.clamp(max=3)

    def labelled(names: dict[str, str]) -> tuple[clusters.Discovery, feedback.Labels]:
        found = first.discovery.named(names)
        return found, feedback.labels(found, parts, y)

    names = {other.number: "rust"}
    found = analysis.analyse(graph, p, Names(), "abc", num_new=2, cluster_names=names)
    made = feedback.labels(found.discovery, parts, y)
    rust = {node for node, label in enumerate(made.label) if label == "rust"}
    assert rust == made.added and len(rust) >= 5 and rust <= {*other.nodes.tolist()}
    assert not any(new.name for new in found.discovery.new)
    assert f"part {other.number}, rust, " in table.to_text(found.new)
    columns = table.of_nodes(found.discovery, Names())
    assert (columns["cluster_name"] == "rust").sum() == len(other.nodes)
    # The rest of the cluster may have another name.
    found, made = labelled({str(mixed.number): "go", other.number: "rust"})
    go = {node for node, label in enumerate(made.label) if label == "go"}
    assert go and go <= {*one.nodes.tolist()} and {*made.label} == {"", *"abc", "go", "rust"}
    told = feedback.counts(found, made)
    assert told[0].startswith(f"cluster {other.number}: {len(rust)} training")
    assert told[1].startswith(f"cluster {mixed.number}: {len(go)} training")
    labelled({one.number: "go", other.number: "rust"})
    # Parts of one name are one class, so together they get no more labels than the cluster.
    whole = labelled({str(mixed.number): "go"})[1].added
    both = labelled({one.number: "go", other.number: "go"})[1].added
    assert abs(len(both) - len(whole)) <= 1
    parts = {"train": train[:1]}  # so few labels that the minimum of a class decides
    both = labelled({one.number: "go", other.number: "go"})[1].added
    assert 5 <= len(both) <= 6
    with pytest.raises(InputError, match=f"or of parts: {one.number}, {other.number}$"):
        labelled({"9z": "rust"})


@pytest.mark.usefixtures("few_numbers")
def test_a_column_of_numbers_beside_words(graph):
    p = posterior_of(graph)
    numbers = torch.randn(300, 1, generator=torch.Generator().manual_seed(0)) + 9 * (
        graph.y[:, None] == 4
    )
    mixed = Data(x=torch.cat([numbers - numbers.mean(), graph.x], 1), edge_index=graph.edge_index)
    columns = ["size", *(f"word{k}" for k in range(60))]
    found = analysis.analyse(mixed, p, Names(words=columns), "abc")
    words = analysis.analyse(graph, p, Names(words=columns[1:]), "abc")
    assert len(found.new) == len(words.new) == 3
    # The numbers are no words, of which the description consists.
    assert found.fits[1].words == pytest.approx(words.fits[1].words)
    assert {*chain.from_iterable(row.words for row in found.new)} <= {*columns[1:]}
    assert "size" not in page.map_data(found)["words"]
    assert representation.word_columns(mixed.x.numpy()).tolist() == [False] + [True] * 60
    mostly = torch.cat([graph.x[:, :2], graph.x - 0.5], 1).numpy()  # few features are words
    assert representation.word_columns(mostly).all()
    assert representation.word_columns(sp.csr_array(mixed.x.numpy())).tolist()[:2] == [False, True]


def test_columns_with_a_unit_are_numbers_even_if_all_have_one():
    x = np.random.default_rng(0).normal(size=(60, 3))
    x[:30, 1] += 9
    names = Names(words=["len", "age", "tall"], units={"age": Unit(2.0, 50.0), "len": Unit(1, 0)})
    group = (np.arange(60) >= 30).astype(int)
    (first, _) = typical_numbers(x, group, 2, names, 3)
    low, high = np.quantile(x[:30, 1] * 2 + 50, [0.25, 0.75])
    assert first == [f"age {low:.3g} to {high:.3g}"]
    assert described(x, names)[1].words == ["tall"]


@pytest.mark.usefixtures("few_numbers")
def test_a_cluster_of_one_value_of_a_category_is_told(graph):
    value = (graph.y[:, None] >= 4).float()
    mixed = Data(x=torch.cat([value, 1 - value, graph.x], 1), edge_index=graph.edge_index)
    columns = ["type=new", "type=old", *(f"word{k}" for k in range(60))]
    names = Names(words=columns)
    label = torch.where(graph.y < 3, graph.y, -1)
    found = analysis.analyse(mixed, posterior_of(graph), names, "abc", label=label, num_new=2)
    told = [line for line in found.lead if "type=new" in line]
    assert told and all("No labelled nodes have it." in line for line in told)
    assert not any("type=old" in line for line in found.lead)
    # A cluster with few of the nodes that have the value is no such cluster.
    common = mixed.clone()
    common.x[: len(value) // 2, 0] = 1
    groups = [torch.nonzero(graph.y == 5).ravel().numpy()]
    for x, told_values in ((mixed.x, {"type=new"}), (common.x, set())):
        values = shared_values(sp.csr_array(x.numpy()), groups, label.numpy(), names)
        assert {*values[0]} == told_values


def test_log_odds_by_hand():
    counts, others, prior = np.array([8.0, 1, 0]), np.array([2.0, 20, 5]), np.array([1.0, 2, 0.5])
    n, m, a0 = counts.sum(), others.sum(), prior.sum()
    for z, y, other, a in zip(log_odds(counts, others, prior), counts, others, prior):
        delta = np.log((y + a) / (n + a0 - y - a)) - np.log((other + a) / (m + a0 - other - a))
        assert z == pytest.approx(delta / np.sqrt(1 / (y + a) + 1 / (other + a)))


@pytest.mark.filterwarnings("error")
def test_words_that_set_blocks_apart(graph):
    def typical(x, group):
        found = typical_words(x, group, 6, Names(), 8)
        return [[int(word.removeprefix("feature ")) for word in own] for own in found]

    y, counts = graph.y.numpy(), graph.x.numpy()
    dense = counts - 0.5 + 0.1 * np.random.RandomState(0).randn(*counts.shape)
    for x in (counts, sp.csr_array(counts), dense):
        columns = typical(x, y)
        assert all({column // 10 for column in columns[k]} == {k} for k in range(6))
        assert x is dense or all(len(columns[k]) == 8 for k in range(6))
    columns = typical(dense, np.where(y == 1, 2, y))
    assert columns[1] == [] and columns[0], "a group without nodes has no words"


def test_a_named_cluster_of_several_classes_gives_a_warning(graph):
    def warned(num_new: int, **changes: Any) -> list[str]:
        found = find(graph, posterior_of(graph, sure=0.97), num_new).named({"1": "a name"})
        rows = [
            row._replace(cluster=dataclasses.replace(row.cluster, **changes))
            for row in analysed(graph, found).new
        ]
        assert table.on_named_mixtures(rows, {}) == []
        return table.on_named_mixtures(rows, {"1": "a name"})

    assert warned(3) == []  # one class each
    (warning,) = warned(1)
    assert warning.startswith("Cluster 1 has a name, but would be a leftover")
    (warning,) = warned(1, is_mixed=False, cohesion=0.5)
    assert warning.startswith("Cluster 1 is perhaps mixed")


def test_boilerplate_is_no_first_word_of_a_topic():
    """Nearly all nodes of two topics have the word 0; a fifth of one has the word 1 or 2."""
    group = np.repeat([0, 1, 2, 3, 4], 1000)
    x = np.zeros((5000, 43), dtype=np.float32)
    x[np.arange(5000), 3 + np.arange(5000) % 40] = 1  # words of all topics
    x[:1900, 0] = 1
    x[:200, 1] = 1
    x[1000:1200, 2] = 1
    log_odds_of_first = contrast(x, group, 5)[0]
    first, second, *_ = typical_words(x, group, 5, Names(), 2)
    assert log_odds_of_first[0] > log_odds_of_first[1] > 2
    assert first == ["feature 1", "feature 0"]
    assert second == ["feature 2", "feature 0"]


def analysed(graph: Data, found: clusters.Discovery, names: Names = Names()) -> analysis.Analysis:
    """An analysis of these clusters."""
    rows = table.rows(found, graph.x.numpy(), names)
    fits = {1: Fit(0.4, 1, 9), 3: Fit(0.5, 1, 9), 4: Fit(0.49, 1, 9)}
    label = torch.full((graph.num_nodes,), -1)
    return analysis.Analysis(graph, found, rows, names, fits, Evidence(), label)


def test_numbers_are_told_by_the_middle_half_of_a_group():
    draw = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 50)
    numbers = draw.normal(size=(150, 3))
    numbers[group == 1, 2] /= 20  # neither high nor low
    words = draw.integers(0, 2, (150, 5))  # no numbers, since none is negative
    names = Names(words=["age", "size", "price", *"abcde"])
    x = np.hstack([numbers, words])
    ends = np.quantile(numbers[group == 1, 2], [0.25, 0.75])
    low, high = (ends - numbers[:, 2].mean()) / numbers[:, 2].std()
    for matrix in (x, sp.csr_array(x)):
        found = typical_numbers(matrix, group, 3, names, 2)
        assert found == [[], [f"price {low:+.1f} to {high:+.1f} SD"], []]
    in_units = names._replace(units={"price": Unit(30.0, 500.0)})
    low, high = ends * 30 + 500
    assert typical_numbers(x, group, 3, in_units, 2)[1] == [f"price {low:.0f} to {high:.0f}"]
    assert typical_numbers(words, group, 3, names, 2) == [[], [], []]
    assert typical_numbers(x, group, 4, names, 2)[3] == []  # a group without nodes


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_empty_cells_are_no_numbers_of_a_group(form):
    """They are features of 0, the mean, and marked by another feature."""
    draw = np.random.default_rng(1)
    group = np.repeat([0, 1, 2], [300, 100, 100])
    is_empty = np.zeros((500, 2))
    is_empty[300:349, 0] = 1  # 49 of the second group
    is_empty[400:496, 0] = 1  # 96 of the third
    is_empty[group != 1, 1] = 1  # the others do not tell which numbers are typical
    numbers = draw.normal(size=(500, 2))
    numbers[group == 1, 0] = draw.uniform(1, 1.2, 100)
    numbers[is_empty == 1] = 0
    names = Names(words=["mag", "size", "mag is missing", "size is missing", "a"])
    names = names._replace(units={"mag": Unit(2.0, 13.0), "size": Unit(1.0, 0.0)})
    x = form(np.hstack([numbers, is_empty, np.ones((500, 1))]))
    low, high = 13 + 2 * np.quantile(numbers[349:400, 0], [0.25, 0.75])
    expected = [[], [f"mag {low:.1f} to {high:.1f}"], ["mag missing in 96 %"]]
    assert typical_numbers(x, group, 3, names, 2) == expected
    # Without the marks the mean is the number of most nodes.
    unmarked = names._replace(words=["mag", "size", *"abc"])
    assert typical_numbers(x, group, 3, unmarked, 2)[2] == ["mag 13.0"]


def test_a_number_that_all_nodes_lack_is_typical_of_no_group():
    x = np.array([[-1.0, 0, 1, 0]] + [[0.0, 1, 1, 0]] * 9)
    names = Names(words=["mag", "mag is missing", "a", "b"])
    group = np.arange(10) // 5
    assert typical_numbers(x, group, 2, names, 2) == [[], []]
    x[0, 1] = 1  # in the whole graph
    assert typical_numbers(x, group, 2, names, 2) == [[], []]


def test_quartiles_of_ranks_are_in_the_unit_of_the_table(graph, found):
    group = np.repeat([0, 1], [100, 50])
    ranks = (np.arange(100) + 0.5) / 100
    values = np.geomspace(0.1, 1e6, 100)
    feature = (ranks - 0.5) / 0.29
    learnt = {"values": values.tolist(), "ranks": ranks.tolist()}
    names = Names(words=[*"wab"], units={"w": Unit(0.29, 0.5, learnt)})
    x = np.stack([np.resize(feature, 150).astype(np.float32), group, group], 1)
    x[100:, 0] = np.repeat(x[[70, 75, 80, 99], 0], [10, 20, 18, 2])
    said = "w 20090 to 45350"  # the 75th and the 80th value
    assert typical_numbers(x, group, 2, names, 2)[1] == [said]
    rows = [row._replace(numbers=[said]) for row in analysed(graph, found).rows]
    assert f"  numbers, lower to upper quartile: {said}\n" in table.to_text(rows)
    # A graph whose recipe is unknown.
    (in_sd,) = typical_numbers(x, group, 2, Names(words=names.words), 2)[1]
    assert re.fullmatch(r"w \+\d\.\d to \+\d\.\d SD", in_sd)
    whole = analysed(graph, found)
    rows = [row._replace(numbers=[in_sd, said]) for row in whole.rows]
    meaning = "umbers, lower to upper quartile (SD: standard deviations from the mean):"
    assert f"  n{meaning} {in_sd}, {said}\n" in table.to_text(rows)
    assert f">N{meaning}</span> {in_sd}, {said}</p>" in page.render(
        "a", whole._replace(rows=rows), {}, {}, []
    )


def test_a_cluster_without_text_is_called_by_its_numbers(graph, found):
    texts = Names(words=[f"word {column}" for column in range(60)])
    row = analysed(graph, found, texts).new[0]
    assert row.has_text and row.heads == row.words
    categories = Names(words=[f"plot={column}" for column in range(60)])
    row = analysed(graph, found, categories).new[0]
    row = row._replace(numbers=["foot 1 to 2", "age 3 to 4", "size 5 to 6"])
    assert row.heads == ["foot 1 to 2", "age 3 to 4", *row.words]


def test_page_and_tables_are_whole_and_escaped(graph):
    texts = [f"{NASTY} {i}" for i in range(300)]
    names = Names(None, texts, [f"={NASTY}{i}" for i in range(60)], ["https://a.org/?q=1"] * 300)
    found = find(graph, posterior_of(graph), 3, [f"={NASTY}"] * 3).named({"1": NASTY})
    found.new[1] = clusters.replace(found.new[1], small=6)
    whole = analysed(graph, found, names)
    rows = whole.new
    commands = {"again": NASTY, "naming": NASTY}
    html = page.render(NASTY, whole, commands, {}, [NASTY])
    assert not re.search(r"<(link|iframe|script>alert)\b", html)
    assert unescape(html).count(NASTY) > 10 and "default-src 'none'" in html
    lines = list(csv.DictReader(table.to_csv(rows).splitlines()))
    assert [int(row["nodes"]) for row in lines] == [len(cluster.nodes) for cluster in found.new]
    assert all(line[key][0] == "'" for line in lines for key in ("words", "nearest_known_classes"))
    assert not any(row.leftover for row in rows)
    size = len(found.new[2].nodes)
    found.new[2] = clusters.replace(found.new[2], small=size, has_few_links=True)
    assert analysed(graph, found).new[2].leftover.startswith("most of its nodes are in comp")
    assert [row["in_small_components"] for row in lines] == ["0", "6", "0"]
    assert "cluster 1, <script>" in table.to_text(rows)
    assert "stability and words suggest 3 new clusters. 4 fits" in html
    assert html.index("<details>") < html.index("conductance")


@pytest.mark.usefixtures("few_numbers")
def test_known_classes_on_the_page(graph):
    """A class that is split in two is there, and what is known of the others."""
    found = find(graph, posterior_of(graph), 3, ["a", "b", "class 0"])
    whole = found.new[[int(graph.y[c.nodes[0]]) for c in found.new].index(5)]
    half = clusters.replace(whole, number=4, nodes=whole.nodes[::2])
    cluster = found.cluster + (found.cluster == 6)
    cluster = cluster.index_fill(0, half.nodes, 6)
    halved = analysed(graph, clusters.replace(found, cluster=cluster, new=[*found.new, half]))
    assert f"cluster 4: {', '.join(halved.new[-1].words)}" in table.to_text(halved.new)
    judged = {"a": {"labels": 9, "right": 4}, "b": {"labels": 8, "right": 4}}
    run = {"method": "srnc_plus", "backbone": "gcnconv", "labels": {"0": {"source": 3}}}
    run["labels"] |= {name: {"source": 20} for name in "ab"}
    share = {"accuracy": 0.5, "low": 0.3, "high": 0.7}
    as_known = share | {"accuracy": 0.4}
    run["held_out"] = {"labels": 17, "of": 17, **share, "as_known": as_known}
    alone = {"linear": share | {"p_value": 1.0}}
    run["held_out"] |= {"alone": alone, "classes": judged}
    html = page.render("t", halved, {"again": ""}, run, ["few!"])
    below = html.partition('<table id="known">')[2].partition("</table>")[0]
    rows = re.findall(r"<tr><td class=\"text\">(.*?)</td>(.*?)</tr>", below, re.DOTALL)
    known = {name: " ".join(re.sub("<[^>]*>", " ", cells).split()) for name, cells in rows}
    assert known["a"].startswith("20 4 of 9 below half ") and known["b"].startswith("20 4 of 8 ")
    assert known["class 0"].startswith("3 too few ") and "below" not in known["b"]
    assert "Accuracy on 17 labels that the models had not learned. SRNC+ minus the best" in html
    assert "In the last row" in html
    shown = html.partition('<table id="accuracy">')[2].partition("</table>")[0]
    cells = re.findall(r"<td.*?>(.*?)</td>", shown)
    assert cells[:3] == ["SRNC+", "50.0 %", "30.0 to 70.0"] and cells[-2] == "40.0 %"
    assert "few!</p>" in html and "too few</strong>" in html


def test_names_of_nodes_and_columns():
    names = Names(["a", "b_1"], ["one, and more", "B 1\nB 1 b 1: the text"], ["x", "y", "z"])
    assert shown_node(names, 0) == (0, "a", "one, and more", "")
    long = "this text goes on " * 4
    assert shown_node(Names(["a"], [long]), 0)[2:] == ("", long.strip())
    assert shown_node(names, 0).line == "a: one, and more"
    assert shown_node(names, 1) == (1, "b_1", "B 1", "the text")
    assert shown_node(names, 1).line == "B 1: the text"
    titled = shown_node(Names(["P7"], ["A title\nand a text"]), 0)
    assert titled == (0, "P7", "A title", "and a text") and titled.line == "P7: A title: and a text"
    passage = " ".join(["a passage"] * 25)  # too long for a title
    assert shown_node(Names(["P7"], [f"{passage}\nPaul"]), 0)[2:] == ("", f"{passage} Paul")
    assert shown_node(Names(["a"], ["apples"]), 0).line == "a: apples"  # no repetition of an id
    assert shown_node(Names(["Tea"], ["tea, a drink"]), 0)[2:] == ("tea", "a drink")
    assert column_name(names, 2) == "z" and column_name(Names(), 2) == "feature 2"
    categories = ["team=The Café Team", "free=yes", "t=a=b c d e f g", "w" * 99]
    shown = [column_name(Names(words=categories), column) for column in range(4)]
    assert shown == ["The Café Team", "free=yes", "a=b c d e", "w" * 31 + "…"]
    assert shown_node(Names(), 1).line == "node 1"
    assert shown_node(Names([""], ["(a text"]), 0).line == "(a text"  # an empty id starts no text
    assert shown_node(Names(None, ["word " * 99]), 0).line.endswith(" word w…")
    assert shown_node(Names(None, ["\x1b[31mred"]), 0).line == "node 0: ?[31mred"


@pytest.mark.parametrize(
    "word",
    [
        *("x=a", "-1=a", "1", "1=", "1=7", "1=unknown", "1=a\x07b", "2=again", "01=a", "1ab=a"),
        "1=" + "a" * 101,
    ],
)
def test_bad_names(word):
    with pytest.raises(InputError, match="names"):
        feedback.parse_names(["2=fine", word])


@pytest.mark.parametrize("wrong", ["0", "4", "1a"])
def test_a_name_of_no_cluster_is_refused(wrong, found):
    with pytest.raises(InputError, match="names: got .*; allowed: numbers of new .* from 1 to 3"):
        found.named({wrong: "a"})


def test_named_clusters_are_classes_of_the_next_run(graph, found, tmp_path):
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    y = graph.y.clamp(max=3)
    train = torch.cat([order[y[order] == k][:5] for k in range(3)])
    rest = order[~torch.isin(order, train)]
    parts = {"train": train, "val": rest[:60], "test": rest[60:140]}
    names = feedback.parse_names(["1=graph, theory", " 2 = biology"])
    made = feedback.labels(found.named(names), parts, y)
    label, split = map(np.array, (made.label, made.split))
    # As large a share of the cluster gets labels as of the nodes predicted as known.
    known = int((found.label < 3).sum())
    free = [
        node for node in found.new[0].nodes.tolist() if node not in torch.cat([*parts.values()])
    ]
    wanted = (
        max(5, round(15 / known * len(free))),
        round((y[rest[:60]] < 3).sum().item() / known * len(free)),
    )
    (told, *_) = feedback.counts(found.named(names), made)
    labelled = "{} training and {} validation nodes got the label graph, theory".format(*wanted)
    assert told == f"cluster 1: {labelled}"
    assert (split[train] == "train").all()
    first = np.flatnonzero(label == "graph, theory")
    assert ((split[first] == "train").sum(), (split[first] == "val").sum()) == wanted
    assert all(int(found.cluster[node]) == 3 for node in first)
    # Of all labels that names of clusters gave, the least unknown nodes are printed.
    _, _, *lines = feedback.least_certain(found.named(names), made)
    least = [int(line.split()[1]) for line in lines]
    others = made.added.difference(least)
    doubt = found.seeds.doubt
    assert len(least) == 5 and {*least} <= made.added
    assert max(doubt[least]) <= min(doubt[[*others]])
    assert all(f"{doubt[node]:.2f}" in line for node, line in zip(least, lines))
    one = feedback.Labels(made.label, made.split, {least[0]}, [least[0]])
    assert feedback.least_certain(found.named(names), one) == []
    # They lie at equal distances in the more typical half.
    half = -(-len(free) // 2)
    gaps = np.diff([-1, *np.flatnonzero(np.isin(free, first)), half])
    assert gaps.min() >= 0 and gaps.max() <= 1.5 * half / len(first) + 1
    # Unknown nodes that the user knows of stay unknown, but for those inside a named cluster.
    unknown = np.flatnonzero(label == "unknown")
    assert len(unknown)
    assert all(int(found.cluster[node]) not in (3, 4) and int(y[node]) == 3 for node in unknown)

    folder = tmp_path / "next"
    (tmp_path / "recipe.json").write_text('{"text": {"columns": ["title"]}}')
    named = Names(None, [NASTY] * graph.num_nodes, None)
    # Without validation nodes all of them train, and the folder needs no split.
    alone = feedback.labels(found.named(names), {"train": train}, y)
    assert {*alone.split} == {"", "train"}
    new = [alone.label.count(name) for name in ("graph, theory", "biology")]
    assert min(new) >= 5
    feedback.write(tmp_path / "alone", graph, alone)
    assert not (tmp_path / "alone" / "split.csv").exists()
    task = shifts.find("file")(path=str(tmp_path / "alone"), labels_per_class=-1, num_test=0)
    assert task.val_may_teach and len(task.train) + len(task.val) == len(train) + sum(new)

    parent = {"run": "results/one", "held_out": {"n": 40, "accuracy": 0.7}}
    feedback.write(folder, graph, made, named, source=tmp_path, parent=parent)
    assert graph_folder.parent(folder) == parent and graph_folder.parent(tmp_path) == {}
    feedback.write(folder, graph, made, named, True, tmp_path)  # replaces its own folder
    assert graph_folder.parent(folder) == {}
    assert (folder / "recipe.json").read_text() == '{"text": {"columns": ["title"]}}'
    assert not list(tmp_path.glob(".*"))
    task = shifts.find("file")(path=str(folder))
    assert task.class_names == ("a", "b", "biology", "c", "graph, theory")
    assert task.open_set and torch.equal(task.target.x, graph.x)
    second = ((label == "biology") & (split == "train")).sum()
    assert torch.bincount(task.source.y[task.train]).tolist() == [5, 5, second, 5, wanted[0]]
    assert set(task.test.tolist()) == set(np.flatnonzero(split == "test").tolist())
    for taken in (folder, tmp_path / "none" / "below"):
        with pytest.raises(InputError, match="labels_out"):
            feedback.write(taken, graph, made)
    (tmp_path / "recipe.json").write_text("{")
    with pytest.raises(InputError, match="recipe.json: it is not a readable recipe"):
        feedback.write(tmp_path / "other", graph, made, named, source=tmp_path)


def test_the_next_graph_keeps_weights_of_edges(graph, found, tmp_path):
    weighted = graph.clone()
    weighted.edge_weight = 0.5 + weighted.edge_index.sum(0) % 3
    label = ["ab"[node % 2] for node in range(300)]
    feedback.write(tmp_path / "g", weighted, feedback.Labels(label, [""] * 300, set()))
    task = shifts.find("file")(path=str(tmp_path / "g"))
    wanted, got = (
        to_dense_adj(one.edge_index, edge_attr=one.edge_weight) for one in (weighted, task.target)
    )
    assert torch.equal(got, wanted) and wanted.unique().tolist() == [0, 0.5, 1.5, 2.5]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A small finished run of open-set shift, made as a user makes it."""
    folder = tmp_path_factory.mktemp("run")
    words = (
        "run --name one --no-figures --no-tensorboard gnn.dim_inner 16 train.max_episodes 2"
        " synthetic.num_nodes 400 synthetic.num_classes 5 synthetic.num_val 80"
        " synthetic.num_test 120 synthetic.num_features 100 srnc.steps 40"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(words.split()) == 0
    return folder


def _assert_that_checked_labels_are_not_listed_again(words, capsys):
    rows = pandas.read_csv("d.csv", dtype=str)
    first = rows.index[rows["given_label"] != "unknown"][0]
    checked = rows.loc[[first], ["node"]].assign(new_label=rows["given_label"][first])
    checked.to_csv("checked.csv", index=False)
    again = ["discover", "results/labels", "--labels", "checked.csv", "--labels-out", "again"]
    assert main(again) == 0
    origins = pandas.read_csv("again/labels.csv").set_index("node").origin
    assert origins[int(rows["node"][first])] == "checked" and "discovered" in {*origins}
    judged = json.loads(Path("results/labels/0/result.json").read_text())["held_out"]["labels"]
    same = graph_folder.parent(Path("again"))["unchanged"]
    assert same["labels"] == judged  # none of those of clusters
    shutil.copy("again/labels.csv", "labels/labels.csv")  # the run is as if trained on these
    capsys.readouterr()
    assert main([*words, "--overwrite"]) == 0
    assert "disagrees with 1 more label that you have checked" in capsys.readouterr().out
    left = pandas.read_csv("d.csv", dtype=str)
    assert left["node"].tolist() == rows["node"].drop(first).tolist()


@pytest.mark.usefixtures("few_numbers")
def test_from_a_run_to_the_next_one(run, monkeypatch, unchanged_globals, capsys):
    monkeypatch.chdir(run)
    words = ["discover", "results/one", "--new", "2"]
    assert main([*words, "--name", "1==cmd", "--nodes", "nodes.csv", "--out", "named.html"]) == 0
    told = capsys.readouterr().out
    assert "cluster 1, =cmd:" in told and "--name 1==cmd" in told and "--labels-out NEXT" in told
    assert "Links, stability and words suggest" in told
    nodes = csv_rows("nodes.csv")
    assert {row["cluster_name"] for row in nodes if row["cluster"] == "1"} == {"'=cmd"}
    html = (run / "named.html").read_text()
    assert "Cluster 1, =cmd" in html and "Name the clusters" in html

    written = "--csv table.csv --labels-out labels --name".split()
    assert main([*words, *written, "1=new things", "--name", "2=new things"]) == 0
    out, err = capsys.readouterr()
    assert "newness" not in out and len(out.splitlines()) <= 20  # the report was read before
    run_again = "  graphgym-srnc run --cfg own --name labels dataset.name labels"
    still, closed = (line for line in out.splitlines() if " run --cfg own --name labels" in line)
    assert closed == still.replace("labels", "labels-closed", 1) + " file.open_set False"
    assert "The least certain of these labels" in out and "add --labels:" in out
    kept = dict(zip(*[iter(still.removeprefix(run_again).split())] * 2))
    assert kept["gnn.dim_inner"] == "16" and kept["train.max_episodes"] == "2"
    assert not any(key.startswith(("synthetic", "file", "dataset", "out_dir")) for key in kept)
    assert main([*still.split()[1:], *NO_PICTURES]) == 0  # as it is printed
    words = ["predict", "results/labels", "--out", "p.csv", "--disagreements", "d.csv"]
    assert main(words) == 0
    origins = pandas.read_csv("labels/labels.csv").set_index("node").origin
    for row in csv_rows("d.csv"):
        assert row["origin"] == origins[int(row["node"])]
    parent = graph_folder.parent(run / "labels")
    unknown = [row["class"] for row in nodes].count("unknown")
    same = parent.pop("unchanged")
    assert same["labels"] > 20 and 0 <= same["low"] < same["accuracy"] <= 1
    changed = parent.pop("changed")
    assert changed == sorted(origins.index[origins == "discovered"])
    named = parent.pop("named")
    assert {*named} == {"new things"} and len(named["new things"]) > 20
    assert parent == {"run": "results/one", "unknown": unknown, "nodes": 400, "skipped": 0}
    assert "labels" in capsys.readouterr().out
    assert "wrote labels" in out and "wrote table.csv" in out
    assert "Warning" not in err and len(list(csv.reader((run / "table.csv").open()))) == 3
    task = shifts.find("file")(path=str(run / "labels"))
    assert "new things" in task.class_names and task.num_known == 4 and task.open_set
    new = task.source.y[torch.cat([task.train, task.val])] == task.class_names.index("new things")
    assert task.info["labels from discover"] == int(new.sum()) > 0
    (run / "labels" / "words.txt").write_text("".join(f"word{k}\n" for k in range(100)))
    assert main(["discover", "results/one", "--graph", "labels"]) == 0
    assert ": word" in capsys.readouterr().out
    _assert_that_checked_labels_are_not_listed_again(words, capsys)


def test_labels_keep_where_they_came_from():
    label = ["a"] * 7
    made = feedback.Labels(label, ["train"] * 7, {6}, corrected=[1, 2, 3, 4], typed={4})
    before = {1: "checked", 2: "discovered", 3: "added", 5: "discovered"}
    assert feedback.origins(made, before) == {
        1: "checked",
        2: "added",  # it was chosen for its cluster
        3: "added",
        4: "added",  # it had no label
        5: "discovered",
        6: "discovered",
    }
    assert feedback.origins(made._replace(corrected=[0]), {})[0] == "checked"


@pytest.mark.usefixtures("few_numbers")
def test_a_run_that_abstains_still_has_candidates(tmp_path, monkeypatch, unchanged_globals, capsys):
    """Few labels are no significant evidence, so SRNC+ predicts no node as unknown."""
    monkeypatch.chdir(tmp_path)
    graph = planted(4, 60)
    label = ["ab"[y] if y < 2 and i % 20 == 0 else "" for i, y in enumerate(graph.y.tolist())]
    feedback.write(tmp_path / "g", graph, feedback.Labels(label, [""] * 240, set()))
    words = "run --cfg own --name few --no-figures --no-tensorboard dataset.name g gnn.dim_inner 16"
    keys = " srnc_plus.rounds 1 srnc_plus.steps 8 srnc_plus.fit_steps 3 srnc_plus.cluster_steps 3"
    assert main((words + keys).split()) == 0
    *_, command = capsys.readouterr().out.splitlines()
    command, _, purpose = command.partition("  # ")
    assert purpose == "predicts unknown nodes without a clear sign of them"
    assert command == (
        "  graphgym-srnc run --cfg own --name few-unknown dataset.name g gnn.dim_inner 16"
        f"{keys} srnc_plus.abstain False"
    )
    assert main([*command.split()[1:], *NO_PICTURES]) == 0
    assert "# predicts" not in capsys.readouterr().out
    verdict = records.read_results(tmp_path / "results/few-unknown")[0]["verdict"]
    assert verdict["figures"]["unknown_share"] > 0
    assert main(["discover", "results/few", "--out", "few.html", "--nodes", "few.csv"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    evidence = r"The labels give no significant evidence .* \(p = 0\.\d+; .*\)\. "
    assert re.fullmatch(evidence + "6 labels may not show a class below 54 % .*", first)
    said = "The model predicts no node as unknown. Candidates for new classes: "
    assert second.startswith(said) and "unusually few labels" in second
    page = (tmp_path / "few.html").read_text()
    # What the first sentence says is not said again.
    assert page.count("so no node is predicted as unknown") == 0
    assert page.count("labels may not show") == 1
    assert page.index(first.partition("(")[0]) < page.index("<h2>")
    nodes = csv_rows("few.csv")
    assert {row["class"] for row in nodes} == {"a", "b"} and any(
        row["cluster"] == "1" for row in nodes
    )


@pytest.mark.usefixtures("few_numbers")
def test_a_table_of_all_nodes(graph, found):
    named = Names([f"n{i}" for i in range(300)], ["text"] * 300, None)
    columns = table.of_nodes(found.named({"1": "new art"}), named, clusters.layout(found))
    heads = "node id text x y class p_unknown cluster part cluster_name newness typical"
    assert list(columns) == heads.split()
    new = found.new[0]
    assert {columns["cluster"][node] for node in new.nodes.tolist()} == {1}
    assert (columns["cluster"] == 1).sum() == len(new.nodes)
    assert (columns["cluster_name"] == "new art").sum() == len(new.nodes)
    assert columns["newness"][int(new.nodes[0])] == new.newness
    assert columns["cluster_name"][int(found.known[1].nodes[0])] == "b"
    assert columns["p_unknown"].tolist() == found.posterior[:, -1].tolist()


@pytest.mark.usefixtures("few_numbers")
@pytest.mark.parametrize(
    "words, named",
    [
        ("nowhere", "RUN"),
        ("results/one --clusters 3", "--clusters: got 3; allowed: 4 or more"),
        ("results/one --clusters 6 --new 2", "--new: it is given beside"),
        ("results/one --new 9999", "--new: got 9999; allowed: 1 to 1"),
        ("results/one --labels-out new", "--labels-out"),
        ("results/one --nodes nodes.txt", "--nodes"),
        ("results/one --out nowhere/page.html", "--out"),
        ("results/one --name 99=a --labels-out new", "--name"),
    ],
)
def test_bad_input_in_one_line(run, capsys, monkeypatch, unchanged_globals, words, named):
    monkeypatch.chdir(run)
    before = {*run.rglob("*")}
    assert named in refusal(main(["discover", *words.split()]), capsys)
    assert {*run.rglob("*")} == before


@pytest.mark.parametrize(
    "text, ids, labels",
    [
        ("node,id,new_label\n1,'=b,go\n2,,rust\n", ["a", "=b", "c"], {1: "go", 2: "rust"}),
        # As pandas writes added rows.
        ("node,id,new_label\n1.0,,go\n,c,rust\n", ["a", "=b", "c"], {1: "go", 2: "rust"}),
        ("node,id,new_label\n1.0,,go\n,c,rust\n", ["7", "8", "c"], {1: "go", 2: "rust"}),
        ("id,new_label\n8.0,go\n,\n", ["7", "8", "c"], {1: "go"}),
        ("code,why,new_label\na,sure,go\nc,,rust\n", ["a", "b", "c"], {0: "go", 2: "rust"}),
    ],
)
def test_a_table_of_labels_names_nodes_by_number_or_by_id(text, ids, labels, tmp_path):
    (tmp_path / "labels.csv").write_text(text)
    assert feedback.read_labels(tmp_path / "labels.csv", ids, 3)[0] == labels


@pytest.mark.parametrize(
    "text, told",
    [
        ("node,id,new_label\n,,go\n", "a row with a label names no node"),
        ("node,id,new_label\n1,c,go\n", "node 1 has the id b, not c"),
        ("code,new_label\nx,go\n", "no column holds ids of the graph; its columns are code"),
        ("code,other,new_label\na,b,go\n", "its columns are code, other and new_label"),
        ("id,label\na,go\n", "has no column new_label; its columns are id and label"),
    ],
)
def test_a_table_of_labels_that_names_no_node_is_refused(text, told, tmp_path):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(InputError, match=told):
        feedback.read_labels(tmp_path / "labels.csv", ["a", "b", "c"], 3)


@pytest.mark.usefixtures("few_numbers")
def test_discovery_from_python(graph, tmp_path):
    own = graph.clone()
    own.y = [("a", "b", "c")[k] if k < 3 else "" for k in graph.y.tolist()]
    own.train_mask = torch.tensor([bool(label) and i % 2 == 0 for i, label in enumerate(own.y)])
    own.ids = [f"n{node}" for node in range(graph.num_nodes)]
    numbers = {"columns": ["age"], "mean": [30.0], "std": [9.0]}
    own.recipe = {"numbers": numbers, "scales": [2.0]}
    model = ERM(hidden=16, steps=30, open_set=True).fit(own)
    found = discover(model, own, 5)
    assert (found.nodes().cluster.value_counts()[[1, 2]] == found.frame().nodes).all()
    frame = found.frame()
    assert frame.index.tolist() == [1, 2] and {*frame.columns} >= {"nodes", "newness", "words"}
    assert found.analysis.names.units == {"age": Unit(18.0, 30.0)}
    assert {*frame.typical[1]} <= {*own.ids} and "2 new clusters beside 3" in repr(found)
    found.html(tmp_path / "page.html")
    assert "New classes" in (tmp_path / "page.html").read_text("utf-8")
    made = found.labelled({2: "rust"})
    rust = [node for node, label in enumerate(made.y) if label == "rust" and made.train_mask[node]]
    assert {*rust} <= {*found.clusters.new[1].nodes.tolist()} and 5 <= len(rust)
    assert made.train_mask[own.train_mask].all() and own.y.count("rust") == 0
    assert made.chosen_mask.nonzero().ravel().tolist() == rust
    assert "val_mask" not in made  # or it would have nodes of the new class alone
    every = np.arange(own.num_nodes)
    assert model.score(own, model.predict(own), every) == 1  # "unknown" is a class here
    assert "rust" in ERM(hidden=8, steps=2, open_set=True).fit(made).classes_
    mixed = replace(found.analysis.rows[3].cluster, is_mixed=True)
    rows = [*found.analysis.rows[:3], found.analysis.rows[3]._replace(cluster=mixed)]
    loose = replace(found, analysis=found.analysis._replace(rows=rows))
    with pytest.warns(ShiftWarning, match="Cluster 1 has a name, but would be a leftover: its nod"):
        loose.labelled({1: "rust"})
    for names in ({99: "rust"}, {1: "unknown"}):
        with pytest.raises(InputError, match="^names"):
            found.labelled(names)
    with pytest.raises(InputError, match="^num_clusters: got '3'; allowed: int"):
        discover(model, own, "3")
    with pytest.raises(InputError, match="^model: it is a Data. Give a fitted estimator and then"):
        discover(own, model)
    with pytest.raises(InputError, match="^names: it is a list. Give the class by number"):
        found.labelled(["travel"])
    with pytest.raises(InputError, match="^path: .* folder that exists"):
        found.html(tmp_path / "no" / "page.html")
    closed = discover(ERM(hidden=8, steps=20, open_set=False).fit(own), own, num_new=1)
    assert "trained without an unknown class" in repr(closed) and len(closed.frame()) == 1
    (cluster,) = closed.clusters.new
    assert not own.train_mask[cluster.nodes].any() and not closed.clusters.seeds.predicted
    with pytest.raises(InputError, match="^num_new: it is given beside the number of all"):
        discover(model, own, 5, 2)


def test_web_addresses_from_a_table_to_the_page(tmp_path, monkeypatch, capsys, unchanged_globals):
    monkeypatch.chdir(tmp_path)
    nodes = ["id,label,link,title", "a,x,https://a.org/1,tea pot", "b,y,,tea cup"]
    nodes += ["c,x,http://a.org/3?q=1,cup pot", "d,y,https://a.org/4,pot"]
    Path("nodes.csv").write_text("\n".join(nodes) + "\n")
    Path("links.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    words = "data make nodes.csv links.csv --text title --min-nodes 1 --out".split()
    assert main([*words, "plain"]) == 0
    assert of_folder(tmp_path / "plain").urls is None
    assert main([*words, "linked", "--url", "link"]) == 0
    told = capsys.readouterr().out
    assert "web addresses from link" in told
    assert of_folder(tmp_path / "linked").urls == [
        "https://a.org/1", "", "http://a.org/3?q=1", "https://a.org/4"
    ]  # fmt: skip
    assert "no column 'none'" in refusal(main([*words, "no", "--url", "none"]), capsys)
    told = refusal(main([*words, "no", "--url", "title"]), capsys)
    assert "no web address in 4 of 4 cells of the column title (line 2: 'tea pot')" in told
    nodes[1] = nodes[1].replace("https", "ftp")
    Path("nodes.csv").write_text("\n".join(nodes) + "\n")
    assert main([*words, "part", "--url", "link"]) == 0
    told = capsys.readouterr().out
    assert "no web address in 1 of 3 cells of the column link (line 2: 'ftp://a.org/1')" in told
    assert "ftp" not in (tmp_path / "part" / "nodes.csv").read_text()
    assert of_folder(tmp_path / "part").urls == ["", "", "http://a.org/3?q=1", "https://a.org/4"]
    # A folder may come from a stranger.
    table_of_nodes = tmp_path / "linked" / "nodes.csv"
    table_of_nodes.write_text(table_of_nodes.read_text().replace("https://a.org/4", "javascript:1"))
    assert of_folder(tmp_path / "linked").urls[3] == ""


KNOWN = ["Food", "Fine art", "class 10", "Sports", "silky pocket mouse"]


@pytest.mark.parametrize(
    "name, near",
    [
        ("Fod", "Food"),
        ("food", "Food"),
        ("fine  art", "Fine art"),
        ("Spotrs", "Sports"),
        ("Foood", "Food"),
    ],
)
def test_a_new_class_with_nearly_the_name_of_another_gives_a_warning(name, near):
    made = feedback.Labels(["Food", name, "", "unknown", name], [""] * 5, set())
    (warning,) = feedback.on_near_names(made, KNOWN)
    assert f"{name!r} (2 labels) becomes a new class. Did you mean {near!r}?" in warning


@pytest.mark.parametrize(
    "name", ["Sports", "Wood carving", "class 11", "Art", "unknown", "Bailey's pocket mouse"]
)
def test_a_class_with_another_name_gives_no_warning(name):
    made = feedback.Labels(["Food", name], [""] * 2, set())
    assert feedback.on_near_names(made, KNOWN) == []


def test_new_classes_with_nearly_one_name_give_a_warning():
    made = feedback.Labels(["Music", "Music", "Musik"], [""] * 3, set())
    (warning,) = feedback.on_near_names(made, KNOWN)
    assert warning.startswith("'Musik' (1 label)") and "'Music'?" in warning
