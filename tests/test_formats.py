"""Files as the documentation of each format shows them, benchmarks' arrays, and embeddings."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas
import pytest
import scipy.sparse as sp
import torch
import written
from conftest import make_graph, refused
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.utils import to_torch_csr_tensor

from graphgym_srnc import ERM, from_frames, from_networkx, shifts
from graphgym_srnc.cli.make import make_graph as convert
from graphgym_srnc.data import files
from graphgym_srnc.data.cleaning import clean

# Examples of https://math.nist.gov/MatrixMarket/formats.html, of the manual of Pajek, of
# jsongraphformat.info, of gexf.net and GML, of the manual of APOC, and of R's help on write.table.
MATRIX_MARKET = """%%MatrixMarket matrix coordinate real general
%=================================================================================
%
% This ASCII file represents a sparse MxN matrix with L nonzeros
  5  5  8
    1     1   1.000e+00
    2     2   1.050e+01
    3     3   1.500e-02
    1     4   6.000e+00
    4     2   2.505e+02
    4     4  -2.800e+02
    4     5   3.332e+01
    5     5   1.200e+01
"""
PAJEK = """*Vertices 3
1 "Doc1" 0.0 0.0 0.0 ic Green bc Brown
2 "Doc2" 0.0 0.0 0.0 ic Green bc Brown
3 "Doc3" 0.0 0.0 0.0 ic Green bc Brown
*Arcs
1 2 3 c Green
2 3 5 c Black
*Edges
1 3 4 c Green
"""
GRAPH_FORMAT = """{"graph": {"directed": false, "type": "test", "label": "Books", "nodes": {
"n1": {"label": "Valjean", "metadata": {"group": 2}},
"n2": {"label": "Javert", "metadata": {"group": 4}},
"n3": {"label": "Fantine", "metadata": {"group": 2}}},
"edges": [{"id": "e1", "source": "n1", "relation": "knows", "target": "n2", "directed": false},
{"source": "n2", "target": "n3", "metadata": {"weight": 1}}]}}"""
APOC = """{"type":"node","id":"0","labels":["User"],"properties":{"name":"Adam","group":"a"}}
{"type":"node","id":"1","labels":["User"],"properties":{"name":"Jim","group":"b"}}
{"type":"node","id":"2","labels":["User"],"properties":{"age":12,"group":"a"}}
{"id":"0","type":"relationship","label":"KNOWS","properties":{"since":1993},\
"start":{"id":"0","labels":["User"]},"end":{"id":"1","labels":["User"]}}
{"id":"1","type":"relationship","label":"KNOWS","start":{"id":"1","labels":["User"]},\
"end":{"id":"2","labels":["User"]}}
"""
D3 = """{"nodes": [{"name": "Myriel", "group": 1}, {"name": "Napoleon", "group": 1},
{"name": "Mlle.Baptistine", "group": 2}],
"links": [{"source": 1, "target": 0, "value": 1}, {"source": 2, "target": 0, "value": 8}]}"""
GEXF = """<gexf xmlns="http://www.gexf.net/1.3" version="1.3">
<graph mode="static" defaultedgetype="directed"><attributes class="node">
<attribute id="0" title="group" type="string"><default>a</default></attribute></attributes>
<nodes><node id="n1" label="Hello"/><node id="n2" label="World">
<attvalues><attvalue for="0" value="b"/></attvalues></node><node id="n3" label="Word"/></nodes>
<edges><edge source="n1" target="n2"/><edge source="n3" target="n2" type="mutual"/></edges>
</graph></gexf>"""
GML = """graph [
  comment "This is a sample graph"
  directed 1
  node [ id 1 label "node 1" group "a" ]
  node [ id 2 label "node 2" group "b" ]
  node [ id 3 label "node 3" group "a" ]
  edge [ source 1 target 2 label "Edge from node 1 to node 2" ]
  edge [ source 3 target 2 ]
]"""
WRITE_TABLE = """"from" "to"
"1" "n1" "n2"
"2" "n2" "n3"
"""
NODES = "id,group\nn1,a\nn2,b\nn3,a\n"
FOUND: dict[str, tuple[dict[str, str], set[tuple[int, int]]]] = {
    "Pajek": ({"n.csv": NODES.replace("n", "Doc"), "g.net": PAJEK},
              {(0, 1), (1, 2), (0, 2)}),
    "JSON Graph Format": ({"g.json": GRAPH_FORMAT}, {(0, 1), (1, 2)}),
    "APOC": ({"g.json": APOC}, {(0, 1), (1, 2)}),
    "D3": ({"g.json": D3}, {(0, 1), (0, 2)}),
    "GML": ({"g.gml": GML}, {(0, 1), (1, 2)}),
    "GEXF": ({"g.gexf": GEXF}, {(0, 1), (1, 2)}),
    "write.table": ({"n.csv": NODES, "l.txt": WRITE_TABLE}, {(0, 1), (1, 2)}),
    "Matrix Market": ({"n.csv": "id,group\n" + "".join(f"{k},a\n" for k in range(1, 6)),
                       "l.mtx": MATRIX_MARKET}, {(0, 3), (1, 3), (3, 4)}),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_examples_of_the_documentation(name, tmp_path):
    contents, expected = FOUND[name]
    for file, content in contents.items():
        (tmp_path / file).write_text(content)
    made, _ = convert(*(tmp_path / file for file in contents), label="group", spectral=1)
    assert all(made.labels) and len(made.labels) == len(made.ids)
    pairs = {tuple(sorted(pair)) for pair in made.edges.T.tolist()}
    assert {pair for pair in pairs if pair[0] != pair[1]} == expected


# Arrays of benchmarks.


def arrays() -> dict[str, Any]:
    """A graph as in the files of the heterophily benchmark."""
    graph = make_graph(60, 3, 4)
    masks = {f"{part}_masks": np.zeros((2, 60), bool) for part in ("train", "val", "test")}
    for number, name in enumerate(masks):
        masks[name][:, 20 * number : 20 * number + 20] = True
    masks["train_masks"][1, :2] = False
    found = {"node_features": graph.x.numpy(), "node_labels": graph.y.numpy()}
    return found | {"edges": graph.edge_index.T.numpy(), **masks}


def test_the_heterophily_benchmark(tmp_path):
    np.savez(tmp_path / "g.npz", **arrays())
    for seed, first in ((0, 0), (1, 2)):
        task = shifts.find("file")(path=str(tmp_path / "g.npz"), split_seed=seed, open_set=False)
        assert task.train.tolist() == [*range(first, 20)] and task.test.tolist() == [*range(40, 60)]
    assert task.target.num_edges == clean(make_graph(60, 3, 4)).num_edges


def test_gnn_benchmark_and_the_processed_file_of_pyg(tmp_path):
    graph = make_graph(60, 3, 4)
    file = written.npz_of(graph, tmp_path / "g.npz")
    torch.save(InMemoryDataset.collate([graph]), tmp_path / "data.pt")
    torch.save(InMemoryDataset.collate([graph, graph]), tmp_path / "two.pt")
    expected = clean(graph)
    for name in ("g.npz", "data.pt"):
        found = files.as_data(files.load(tmp_path / name)[0], name)
        assert torch.equal(found.edge_index, expected.edge_index)
        assert torch.equal(found.x, expected.x) and torch.equal(found.y, expected.y)
    refused("path", files.load, tmp_path / "two.pt")
    parts = dict(np.load(file))
    np.savez(file, **parts | {"adj_indices": parts["adj_indices"] + 1000})
    refused("path", files.load, file)


def test_masks_of_node_numbers_and_of_other_names(tmp_path):
    graph = make_graph(60, 3, 4)
    fields = {"x": graph.x, "edge_index": graph.edge_index, "y": graph.y}
    fields |= {"train_mask": torch.arange(20), "valid_mask": torch.arange(60) // 20 == 1}
    torch.save(fields, tmp_path / "g.pt")
    task = shifts.find("file")(path=str(tmp_path / "g.pt"), open_set=False)
    assert task.train.tolist() == [*range(20)] and task.val.tolist() == [*range(20, 40)]


def test_sparse_features_and_adjacency_matrices():
    graph = make_graph(60, 3, 4)
    graph.train_mask = torch.arange(60) < 30
    model = ERM(hidden=4, steps=2, rounds=1, open_set=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.fit(graph).predict_proba(graph)
        other = graph.clone()
        other.adj_t = to_torch_csr_tensor(graph.edge_index, size=(60, 60)).t()
        other.x, other.edge_index = sp.csr_array(graph.x.numpy()), None
        assert np.array_equal(model.fit(other).predict_proba(other), expected)


# Masks, tensors and lists of Python.


def test_the_split_and_trained_features_of_networkx():
    net = networkx.cycle_graph(9)
    embedding = torch.nn.Embedding(9, 2)
    for node in net:
        masks = {f"{part}_mask": node % 3 == k for k, part in enumerate(("train", "valid", "test"))}
        net.nodes[node].update(x=embedding.weight[node], label="ab"[node // 3 % 2], **masks)
    made = from_networkx(net)
    assert made.train_mask.tolist() == [True, False, False] * 3
    assert made.val_mask.tolist() == [False, True, False] * 3 and made.test_mask.sum() == 3
    assert torch.equal(made.x, embedding.weight.detach())
    net.nodes[0]["test_mask"] = True
    refused("split", from_networkx, net)


@pytest.fixture
def frames() -> tuple[pandas.DataFrame, pandas.DataFrame]:
    nodes = pandas.DataFrame({"id": [*"cabde"], "label": [*"xyxyx"]})
    return nodes, pandas.DataFrame({"source": [*"cabd"], "target": [*"abde"]})


def test_embeddings_in_lists_and_arrays(frames, tmp_path):
    nodes, edges = frames
    array = np.random.default_rng(0).normal(size=(5, 3))
    expected = from_frames(nodes, edges, embeddings=array).x
    assert torch.allclose(expected.double(), torch.from_numpy(array))
    beside = from_frames(nodes.assign(age=range(5)), edges, embeddings=array)
    assert torch.equal(beside.x, expected)  # numbers are read if they are named
    for form in (torch.from_numpy(array).requires_grad_(), sp.csr_array(array)):
        assert torch.allclose(from_frames(nodes, edges, embeddings=form).x, expected)
    for wrong in (array[:4], array[:, 0], array * np.nan, [["a"]] * 5):
        refused("embeddings", from_frames, nodes, edges, embeddings=wrong)

    lists = nodes.assign(vector=[*array])
    made = from_frames(lists, edges, numbers="vector")
    assert made.feature_names == ["vector 0", "vector 1", "vector 2"]
    scaled = (array - array.mean(0)) / array.std(0)
    np.testing.assert_allclose(made.x.numpy(), scaled, atol=1e-6)
    later = from_frames(lists[["id", "vector"]], edges, like=made)
    assert torch.equal(later.x, made.x)
    lists.to_parquet(tmp_path / "n.parquet")
    edges.to_csv(tmp_path / "l.csv", index=False)
    graph, _ = convert(tmp_path / "n.parquet", tmp_path / "l.csv", numbers=["vector"])
    np.testing.assert_allclose(graph.features.toarray(), scaled, atol=1e-9)


def test_files_of_embeddings(frames, tmp_path):
    nodes, edges = frames
    array = np.random.default_rng(0).normal(size=(5, 3))
    nodes.to_csv(tmp_path / "n.csv", index=False)
    edges.to_csv(tmp_path / "l.csv", index=False)
    np.savez(tmp_path / "one.npz", vectors=array)
    np.savez(tmp_path / "named.npz", other=array[:2], x=array)
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_array(array))
    torch.save(torch.from_numpy(array), tmp_path / "sbert_x.pt")
    torch.save(Data(x=torch.from_numpy(array)), tmp_path / "data.pt")
    pandas.DataFrame(array, columns=[*"uvw"]).to_parquet(tmp_path / "rows.parquet")
    order = [3, 1, 4, 0, 2]
    shuffled = pandas.DataFrame({"id": nodes["id"][order].array, "vector": [*array[order]]})
    shuffled.to_parquet(tmp_path / "ids.parquet")
    names = "one.npz named.npz sparse.npz sbert_x.pt data.pt rows.parquet ids.parquet".split()
    for name in names:
        embeddings = str(tmp_path / name)
        made, _ = convert(tmp_path / "n.csv", tmp_path / "l.csv", embeddings=embeddings)
        np.testing.assert_allclose(made.features.toarray(), array, atol=1e-6, err_msg=name)
    np.savez(tmp_path / "two.npz", a=array, b=array)
    wrong = {"embeddings": str(tmp_path / "two.npz")}
    refused("embeddings", convert, tmp_path / "n.csv", tmp_path / "l.csv", **wrong)


# Options that choose among readings.


def test_header_ends_and_neighbours(tmp_path):
    def links(text: str, **options: Any) -> list[list[int]]:
        Path(tmp_path, "n.csv").write_text("id,label\n0,a\n1,b\n2,a\n3,b\n")
        Path(tmp_path, "l.csv").write_text(text)
        made, _ = convert(tmp_path / "n.csv", tmp_path / "l.csv", spectral=1, **options)
        return sorted(map(sorted, made.edges.T.tolist()))

    text = "0,1\n1,2\n2,3\n"
    refused("l.csv", links, text)
    assert links(text, header=False) == [[0, 1], [1, 2], [2, 3]]
    assert links(text, header=True) == [[1, 2], [2, 3]]
    text = "0,2,3\n1,2,3\n3,1,0\n"
    refused("l.csv", links, text)
    assert links(text, ends=["1", "2"]) == [[0, 2], [1, 2], [1, 3]]
    assert links(text, ends=["1", "*"]) == [[0, 2], [0, 3], [0, 3], [1, 2], [1, 3], [1, 3]]
