"""Shift over time: labels, graphs inside graphs, and the graph on the years of ogbn-arxiv."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import written
from conftest import refused
from torch_geometric.utils import is_undirected
from written import decided_by_its_seed, unreachable

from graphgym_srnc import shifts
from graphgym_srnc.data import arxiv_like, datasets
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits
from graphgym_srnc.shifts.temporal import BOUNDS

temporal = shifts.find("temporal")
SMALL = {"name": "arxiv_like", "scale": 0.02}


def edges(graph, nodes) -> set[tuple[int, int]]:
    """Edges among some nodes, with each node's number among them."""
    place = nodes.cumsum(0) - 1
    return set(zip(*place[graph.edge_index[:, nodes[graph.edge_index].all(0)]].tolist()))


@pytest.fixture
def arxiv(tmp_path):
    """A writer of small files of ogbn-arxiv, a ring of papers; returns their root."""

    def write(years: list[int], classes: int = 3) -> str:
        order = np.arange(len(years))
        ring = np.stack([order, (order + 1) % len(years)], 1)
        labels = order % classes
        return str(
            written.arxiv(tmp_path / "data", np.eye(len(years)), ring, labels, np.array(years))
        )

    datasets.load.cache_clear()
    yield write
    datasets.load.cache_clear()


def test_bounds():
    decided_by_its_seed(temporal, **SMALL)
    fewest = temporal(name="arxiv_like", scale=0.001)
    assert len(fewest.source.y[fewest.train].unique()) == 40  # of two nodes each
    task = temporal(**SMALL, period=3)
    source_end, val_end, *_, begin, end = BOUNDS["srnc"]
    source = task.source
    validation = task.validation
    target = task.target
    last = [int(graph.node_year.max()) for graph in (source, validation, target)]
    assert last == [source_end, val_end, end]
    for nodes, first, graph in ((task.val, source_end, validation), (task.test, begin, target)):
        assert torch.equal(nodes, (graph.node_year > first).nonzero().view(-1))
    assert torch.equal(task.pool, (target.node_year > source_end).nonzero().view(-1))
    assert torch.isin(task.test, task.pool).all()
    everything = torch.cat([task.train, task.source_val]).sort().values
    assert torch.equal(everything, torch.arange(source.num_nodes))
    assert len(task.source_val) == round(0.2 * source.num_nodes)
    assert (task.num_known, task.open_set, len(task.class_names)) == (40, False, 40)
    assert task.name == f"temporal/arxiv_like/{begin + 1}-{end}"


def test_each_graph_is_induced_on_the_next_one():
    one, three = (temporal(**SMALL, period=period) for period in (1, 3))
    for small, large in ((one.source, one.validation), (one.validation, one.target)):
        nodes = large.node_year <= small.node_year.max()
        assert torch.equal(small.x, large.x[nodes]) and torch.equal(small.y, large.y[nodes])
        assert set(zip(*small.edge_index.tolist())) == edges(large, nodes)
        assert is_undirected(small.edge_index)
    assert torch.equal(one.source.x, three.source.x) and torch.equal(one.train, three.train)
    assert torch.equal(one.source_val, three.source_val) and torch.equal(one.val, three.val)


def test_oracle_labels_half_of_the_period():
    task = temporal(**SMALL, period=3)
    oracle = task.oracle
    old = (oracle.target.node_year <= 2010).nonzero().view(-1)
    assert oracle.source is oracle.target
    assert torch.equal(oracle.target.edge_index, task.target.edge_index)
    of_period = oracle.train[torch.isin(oracle.train, task.test)]
    assert set(oracle.train.tolist()) == {*old.tolist(), *of_period.tolist()}
    assert len(oracle.train) == len(old) + len(task.test) // 2
    parts = torch.cat([of_period, oracle.val, oracle.test]).sort().values
    assert torch.equal(parts, task.test) and len(oracle.val) == -(-len(task.test) // 10)


def test_the_whole_histogram_is_that_of_the_paper():
    year, label = arxiv_like.years_and_labels(1.0, 2010, splits.generator(0, "classes"))
    assert len(year) == 169_343 and len(set(arxiv_like.CLASS_NAMES)) == 40
    periods = np.bincount(np.searchsorted(BOUNDS["srnc"], year))  # as the paper states
    assert periods.tolist() == [12_974, 28_151, 28_374, 51_241, 48_603]
    found = np.zeros_like(arxiv_like.COUNTS)
    np.add.at(found, (label, np.searchsorted(arxiv_like.YEARS, year)), 1)
    assert (found == arxiv_like.COUNTS).all()
    names = [f"cs.{name}" for field in arxiv_like.FIELDS for name in field.split()]
    assert sorted(names) == sorted(arxiv_like.CLASS_NAMES)


def test_papers_cite_earlier_ones_of_their_own_kind():
    rng = splits.generator(0, "classes")
    graph = arxiv_like.arxiv_like(*arxiv_like.years_and_labels(1 / 8, 2010, rng), rng)
    citing, cited = graph.edge_index
    assert (graph.node_year[citing] >= graph.node_year[cited]).all() and (citing != cited).all()
    pairs = set(zip(citing.tolist(), cited.tolist()))
    assert len(pairs) == graph.num_edges and not pairs & {(b, a) for a, b in pairs}
    same_class = graph.y[citing] == graph.y[cited]
    assert float(same_class.float().mean()) == pytest.approx(0.64, abs=0.03)
    assert 2 * graph.num_edges / graph.num_nodes == pytest.approx(12.8, abs=0.6)
    lag = (graph.node_year[citing] - graph.node_year[cited]).float()
    assert 1 < float(lag.mean()) < 4 and float((lag <= 3).float().mean()) > 0.6
    assert len(graph.y.unique()) == 40 and graph.x.shape[1] == 128 and torch.isfinite(graph.x).all()
    incoming = torch.bincount(cited, minlength=graph.num_nodes)
    assert incoming.max() > 20 * incoming.float().mean()


def test_real_files_keep_their_years(arxiv):
    papers = {2005: 30, 2012: 20, 2013: 10, 2015: 12, 2016: 8, 2018: 15, 2020: 5}
    root = arxiv([year for year, count in papers.items() for _ in range(count)])
    task = temporal(name="ogbn-arxiv", root=root)
    sizes = task.source.num_nodes, len(task.val), len(task.test), task.target.num_nodes
    assert sizes == (30, 30, 20, 80)
    assert task.num_known == 3 and task.class_names == () and task.info["cleaned"]["one_way"] == 100
    assert task.source.num_edges == 2 * 29
    assert len(temporal(name="ogbn-arxiv", root=root, period=3).test) == 5
    with pytest.raises(InputError, match="temporal.scale.*only arxiv_like"):
        temporal(name="ogbn-arxiv", root=root, scale=0.5)


def test_transactions_of_no_class_have_no_label(tmp_path):
    written.networks(tmp_path)
    one, two = (
        temporal(name="elliptic", root=str(tmp_path), split="elliptic", period=i) for i in (1, 2)
    )
    assert (one.num_known, one.open_set, one.name) == (2, False, "temporal/elliptic/37-42")
    steps = [task.target.node_year[task.test].unique().tolist() for task in (one, two)]
    assert steps == [[40], [45]]
    assert one.validation.node_year[one.val].unique().tolist() == [35]
    made = written.graph(120, 3, 6)
    assert torch.equal(two.target.y, made.y.masked_fill(made.y == 2, -1))
    assert torch.allclose(two.target.x, made.x) and two.target.num_edges == made.num_edges
    assert len(two.pool) == 90 and (two.source.y[two.train] >= 0).all()


def test_a_class_without_a_source_node_is_refused(arxiv):
    root = arxiv([2005] * 4 + [2013] * 20 + [2016] * 20, classes=5)
    with pytest.raises(InputError, match="train: the labels of training nodes are 0, 1, 2 and 3"):
        temporal(name="ogbn-arxiv", root=root)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"split": "gnnsafe"}, "temporal.split.*srnc, elliptic"),
        ({"period": 4}, r"temporal.period.*1 \(2015-2016\), 2 \(2017-2018\), 3 \(2019-2020\)"),
        ({"scale": 0.0}, "temporal.scale"),
        ({"name": "ogbn-products"}, "name.*ogbn-arxiv or arxiv_like"),
        ({"name": "elliptic"}, "elliptic with temporal.split elliptic"),
        ({"split": "elliptic"}, "name: got 'arxiv_like'; allowed: elliptic"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(InputError, match=words):
        temporal(**{**SMALL, **options})


def test_missing_files_say_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setattr("ogb.nodeproppred.dataset_pyg.decide_download", lambda url: True)
    monkeypatch.setattr("ogb.nodeproppred.dataset_pyg.download_url", unreachable)
    error = refused("name", temporal, name="ogbn-arxiv", root=str(tmp_path / "empty"))
    place = tmp_path / "empty" / "ogb" / "ogbn_arxiv"
    assert str(error) == (
        "name: ogbn-arxiv could not be downloaded (OSError). Connect to a network, or unpack "
        "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip and copy its folders raw and "
        f"split into {place}."
    )
    assert not (tmp_path / "empty").exists()
