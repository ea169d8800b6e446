"""What each method's loss is for, scores of the unknown, and smoothing."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.special import softmax
from tasks import started_method, synthetic_task
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc import backbones
from graphgym_srnc.backbones import EncoderSpec, Graph, View
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.losses import discrepancy, openness
from graphgym_srnc.losses.adversarial import domain_loss, ganin_schedule
from graphgym_srnc.losses.prior import conditional_ratio, shift_weights
from graphgym_srnc.methods import srgnn
from graphgym_srnc.methods.shared import scores
from graphgym_srnc.methods.udagcn import ppmi


def dense(graph: Data) -> np.ndarray:
    """The adjacency."""
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    row, column = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]].numpy()
    matrix[row, column] = matrix[column, row] = 1
    return matrix


def gcn_operator(a: np.ndarray) -> np.ndarray:
    a = a + np.eye(len(a))
    return a / np.sqrt(np.outer(a.sum(1), a.sum(1)))


def weights(*modules: torch.nn.Module) -> list[np.ndarray]:
    """All weights of some modules in order."""
    return [p.detach().double().numpy() for module in modules for p in module.parameters()]


# ---- alignment of hidden states ----


@pytest.mark.parametrize("name", ["cmd", "coral", "dann", "grade", "mmd", "srgnn"])
def test_alignment_terms_are_losses_of_hidden_states(name):
    method = started_method(name, synthetic_task("close_set"), steps=5, weight=0.7).eval()
    views = method.on_source, method.on_target
    (f, h), (g, k) = (method.classifier.embed(view) for view in views)
    states = [torch.cat(pair, 1) for pair in ((h, f), (k, g))] if name == "grade" else [h, k]
    ramp = ganin_schedule(method.progress) if name == "mmd" else 1
    term, loss = {
        "cmd": ("cmd", lambda x, y: discrepancy.cmd(x.tanh(), y.tanh())),
        "coral": ("coral", discrepancy.coral),
        "dann": ("domain", lambda x, y: domain_loss(method.domain(x), method.domain(y))),
        "grade": ("domain", lambda x, y: domain_loss(method.domain(x), method.domain(y))),
        "mmd": ("mmd", discrepancy.mmd),
        "srgnn": ("cmd", lambda x, y: discrepancy.cmd(x.tanh(), y.tanh())),
    }[name]
    wanted = 0.7 * ramp * loss(*states).item()
    assert method.losses()[term].item() == pytest.approx(wanted, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("score", sorted(scores.SCORES)[:3])
def test_every_score_is_a_confidence_of_the_same_classifier(score):
    task = synthetic_task()
    plain = started_method("erm", synthetic_task())
    method = started_method("erm", task, confidence=score)
    found = method.predict(task.target)
    assert torch.equal(found[:, :2], plain.predict(task.target)) and found.shape == (160, 3)
    confidence = method.confidence(found)
    assert torch.isfinite(found).all() and confidence.std() > 0
    assert torch.equal(method.decide(found) == 2, confidence < method.threshold)
    assert (
        started_method("erm", synthetic_task("close_set"), confidence=score)
        .predict(task.target)
        .size(1)
        == 3
    )


# ---- SRGNN ----


@pytest.mark.parametrize("kernel_nodes, least", [(1000, 0.2), (60, 0.1)], ids=["all", "a sample"])
def test_nodes_like_the_target_weigh_more(kernel_nodes, least, monkeypatch):
    """Of each class every second source node looks like the target."""
    monkeypatch.setattr(srgnn, "KERNEL_NODES", kernel_nodes)
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(120) // 2 % 3
    like = torch.arange(120) % 2 == 0
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
    beta = started_method("srgnn", task).beta
    label = y[:90]
    assert float(beta.min()) >= least - 1e-5
    for c in range(3):
        assert float(beta[label == c].mean()) == pytest.approx(1, abs=1e-5)
        alike = beta[like[:90] & (label == c)]
        other = beta[~like[:90] & (label == c)]
        assert float(alike.mean()) > 1.5 * float(other.mean())


# ---- StruRW ----


def test_edges_weigh_the_ratio_of_link_shares(strength=0.6):
    method = started_method("strurw", synthetic_task("close_set"), steps=20, strength=strength)
    seen = []
    task = method.task
    plain = method.source.reweighted
    method.source.reweighted = lambda weight: (seen.append(weight), plain(weight))[1]
    shares = []
    label = [method.logits(graph).argmax(1) for graph in (task.source, task.target)]
    label[0][task.train] = method.labels
    for graph, y in zip((task.source, task.target), label):
        one_hot = np.eye(3)[y]
        size = one_hot.sum(0)
        shares.append(one_hot.T @ dense(graph) @ one_hot / np.maximum(np.outer(size, size), 1))
    told = method.reweight()
    ratio = (shares[1] / np.maximum(shares[0], 1e-12)).clip(0.1, 10)
    ratio[(shares[0] == 0) | (shares[1] == 0)] = 1
    row, column = dense(task.source).nonzero()
    wanted = 1 - strength + strength * ratio[label[0][row], label[0][column]]
    assert np.allclose(seen[0], wanted, atol=1e-5) and np.ptp(wanted) > 0.1
    assert told["mean_edge_weight"] == pytest.approx(wanted.mean(), rel=1e-5)


@pytest.mark.parametrize("kind", ["gcnconv", "mlp"])
def test_strurw_warns_where_no_layer_reads_weights(kind):
    method = started_method("strurw", synthetic_task("close_set"), kind=kind)
    assert ("reweighting" in method.warnings) == (kind == "mlp")


# ---- A2GNN ----


def test_each_graph_has_its_own_hops():
    """The authors' form: linear, hops, bias, relu, and a class layer that propagates once."""
    options = {"kind": "mlp", "weight": 3.0, "source_hops": 1, "target_hops": 3}
    method = started_method("a2gnn", synthetic_task("close_set"), **options)
    task = method.task
    net = method.classifier
    with torch.no_grad():
        net.parts[0].layers[0].bias.normal_()
        net.layers[0].bias.normal_()
    w, b, v, c = weights(net.parts[0].layers[0], net.layers[0])
    for role, graph, hops in (("source", task.source, 1), ("target", task.target, 3)):
        a = gcn_operator(dense(graph))
        x = backbones.dense(method.prepared(graph).x)
        state = np.maximum(np.linalg.matrix_power(a, hops) @ x.double().numpy() @ w + b, 0)
        expected = a @ state @ v + c
        for given in (graph, graph.clone()):
            assert np.allclose(method.logits(given, role).numpy(), expected, atol=1e-5)
        if role == "source":
            p = softmax(expected, 1)[task.train, method.labels]
            wanted = float(-np.log(p).mean())
            assert method.losses()["source"].item() == pytest.approx(wanted, rel=1e-4)
            states = [state[task.train]]
    states.append(state[task.pool])
    # Of so few nodes all are drawn; the authors' kernels are half as wide as those of the loss.
    wanted = 3.0 * float(discrepancy.mmd(*map(torch.from_numpy, states), widest=2.0))
    assert method.losses()["mmd"].item() == pytest.approx(wanted, rel=1e-3)


# ---- UDAGCN ----


def chances(a: np.ndarray, length: int) -> np.ndarray:
    """Expected share of visits to each node of walks from each node of a dense graph."""
    step = a / a.sum(1, keepdims=True)
    total = 0.0
    power = np.eye(len(a))
    for i in range(length):
        power = power @ step
        total = total + (length - i) / length * power
    return total / total.sum(1, keepdims=True)


def test_ppmi_is_that_of_the_expected_visits():
    a = dense(synthetic_task(nodes=30).source)
    a = a[a.sum(1) > 0][:, a.sum(1) > 0]
    share = chances(a, 3)
    expected = np.log(share * len(a) / (3 * share.sum(0)) + 1e-9)
    found = ppmi(sp.csr_array(a), walks=20_000, length=3).toarray()
    np.fill_diagonal(expected, 0)
    assert found == pytest.approx(expected.clip(0), abs=0.1) and (found > 0).sum() > 60


def test_udagcn_mixes_two_graphs():
    method = started_method("udagcn", synthetic_task("close_set"))
    task = method.task
    far = ppmi(Graph(task.target).adjacency("raw").matrix).toarray()
    x = backbones.dense(method.prepared(task.target).x).double().numpy()
    w, b, v, c = weights(*method.classifier.layers)
    with_loops = far + np.eye(len(far))
    scale = with_loops.sum(1) ** -0.5
    operators = gcn_operator(dense(task.target)), scale[:, None] * with_loops * scale
    both = np.stack([a @ np.maximum(a @ x @ w + b, 0) @ v + c for a in operators], 1)
    u, s, k, d = weights(method.attention, method.head)
    share = np.exp(both @ u.T + s)
    mixed = (both * share / share.sum(1, keepdims=True)).sum(1)
    for graph in (task.target, task.target.clone()):
        assert np.allclose(method.logits(graph).numpy(), mixed @ k.T + d, atol=1e-5)


# ---- Pair-Align ----


def test_pairalign_weighs_edges_and_labels():
    method = started_method("pairalign", synthetic_task("close_set"), steps=30, edge_ridge=0.001)
    task = method.task
    known = 3
    assert method.class_weight.tolist() == [1, 1, 1]
    p, q = (
        method.logits(graph, task.role_of(graph)).softmax(1).double().numpy()
        for graph in (task.source, task.target)
    )
    seen = []
    plain = method.source.reweighted
    method.source.reweighted = lambda weight: (seen.append(weight), plain(weight))[1]
    method.reweight()
    y = p.argmax(1)
    y[task.train] = method.labels
    train = task.train.numpy()
    confusion = sum(np.outer(p[i], np.eye(known)[y[i]]) for i in train) / len(train)
    priors = np.bincount(y[train], minlength=known) / len(train)
    beta = shift_weights(confusion, q[task.pool].mean(0), priors, 0.01)
    assert np.allclose(method.class_weight.numpy(), beta, atol=1e-5)

    a = dense(task.source)
    b = dense(task.target)
    row, column = np.nonzero(a)
    from_, to = np.nonzero(b)
    said = np.stack([np.outer(p[i], p[j]).ravel() for i, j in zip(row, column)])
    other = np.stack([np.outer(q[i], q[j]).ravel() for i, j in zip(from_, to)])
    true = np.eye(known**2)[y[row] * known + y[column]]
    share = true.mean(0)
    ratio = shift_weights(said.T @ true / len(true), other.mean(0), share, 0.001)
    gamma = conditional_ratio(ratio.reshape(3, 3), share.reshape(3, 3), 1e-4)
    (weight,) = seen
    assert np.allclose(weight, gamma[y[row], y[column]], atol=1e-5) and np.ptp(weight) > 0.01
    logits = method.classifier.eval()(method.on_source).detach()
    each = F.cross_entropy(logits, method.labels, reduction="none").numpy()
    wanted = (beta[method.labels] * each).mean()
    assert method.losses()["source"].item() == pytest.approx(wanted, rel=1e-4)


# ---- scores of the unknown ----


def test_gnnsafe_is_propagated_energy():
    task = synthetic_task()
    method = started_method("erm", task, episodes=1, steps=20, confidence="gnnsafe")
    found = method.confidence(method.predict(task.target))
    energy = openness.energy(method.logits(task.target))
    wanted = openness.propagate(energy, Graph(task.target).adjacency("mean"))
    assert torch.allclose(found, wanted, atol=1e-4)


def test_grasp_adds_edges_on_the_graph_of_its_training_nodes_alone():
    task = synthetic_task()
    method = started_method("erm", task, episodes=1, steps=20, confidence="grasp")
    z = method.logits(task.target)
    raw = Graph(task.target).adjacency("raw")
    sure = openness.max_softmax(z)
    energy = openness.energy(z)
    anchor = openness.anchors(sure, raw, task.train)
    assert len(anchor) == len(task.train) // 2
    wanted = openness.propagate_with_anchors(energy, raw, anchor)
    found = method.confidence(method.predict(task.target))
    assert torch.allclose(found, wanted, atol=1e-4)
    copied = Data(x=task.target.x, edge_index=task.target.edge_index)
    assert torch.equal(method.confidence(method.predict(copied)), found)


def test_odin_follows_the_gradient(monkeypatch, temperature=3.0):
    monkeypatch.setattr(scores, "TEMPERATURE", temperature)
    monkeypatch.setattr(scores, "PERTURBATION", 0.5)
    data = synthetic_task(nodes=30).source
    torch.manual_seed(0)
    model = backbones.build(EncoderSpec(hidden=8, act="tanh", features="none"), 30, 3).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    graph = Graph(data, "none")
    read = []
    view = model.view(graph)

    class Spy:
        view = staticmethod(model.view)

        def __call__(self, view: View) -> torch.Tensor:
            read.append(view.x.detach().clone())
            return model(view)

    scores.odin(Spy(), graph, scores.input_scale(model, graph))
    step = (read[0] - read[1]) / (0.5 * read[0].square().mean().sqrt())
    blocks = [copy.copy(block) for block in view.blocks]
    for block in blocks:
        block.product = None
    label = model(view).argmax(1)

    @torch.no_grad()
    def loss(x: torch.Tensor) -> float:
        scaled = model(View(x, blocks)).double() / temperature
        return float(F.cross_entropy(scaled, label, reduction="sum"))

    slope = torch.zeros_like(read[0])
    for i in range(slope.numel()):
        nudge = 3e-3 * F.one_hot(torch.tensor(i), slope.numel()).view_as(slope)
        slope.view(-1)[i] = loss(read[0] + nudge) - loss(read[0] - nudge)
    clear = slope.abs() > 0.02 * slope.abs().max()
    assert clear.float().mean() > 0.2
    assert torch.equal(step[clear].round(decimals=4), slope[clear].sign())
