"""What each method's loss is for, scores of the unknown, smoothing, and DGI under every method."""

from __future__ import annotations

import copy
import dataclasses
from functools import cache, partial
from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from graphgym_srnc.backbones.ppmi import ppmi
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from test_methods import fit, make, some
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc import backbones, methods
from graphgym_srnc.backbones import EncoderSpec, Graph, View, dgi, prepare
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.losses import openness
from graphgym_srnc.losses.reweighting import conditional_ratio, shift_weights
from graphgym_srnc.methods import srgnn, srnc
from graphgym_srnc.methods.shared import scores
from graphgym_srnc.methods.shared.training import adam
from graphgym_srnc.methods.strurw import link_shares
from graphgym_srnc.shifts import synthetic
from graphgym_srnc.train import trainer

KINDS = sorted(backbones.BACKBONES)
SCORES = ("max_softmax", *scores.SCORES)


@cache
def toy(mode: str = "open_set", **options) -> ShiftTask:
    fields = {
        "num_nodes": 160,
        "num_classes": 3,
        "num_unseen": 1,
        "num_features": 30,
        "labels_per_class": 8,
        "num_val": 30,
        "num_test": 60,
    }
    return synthetic.build(mode=mode, **fields | options)


@cache
def moved() -> ShiftTask:
    """A close-set task whose target has words on most nodes that are rare in the source."""
    task = toy(
        "close_set",
        num_nodes=300,
        num_features=40,
        signal=0.5,
        shift=0.2,
        avg_degree=6.0,
        labels_per_class=40,
    )
    target = task.target.clone()
    more = torch.rand(300, 8, generator=torch.Generator().manual_seed(0)) < 0.7
    target.x[:, -8:] = target.x[:, -8:].maximum(more.float())
    return dataclasses.replace(task, target=target, oracle=None)


def started(
    name: str, task: ShiftTask, episodes: int = 0, kind: str = "gcnconv", seed: int = 0, **options
) -> methods.base.Method:
    """A method after some episodes on a blind task."""
    torch.manual_seed(seed)
    method = make(name, kind, **options)
    method.start(task.blind())
    for _ in range(episodes):
        method.episode()
    return method


@torch.no_grad()
def hidden(method: methods.base.Method, graph: Data) -> np.ndarray:
    """Last hidden states without dropout, ``[V, H]``."""
    method.classifier.eval()
    view = method.classifier.view(prepare(graph, method.encoder.features))
    return method.classifier.embed(view)[1].double().numpy()


def dense(graph: Data, weight: np.ndarray | None = None) -> np.ndarray:
    """The adjacency, with a weight an entry in row order."""
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    row, column = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]].numpy()
    matrix[row, column] = matrix[column, row] = 1
    if weight is not None:
        matrix[matrix > 0] = weight
    return matrix


def gcn_operator(a: np.ndarray) -> np.ndarray:
    a = a + np.eye(len(a))
    return a / np.sqrt(np.outer(a.sum(1), a.sum(1)))


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


# ---- alignment of hidden states ----


@cache
def both_sides(name: str, steps: int, lr: float, **options) -> tuple[np.ndarray, np.ndarray, float]:
    """Hidden states of training nodes and of the target after training, and the share of training
    nodes that are right."""
    torch.manual_seed(0)
    task, spec = moved(), EncoderSpec(hidden=16, features="l2")
    optimizer = partial(adam, lr=lr)
    method = methods.find(name)(encoder=spec, make_optimizer=optimizer, steps=steps, **options)
    method.start(task.blind())
    method.episode()
    right = (method.predict(task.source).argmax(1) == task.source.y)[task.train].float().mean()
    return hidden(method, task.source)[task.train], hidden(method, task.target), float(right)


def told_apart(source: np.ndarray, target: np.ndarray) -> float:
    """How well a logistic regression on half of the nodes tells the sides of the others: 0 = by
    chance, 1 = always."""
    h, side = np.concatenate([source, target]), np.repeat([0, 1], [len(source), len(target)])
    h, even = (h - h.mean(0)) / (h.std(0) + 1e-9), np.arange(len(h)) % 2 == 0
    model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(h[even], side[even])
    found = model.predict(h[~even])
    return float(sum((found == side[~even])[side[~even] == s].mean() for s in (0, 1)) - 1)


def means_apart(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.linalg.norm(x.mean(0) - y.mean(0)))


def moment_distance(x: np.ndarray, y: np.ndarray) -> float:
    x, y = np.tanh(x), np.tanh(y)
    parts = [np.linalg.norm(x.mean(0) - y.mean(0))]
    x, y = x - x.mean(0), y - y.mean(0)
    parts += [np.linalg.norm((x**k).mean(0) - (y**k).mean(0)) for k in range(2, 6)]
    return sum(parts)


def kernel_distance(x: np.ndarray, y: np.ndarray) -> float:
    every = np.concatenate([x, y])
    mean, total = (cdist(every, every) ** 2).mean(), 0.0
    for scale in (0.25, 0.5, 1.0, 2.0, 4.0):
        k = [
            np.exp(-(cdist(a, b) ** 2) / (2 * scale * mean)).mean()
            for a, b in ((x, x), (y, y), (x, y))
        ]
        total += (k[0] + k[1] - 2 * k[2]) / 5
    return total


def covariance_distance(x: np.ndarray, y: np.ndarray) -> float:
    return float(((np.cov(x.T) - np.cov(y.T)) ** 2).sum() / (4 * x.shape[1] ** 2))


@pytest.mark.parametrize(
    "name, options, measure, share",
    [
        ("dann", {"weight": 0.1}, told_apart, 0.7),
        ("grade", {"weight": 0.1}, means_apart, 0.7),
        ("cmd", {"weight": 0.3}, moment_distance, 0.5),
        ("mmd", {"weight": 3.0}, kernel_distance, 0.7),
        ("coral", {"weight": 1000.0}, covariance_distance, 0.5),
        ("srgnn", {"weight": 0.3}, moment_distance, 0.5),
        ("a2gnn", {"weight": 1.0, "target_hops": 0}, kernel_distance, 0.7),
        (
            "adalign",
            {"weight": 2.0, "amplitude": 0.5, "source_hops": 0, "target_hops": 0},
            moment_distance,
            0.7,
        ),
    ],
)
def test_hidden_states_come_together(name, options, measure, share):
    pace = {"steps": 300, "lr": 0.003} if name in ("dann", "grade") else {"steps": 100, "lr": 0.01}
    *plain, _ = both_sides("erm", **pace)
    *aligned, right = both_sides(name, **pace, **options)
    *without, _ = both_sides(name, **pace, **options | {"weight": 0.0})
    assert measure(*aligned) < share * min(measure(*plain), measure(*without))
    # They neither shrink to one point nor forget the classes.
    assert right > 0.7 and aligned[0].std(0).max() > 0.05


# ---- SRGNN ----


def planted() -> tuple[ShiftTask, torch.Tensor]:
    """Source nodes of which those of even id, in each class, look like the target; and which do."""
    generator = torch.Generator().manual_seed(0)
    y, like = torch.arange(120) // 2 % 3, torch.arange(120) % 2 == 0
    graphs = []
    for group in (like, torch.ones(120, dtype=torch.bool)):
        x = torch.rand(120, 12, generator=generator) + 2 * torch.eye(12)[y]
        x[:, 6] += 3 * group
        x[:, 11] += 3 * ~group
        same = (y[:, None] == y) & (group[:, None] == group)
        edges = (torch.rand(120, 120, generator=generator) < 0.2) & same
        graphs.append(Data(x=x, y=y, edge_index=edges.nonzero().T))
    every = torch.arange(120)
    task = ShiftTask("planted", *graphs, every[:90], every[:20], every[20:], every, 3, False)
    return task, like[:90]


def class_means(beta: torch.Tensor, label: torch.Tensor) -> list[float]:
    return [float(beta[label == c].mean()) for c in range(3)]


def test_nodes_like_the_target_weigh_more():
    task, like = planted()
    method = started("srgnn", task)
    beta, label = method.beta, task.source.y[task.train]
    assert class_means(beta, label) == pytest.approx([1, 1, 1], abs=1e-5)
    assert float(beta.min()) >= method.b_min - 1e-5
    for c in range(3):
        alike, other = beta[like & (label == c)], beta[~like & (label == c)]
        assert float(alike.mean()) > 1.5 * float(other.mean())
    same = dataclasses.replace(
        task,
        target=task.source,
        val=torch.arange(90, 100),
        test=torch.arange(100, 120),
        pool=torch.arange(90, 120),
    )
    even = started("srgnn", same).beta
    assert abs(float(even[like].mean()) - 1) < 0.2


def test_other_nodes_take_the_weight_of_the_nearest(monkeypatch):
    task, _ = planted()
    solved = []

    def spy(z, *args):
        solved.append((z.numpy(), srgnn_kmm(z, *args).numpy()))
        return torch.from_numpy(solved[-1][1])

    srgnn_kmm = srgnn.kmm_weights
    monkeypatch.setattr(srgnn, "kmm_weights", spy)
    method = started("srgnn", task, kernel_nodes=40)
    (kept, beta), label = solved[0], task.source.y[task.train].numpy()
    assert len(kept) == 40 < len(task.train)
    x = (task.source.x / task.source.x.sum(1, keepdim=True)).numpy()
    z = (np.linalg.matrix_power(gcn_operator(dense(task.source)), 2) @ x)[task.train]
    own = np.abs(z[:, None] - kept).sum(2)
    assert (own.min(1) < 1e-5).sum() == 40
    wanted = beta[(z[:, None] - kept).__pow__(2).sum(2).argmin(1)]
    scale = np.array([1 / wanted[label == c].mean() for c in range(3)])
    assert np.allclose(method.beta.numpy(), wanted * scale[label], atol=1e-4)
    assert method.beta.std() > 0.1
    assert class_means(method.beta, torch.from_numpy(label)) == pytest.approx([1, 1, 1], abs=1e-5)
    assert (method.beta.numpy() >= method.b_min * scale[label] - 1e-5).all()


def test_weights_enter_the_loss():
    task, _ = planted()
    method = started("srgnn", task)
    method.classifier.eval()
    p = softmax(method.logits(task.source).double().numpy())[task.train, task.source.y[task.train]]
    wanted = float((method.beta.numpy() * -np.log(p)).mean())
    assert method.losses()["source"].item() == pytest.approx(wanted, rel=1e-4)


# ---- StruRW ----


def block_model(inside: float, outside: float, seed: int) -> Data:
    """Two blocks of 100 nodes with known chances of a link."""
    generator, y = torch.Generator().manual_seed(seed), torch.arange(200) % 2
    chance = torch.where(y[:, None] == y, inside, outside)
    pairs = (torch.rand(200, 200, generator=generator) < chance).triu(1)
    x = torch.eye(4)[y] + torch.rand(200, 4, generator=generator)
    return Data(x=x, y=y, edge_index=pairs.nonzero().T)


def two_blocks() -> ShiftTask:
    source, target = block_model(0.3, 0.06, 0), block_model(0.15, 0.12, 1)
    every = torch.arange(200)
    return ShiftTask("blocks", source, target, every[:40], every[:50], every[50:], every, 2, False)


def test_link_shares_are_brute_force():
    task = toy()
    label = torch.arange(160) % 5  # of six classes one is empty
    members = [(label == c).nonzero().view(-1).tolist() for c in range(6)]
    linked = {tuple(edge) for edge in task.source.edge_index.T.tolist() if edge[0] != edge[1]}
    linked |= {(j, i) for i, j in linked}
    shares = link_shares(Graph(task.source), label, 6)
    for a in range(6):
        for b in range(6):
            pairs = [(i, j) for i in members[a] for j in members[b]]
            expected = sum(pair in linked for pair in pairs) / max(len(pairs), 1)
            assert shares[a, b] == pytest.approx(expected)


def test_edges_weigh_the_ratio_of_known_chances():
    task, seen = two_blocks(), []
    method = started("strurw", task, strength=0.8)
    truth = {id(method.task.source): task.source.y, id(method.task.target): task.target.y}
    method.logits = lambda graph, role="target": torch.eye(2)[truth[id(graph)]]
    plain = method.source.reweighted
    method.source.reweighted = lambda weight: (seen.append(weight), plain(weight))[1]
    told = method.reweight()
    row, column = dense(task.source).nonzero()
    same = task.source.y[row] == task.source.y[column]
    inside, outside = seen[0][same], seen[0][~same]
    # Chances are 0.15 / 0.3 inside and 0.12 / 0.06 between the blocks.
    assert inside.std() < 0.02 and inside.mean() == pytest.approx(0.2 + 0.8 * 0.5, abs=0.03)
    assert outside.std() < 1e-6 and outside.mean() == pytest.approx(0.2 + 0.8 * 2, abs=0.12)
    assert told["mean_edge_weight"] == pytest.approx(float(seen[0].mean()), rel=1e-5)
    method.max_ratio = 1.2
    method.reweight()
    assert sorted(np.unique(seen[1].round(4))) == pytest.approx(
        [0.2 + 0.8 / 1.2, 0.2 + 0.8 * 1.2], abs=1e-4
    )
    method.strength = 0.0
    method.reweight()
    assert (seen[2] == 1).all()


def test_weights_are_estimated_from_the_second_episode_on():
    method = started("strurw", two_blocks(), steps=30)
    before = method.on_source
    told = method.episode()
    assert "mean_edge_weight" in told and method.on_source is not before
    record = trainer.fit(make("strurw"), two_blocks())
    weighed = ["mean_edge_weight" in episode.losses for episode in record.history]
    assert weighed == [False, True, True]


@pytest.mark.parametrize("layer", ["gcnconv", "sageconv"])
def test_weighted_operators_are_dense_ones(layer):
    data = toy().source
    a = dense(data)
    weight = np.random.RandomState(0).rand(int(a.sum())).astype(np.float32) * 3
    weighted, graph = dense(data, weight), Graph(data)
    kind = {"gcnconv": "gcn", "sageconv": "mean"}[layer]
    plain = graph.propagated(kind)  # made before, and not what the other one is to give
    other = graph.reweighted(weight)
    total = weighted.sum(1, keepdims=True)
    operator = gcn_operator(weighted)
    if layer == "sageconv":
        operator = weighted / np.where(total > 0, total, 1)
    assert np.allclose(other.adjacency(kind).matrix.toarray(), operator, atol=1e-5)
    assert not np.allclose(graph.adjacency(kind).matrix.toarray(), operator, atol=1e-2)
    features, product = (
        part.matrix.toarray() if isinstance(part, Sparse) else part.numpy()
        for part in (graph.x, other.propagated(kind))
    )
    assert np.allclose(product, operator @ features, atol=1e-5) and graph.propagated(kind) is plain
    torch.manual_seed(0)
    model = backbones.build(EncoderSpec(kind=layer, hidden=8), 30, 3).eval()
    ones, some_nodes = graph.reweighted(np.ones_like(weight)), torch.arange(0, 160, 7)
    for nodes in (None, some_nodes):
        assert torch.equal(model(model.view(ones, nodes)), model(model.view(graph, nodes)))
        weighed, plain = model(model.view(other, nodes)), model(model.view(graph, nodes))
        assert not torch.allclose(weighed, plain, atol=1e-4)
    every = model(model.view(other))
    assert torch.allclose(model(model.view(other, some_nodes)), every[some_nodes], atol=1e-5)
    for same in ("raw", "gcn", "mean", "loops"):
        assert (ones.adjacency(same).matrix != graph.adjacency(same).matrix).nnz == 0


# ---- A2GNN ----


@pytest.mark.parametrize("source_hops, target_hops", [(0, 4), (2, 0), (1, 3)])
def test_each_graph_has_its_own_hops(source_hops, target_hops):
    """The authors' form: linear, hops, bias, relu, and a class layer that propagates once."""
    method = started(
        "a2gnn",
        toy("close_set"),
        kind="mlp",
        weight=3.0,
        source_hops=source_hops,
        target_hops=target_hops,
    )
    task, net = method.task, method.classifier
    with torch.no_grad():
        net.parts[0].layers[0].bias.normal_()
        net.layers[0].bias.normal_()
    w, b, v, c = (
        p.detach().double().numpy()
        for layer in (net.parts[0].layers[0], net.layers[0])
        for p in (layer.weight, layer.bias)
    )
    for role, graph, hops in (
        ("source", task.source, source_hops),
        ("target", task.target, target_hops),
    ):
        a, x = gcn_operator(dense(graph)), backbones.dense(method.prepared(graph).x)
        state = np.maximum(np.linalg.matrix_power(a, hops) @ x.double().numpy() @ w + b, 0)
        expected = a @ state @ v + c
        for given in (graph, graph.clone()):
            assert np.allclose(method.logits(given, role).numpy(), expected, atol=1e-5)
        if role == "source":
            p = softmax(expected)[task.train, method.labels]
            wanted = float(-np.log(p).mean())
            assert method.losses()["source"].item() == pytest.approx(wanted, rel=1e-4)
            states = [state[task.train]]
    states.append(state[task.pool])
    # Of so few nodes all are drawn; the authors' kernels are half as wide as those of the loss.
    every = np.concatenate(states)
    mean, total = (cdist(every, every) ** 2).mean(), 0.0
    for scale in (0.25, 0.5, 1.0, 2.0, 4.0):
        k = [
            np.exp(-(cdist(p, q) ** 2) / (scale * mean)).mean()
            for p, q in (states[:1] * 2, states[1:] * 2, states)
        ]
        total += 3.0 * (k[0] + k[1] - 2 * k[2]) / 5
    assert method.losses()["mmd"].item() == pytest.approx(total, rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_each_hidden_layer_has_its_hops(kind, monkeypatch):
    monkeypatch.setattr(dgi, "train_infomax", partial(dgi.train_infomax, steps=2))
    method = started("a2gnn", toy("close_set"), kind=kind, layers=3, target_hops=2)
    net, graph = method.classifier.eval(), method.prepared(method.task.target)
    first, second = net.parts
    with torch.no_grad():
        second.layers[0].bias.normal_()
        h = first(first.view(graph)).double().numpy()
        w, c = (p.double().numpy() for p in (second.layers[0].weight, second.layers[0].bias))
        b = first.output_bias.double().numpy()
        found, state = net.embed(net.view(graph))
    a = gcn_operator(dense(method.task.target))
    h = np.maximum(a @ a @ (h - b) + b, 0)
    assert np.allclose(state.numpy(), np.maximum(a @ a @ h @ w + c, 0), atol=1e-5)
    some_nodes = torch.tensor([5, 2, 2, 70])
    assert torch.allclose(net(net.view(graph, some_nodes)), found[some_nodes], atol=1e-6)


# ---- ADAlign ----


def test_frequencies_seek_where_the_sides_differ():
    """With an encoder that cannot learn, the term grows: the perceptron goes up its gradient."""
    method = started("adalign", toy("close_set"), kind="mlp", dropout=0.0, frequencies=64)
    method.classifier.requires_grad_(False)
    grown = []
    for _ in range(40):
        torch.manual_seed(0)
        terms = method.losses()
        grown.append(terms["discrepancy"].item())
        method.optimizer.zero_grad()
        terms["discrepancy"].backward()
        method.optimizer.step()
    assert grown[-1] > 1.5 * grown[0]


def test_adalign_without_weight_has_one_term():
    assert started("adalign", toy("close_set"), weight=0.0).losses().keys() == {"source"}


# ---- UDAGCN ----


def chances(a: np.ndarray, length: int) -> np.ndarray:
    """Expected share of visits to each node of walks from each node of a dense graph."""
    step, total, power = a / a.sum(1, keepdims=True), 0.0, np.eye(len(a))
    for i in range(length):
        power = power @ step
        total = total + (length - i) / length * power
    return total / total.sum(1, keepdims=True)


def test_ppmi_is_that_of_expected_visits():
    a = dense(toy("close_set").source)[:60, :60]
    a[np.arange(59), np.arange(1, 60)] = a[np.arange(1, 60), np.arange(59)] = 1
    share = chances(a, 3)
    expected = np.log(np.maximum(share * 60 / (3 * share.sum(0)), 1))
    np.fill_diagonal(expected, 0)
    found = ppmi(sp.csr_array(a), walks=20000, length=3).toarray()
    sure = share > 0.01  # of rarer visits the logarithm is far from its expectation
    assert (expected[sure] > 0).sum() > 50
    assert np.allclose(found[sure], expected[sure], atol=0.05)


def test_ppmi_is_repeatable_and_leaves_lone_nodes_alone():
    a = dense(toy("close_set").source)
    a[7], a[:, 7] = 0, 0
    first, again = (ppmi(sp.csr_array(a)).toarray() for _ in range(2))
    assert np.array_equal(first, again) and not first[7].any() and not first[:, 7].any()
    assert (first >= 0).all() and not first.diagonal().any()
    assert not np.array_equal(first, ppmi(sp.csr_array(a), seed=1).toarray())
    assert ppmi(sp.csr_array((5, 5))).nnz == 0


def test_udagcn_mixes_two_graphs():
    method = started("udagcn", toy("close_set"))
    task = method.task
    far = ppmi(Graph(task.target).adjacency("raw").matrix).toarray()
    x = backbones.dense(method.prepared(task.target).x).double().numpy()
    (w, b), (v, c) = (
        [p.detach().double().numpy() for p in (layer.weight, layer.bias)]
        for layer in method.classifier.layers
    )
    with_loops = far + np.eye(len(far))
    scale = with_loops.sum(1) ** -0.5
    operators = gcn_operator(dense(task.target)), scale[:, None] * with_loops * scale
    both = np.stack([a @ np.maximum(a @ x @ w + b, 0) @ v + c for a in operators], 1)
    u, s = (p.detach().double().numpy() for p in method.attention.parameters())
    share = np.exp(both @ u.T + s)
    mixed = (both * share / share.sum(1, keepdims=True)).sum(1)
    k, d = (p.detach().double().numpy() for p in method.head.parameters())
    for graph in (task.target, task.target.clone()):
        assert np.allclose(method.logits(graph).numpy(), mixed @ k.T + d, atol=1e-5)


# ---- GRADE ----


def test_grade_tells_domains_apart_by_hidden_states_and_logits_together():
    method = started("grade", toy("close_set"), steps=5, weight=0.02).eval()
    terms = {name: value.item() for name, value in method.losses().items()}
    states = [
        np.concatenate(
            [part.detach().double().numpy() for part in reversed(method.classifier.embed(view))], 1
        )
        for view in (method.on_source, method.on_target)
    ]
    w, b = (p.detach().double().numpy() for p in method.domain.parameters())
    assert states[0].shape[1] == method.classifier.hidden_dim + method.task.num_known == w.size
    source, target = (1 / (1 + np.exp(-(h @ w.T + b))) for h in states)
    wanted = 0.02 * -(np.log(source).mean() + np.log(1 - target).mean())
    assert terms["domain"] == pytest.approx(wanted, rel=1e-4)


# ---- Pair-Align ----


def test_pairalign_weighs_edges_and_labels():
    method = started("pairalign", toy("close_set"), steps=30, edge_ridge=0.001, floor=1e-6)
    task, known = method.task, 3
    assert method.class_weight.tolist() == [1, 1, 1]
    method.reweight()
    p, q = (
        method.logits(graph, task.role_of(graph)).softmax(1).double().numpy()
        for graph in (task.source, task.target)
    )
    y = p.argmax(1)
    y[task.train] = method.labels
    train = task.train.numpy()
    confusion = sum(np.outer(p[i], np.eye(known)[y[i]]) for i in train) / len(train)
    priors = np.bincount(y[train], minlength=known) / len(train)
    beta = shift_weights(confusion, q[task.pool].mean(0), priors, 0.01)
    assert np.allclose(method.class_weight.numpy(), beta, atol=1e-5)

    a, b = dense(task.source), dense(task.target)
    (row, column), (from_, to) = np.nonzero(a), np.nonzero(b)
    said = np.stack([np.outer(p[i], p[j]).ravel() for i, j in zip(row, column)])
    other = np.stack([np.outer(q[i], q[j]).ravel() for i, j in zip(from_, to)])
    true = np.eye(known**2)[y[row] * known + y[column]]
    share = true.mean(0)
    ratio = shift_weights(said.T @ true / len(true), other.mean(0), share, 0.001)
    gamma = conditional_ratio(ratio.reshape(3, 3), share.reshape(3, 3), 1e-6)
    weight = method._edge_weights(p, q, np.eye(known)[y])
    assert np.allclose(weight, gamma[y[row], y[column]], atol=1e-5) and np.ptp(weight) > 0.01
    each = (
        F.cross_entropy(method.classifier.eval()(method.on_source), method.labels, reduction="none")
        .detach()
        .numpy()
    )
    wanted = (beta[method.labels] * each).mean()
    assert method.losses()["source"].item() == pytest.approx(wanted, rel=1e-4)


# ---- scores of the unknown ----


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("score", SCORES)
def test_every_score_runs(score, kind, monkeypatch):
    monkeypatch.setattr(dgi, "train_infomax", partial(dgi.train_infomax, steps=2))
    task = toy()
    method = make("erm", kind, score=score)
    record = trainer.fit(method, task)
    assert {"unknown_auroc", "unknown_aupr", "unknown_fpr95"} <= record.test.keys()
    scores = method.predict(task.target)
    assert scores.shape == (160, 2 + (score != "max_softmax")) and torch.isfinite(scores).all()
    confidence = method.confidence(scores)
    assert confidence.std() > 0 and torch.equal(scores[:, :2], method.logits(task.target))
    assert torch.equal(method.decide(scores) == 2, confidence < method.threshold)
    plain = make("erm", kind)
    losses = [episode.losses for episode in trainer.fit(plain, task).history]
    assert losses == [episode.losses for episode in record.history]
    if score == "max_softmax":
        assert torch.equal(confidence, plain.confidence(plain.predict(task.target)))


@pytest.mark.parametrize("score", SCORES)
def test_in_close_set_no_score_is_told(score):
    method = started("erm", toy("close_set"), score=score)
    assert method.predict(toy("close_set").target).size(1) == 3


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_gnnsafe_is_propagated_energy(temperature):
    task = toy()
    method = started("erm", task, episodes=1, steps=20, score="gnnsafe", temperature=temperature)
    found, z = method.confidence(method.predict(task.target)), method.logits(task.target)
    energy = openness.energy(z, temperature)
    wanted = openness.propagate(energy, Graph(task.target).adjacency("mean"))
    assert torch.allclose(found, wanted, atol=1e-6)
    e, a = temperature * np.log(np.exp(z.double().numpy() / temperature).sum(1)), dense(task.target)
    for _ in range(2):
        mean = np.where(a.sum(1) > 0, a @ e / np.maximum(a.sum(1), 1), e)
        e = 0.5 * e + 0.5 * mean
    assert np.allclose(found.numpy(), e, atol=1e-4)
    assert not torch.allclose(found, energy, atol=1e-2)


def test_grasp_adds_edges_on_the_graph_of_its_training_nodes_alone():
    task = toy()
    method = started("erm", task, episodes=1, steps=20, score="grasp")
    z, raw = method.logits(task.target), Graph(task.target).adjacency("raw")
    sure, energy = openness.max_softmax(z), openness.energy(z)
    anchor = openness.anchors(sure, raw, task.train)
    assert len(anchor) == len(task.train) // 2
    wanted = openness.propagate_with_anchors(energy, raw, anchor)
    found = method.confidence(method.predict(task.target))
    assert torch.allclose(found, wanted, atol=1e-4)
    copied = Data(x=task.target.x, edge_index=task.target.edge_index)
    assert torch.equal(method.confidence(method.predict(copied)), found)

    other = Data(x=copied.x, edge_index=copied.edge_index[:, copied.edge_index.min(0).values > 0])
    z, raw = method.logits(other), Graph(other).adjacency("raw")
    alone = openness.propagate_with_anchors(openness.energy(z), raw, anchor[:0])
    assert torch.allclose(method.confidence(method.predict(other)), alone, atol=1e-4)


def test_temperature_0_is_that_of_the_authors():
    task = toy()
    for score, own in (("energy", 1.0), ("odin", 1000.0)):
        given, default = (
            started("erm", task, episodes=1, steps=5, score=score, temperature=t)
            for t in (own, 0.0)
        )
        assert torch.equal(given.predict(task.target), default.predict(task.target))


@pytest.mark.parametrize("factor", [0.01, 1.0, 50.0])
def test_odin_steps_in_the_scale_of_the_features(factor):
    torch.manual_seed(0)
    graph = Graph(Data(x=factor * toy().source.x, edge_index=toy().source.edge_index), "none")
    model = backbones.build(
        EncoderSpec(kind="gcnconv", hidden=8, features="none"), graph.x.size(1), 3
    ).eval()
    read = []

    class Spy:
        view = staticmethod(model.view)

        def __call__(self, view: View) -> torch.Tensor:
            read.append(view.x.detach().clone())
            return model(view)

    scores.ODIN(3, 10.0, 0.2)(model(model.view(graph)), graph, Spy())
    moved = (read[0] - read[1]).abs()
    wanted = 0.2 * np.sqrt(np.mean(read[0].double().numpy() ** 2))
    assert moved.max().item() == pytest.approx(wanted, rel=1e-3)


def test_openmax_trusts_the_largest_known_share():
    task = toy()
    method = started("erm", task, episodes=1, steps=50, score="openmax")
    p = openness.openmax(method.logits(task.target), dict(method.scorer.named_buffers()))
    sure = method.confidence(method.predict(task.target))
    assert torch.allclose(sure, p[:, :3].max(1).values)


@pytest.mark.parametrize("kind", KINDS)
def test_odin_without_perturbation_is_max_softmax(kind, monkeypatch):
    monkeypatch.setattr(dgi, "train_infomax", partial(dgi.train_infomax, steps=2))
    task = toy()
    method = started(
        "erm",
        task,
        episodes=1,
        kind=kind,
        steps=20,
        score="odin",
        temperature=1.0,
        perturbation=0.0,
    )
    still = method.confidence(method.predict(task.target))
    assert torch.allclose(still, method.logits(task.target).softmax(1).amax(1), atol=1e-6)
    method.scorer.perturbation = 0.5
    surer = method.confidence(method.predict(task.target))
    assert float((surer - still).mean()) > 1e-4


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("kind", ["mlp", "gcnconv", "sageconv", "gatconv", "sgconv"])
def test_odin_follows_the_gradient(kind, temperature):
    data = toy().source
    inside = (data.edge_index < 20).all(0)
    data = Data(x=data.x[:20, :8] + 0.1, edge_index=data.edge_index[:, inside])
    torch.manual_seed(0)
    spec = EncoderSpec(kind=kind, hidden=8, heads=2, act="tanh", features="none")
    model = backbones.build(spec, 8, 3).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    graph, read = Graph(data, "none"), []
    view = model.view(graph)

    class Spy:
        view = staticmethod(model.view)

        def __call__(self, view: View) -> torch.Tensor:
            read.append(view.x.detach().clone())
            return model(view)

    scores.ODIN(3, temperature, 0.5)(model(view), graph, Spy())
    step = (read[0] - read[1]) / (0.5 * read[0].square().mean().sqrt())
    blocks = [copy.copy(block) for block in view.blocks]
    for block in blocks:
        block.product = None
    with torch.no_grad():
        label = model(View(read[0], blocks)).argmax(1)

        def loss(x: torch.Tensor) -> float:
            scaled = model(View(x, blocks)).double() / temperature
            return float(F.cross_entropy(scaled, label, reduction="sum"))

        slope = torch.zeros(20, 8)
        for i in range(20):
            for j in range(8):
                nudge = torch.zeros(20, 8)
                nudge[i, j] = 3e-3
                slope[i, j] = (loss(read[0] + nudge) - loss(read[0] - nudge)) / 6e-3
    clear = slope.abs() > 0.02 * slope.abs().max()
    assert clear.float().mean() > 0.2
    assert torch.equal(step[clear].round(decimals=4), slope[clear].sign())


# ---- SRNC in close-set shift ----


def test_clusters_that_start_from_the_source_are_the_classes(monkeypatch):
    task = toy("close_set", signal=0.8)
    label = task.source.y[task.train].numpy()

    def log_posteriors(cluster) -> np.ndarray:
        return cluster.log_posterior(cluster.source)[task.train].double().numpy()

    method = started("srnc", task, hidden=32)
    cluster = method.clusters
    log_q = log_posteriors(cluster)
    cost = {
        names: sum(-log_q[label == c, k].mean() for k, c in enumerate(names))
        for names in permutations(range(3))
    }
    assert min(cost, key=cost.get) == (0, 1, 2)
    method.episode()
    assert cluster.mapping.tolist() == [0, 1, 2]
    monkeypatch.setattr(srnc, "PRETRAIN_STEPS", 60)
    other = started("srnc", task, cluster_init="modularity", hidden=32).clusters
    log_q = log_posteriors(other)
    assert cost[0, 1, 2] < 0.5 * sum(-log_q[label == c, c].mean() for c in range(3))


def test_close_set_ignores_what_is_for_open_set(monkeypatch):
    monkeypatch.setattr(srnc, "PRETRAIN_STEPS", 3)

    def run(mode: str, **options):
        method = make("srnc_plus", **options)
        record = trainer.fit(method, toy(mode), selection="last")
        losses = [episode.losses for episode in record.history]
        return losses, method.predict(toy(mode).target).tolist()

    for options in ({"spare": 3}, {"missing": 0.0}, {"sure": 0.5}):
        assert run("close_set", **options) == run("close_set"), options
        assert run("open_set", **options) != run("open_set"), options


# ---- smoothing ----


@pytest.mark.parametrize("steps", [0, 1, 4])
@pytest.mark.parametrize("name", ["erm", "srnc", "pgl"])
def test_smoothing_is_personalised_pagerank(name, steps):
    task = toy()
    method = started(name, task, episodes=1, smoothing=steps)
    p = torch.rand(160, 4, generator=torch.Generator().manual_seed(0)).softmax(1)
    operator, wanted = gcn_operator(dense(task.target)), p.double().numpy()
    for _ in range(steps):
        wanted = 0.9 * operator @ wanted + 0.1 * p.double().numpy()
    found = method.smooth(p, task.target, method.smoothing)
    assert np.allclose(found.numpy(), wanted / wanted.sum(1, keepdims=True), atol=1e-5)
    assert torch.allclose(found.sum(1), torch.ones(160))
    assert torch.allclose(found, p, atol=1e-6) == (steps == 0)
    if name == "erm" and steps:
        p = method.logits(task.target).softmax(1)
        smooth = method.smooth(p, task.target, method.smoothing)
        assert torch.allclose(method.predict(task.target).exp(), smooth, atol=1e-5)


# ---- DGI under every method ----


@pytest.fixture
def trained(monkeypatch):
    """Each Infomax that is trained, in few steps."""
    made, train = [], dgi.train_infomax

    def few_steps(graph, hidden):
        made.append(train(graph, hidden=hidden, steps=15))
        return made[-1]

    monkeypatch.setattr(dgi, "train_infomax", few_steps)
    return made


def encoders(method: methods.base.Method) -> list[dgi.DGI]:
    return [module for module in method.modules() if isinstance(module, dgi.DGI)]


@pytest.mark.parametrize("mode", ["open_set", "close_set"])
@pytest.mark.parametrize("name", methods.names())
def test_one_embedding_for_a_run(trained, name, mode):
    task, options = toy(mode), some(methods.find(name), {"members": 2})
    method = make(name, "dgi", **options)
    fit(method, task, selection="last")
    (base,) = trained
    found = encoders(method)
    others = {"srnc": 1, "pgl": 1, "srnc_plus": 4 if mode == "open_set" else 0}
    assert len(found) == 1 + others.get(name, 0)
    prepared = prepare(method.task.target, method.encoder.features)
    for encoder in found:
        assert not encoder.base.training
        assert not any(weight.requires_grad for weight in encoder.base.parameters())
        learnt = encoder.base.state_dict()
        assert all(torch.equal(weight, learnt[key]) for key, weight in base.state_dict().items())
        assert torch.equal(encoder.view(prepared).x, base(prepared).detach())
    before = method.predict(task.target)
    state = {key: value.clone() for key, value in method.state_dict().items()}
    for value in method.state_dict().values():
        value.copy_(torch.zeros_like(value))
    assert not torch.equal(method.predict(task.target), before)
    method.load_state_dict(state)
    assert torch.equal(method.predict(task.target), before)
