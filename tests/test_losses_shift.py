"""Losses and scores of the methods beside SRNC against numpy, scipy, scikit-learn and loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize, special, stats
from scipy.spatial import distance
from sklearn.metrics import log_loss

from graphgym_srnc.losses import kmm, openness
from graphgym_srnc.losses.adversarial import (
    adversarial_loss,
    domain_loss,
    ganin_schedule,
    reverse_gradient,
)
from graphgym_srnc.losses.discrepancy import characteristic_discrepancy, cmd, coral, mmd
from graphgym_srnc.losses.kmm import kmm_weights
from graphgym_srnc.losses.prior import conditional_ratio, shift_weights


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.double) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


X = normal(30, 4).tanh()
Y = (1.5 * normal(20, 4, seed=1) + 0.3).tanh()


@pytest.mark.parametrize("order", [1, 5])
def test_cmd_is_the_moments_written_out(order):
    x = X.numpy()
    y = Y.numpy()
    expected = np.linalg.norm(x.mean(0) - y.mean(0))
    for k in range(2, order + 1):
        expected += np.linalg.norm(stats.moment(x, k, axis=0) - stats.moment(y, k, axis=0))
    assert float(cmd(X, Y, order)) == pytest.approx(expected, rel=1e-8)
    assert float(cmd(Y, X, order)) == pytest.approx(expected, rel=1e-8)


def test_coral_is_numpys_covariance():
    # A mean far from zero tells a covariance from a second moment.
    x = X + 5
    y = Y - 3
    expected = np.sum((np.cov(x.numpy().T) - np.cov(y.numpy().T)) ** 2) / (4 * 4**2)
    assert float(coral(x, y)) == pytest.approx(expected, rel=1e-9)
    assert float(coral(x, y)) == pytest.approx(float(coral(X, Y)), rel=1e-9)
    assert float(coral((X + 100).float(), (Y + 100).float())) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("widest", [2.0, 4.0])
def test_mmd_is_that_of_numpy(widest):
    x = X.numpy()
    y = Y.numpy()
    joint = torch.cat([X, Y]).numpy()
    variances = widest * distance.cdist(joint, joint, "sqeuclidean").mean() / 2.0 ** np.arange(5)

    def mean(left, right):
        squared = distance.cdist(left, right, "sqeuclidean")
        return np.mean([np.exp(-squared / (2 * variance)) for variance in variances])

    expected = mean(x, x) + mean(y, y) - 2 * mean(x, y)
    assert float(mmd(X, Y, widest)) == pytest.approx(expected, rel=1e-8)
    found = mmd((X + 50).float(), (Y + 50).float(), widest)
    assert float(found) == pytest.approx(expected, rel=1e-3)


T = 2 * normal(6, 4, seed=2)


@pytest.mark.parametrize("amplitude", [0.0, 0.5])
def test_characteristic_discrepancy_is_complex_numbers(amplitude):
    total = []
    for t in T.numpy():
        a, b = (np.exp(1j * sample.numpy() @ t).mean() for sample in (X, Y))
        phase = abs(a) * abs(b) * (1 - np.cos(np.angle(a) - np.angle(b)))
        total.append(amplitude * (abs(a) - abs(b)) ** 2 + 2 * (1 - amplitude) * phase)
        if amplitude == 0.5:
            assert 2 * total[-1] == pytest.approx(abs(a - b) ** 2)
    found = float(characteristic_discrepancy(X, Y, T, amplitude))
    assert found == pytest.approx(np.sqrt(total).mean(), rel=1e-5)
    assert float(characteristic_discrepancy(Y, X, -T, amplitude)) == pytest.approx(found)


def discrepancy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return characteristic_discrepancy(x, y, T.to(x.dtype)[:, : x.size(1)])


@pytest.mark.parametrize("loss", [cmd, coral, mmd, discrepancy])
def test_gradients_are_finite_at_equality(loss):
    for sample in (X.float(), torch.zeros(6, 3), torch.full((6, 3), 0.3)):
        x = sample.clone().requires_grad_()
        value = loss(x, sample)
        value.backward()
        assert value.item() == pytest.approx(0, abs=1e-5) and torch.isfinite(x.grad).all()


def shares(seed: int, *shape: int) -> np.ndarray:
    values = np.random.default_rng(seed).random(shape) + 0.05
    return values / values.sum()


def test_shift_weights_are_scipys_minimum(ridge=3.0):
    confusion = shares(0, 6, 6)
    target = shares(1, 6)
    source = confusion.sum(0)
    # Of one class there is nothing in the target, so that a bound is active.
    target[2] = 0
    confusion[2] = [0, 0, 1, 0, 0, 0]

    def cost(w: np.ndarray) -> float:
        return float(((confusion @ w - target) ** 2).sum() + ridge * ((w - 1) ** 2).sum())

    found = shift_weights(confusion, target, source, ridge)
    best = optimize.minimize(
        cost,
        np.ones(6),
        method="SLSQP",
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda w: source @ w - 1},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert source @ found == pytest.approx(1, abs=1e-5) and found.min() >= 0
    assert cost(found) <= cost(best.x) + 1e-6


def test_conditional_ratio_is_a_loop():
    source = shares(0, 3, 3)
    weights = np.random.default_rng(1).random((3, 3))
    found = conditional_ratio(weights, source, 0.01)
    for a in range(3):
        in_target = weights[a] * source[a] + 0.01
        in_source = source[a] + 0.01
        wanted = in_target / sum(in_target) / (in_source / sum(in_source))
        assert found[a] == pytest.approx(wanted)


def test_reversed_gradient(weight=0.3):
    h = normal(5, 3).requires_grad_()
    head = normal(3, seed=1).requires_grad_()
    assert torch.equal(reverse_gradient(h, weight), h)
    ((reverse_gradient(h, weight) @ head) ** 2).sum().backward()
    plain = torch.autograd.grad(((h @ head) ** 2).sum(), (h, head))
    assert torch.allclose(h.grad, -weight * plain[0]) and torch.equal(head.grad, plain[1])


def test_domain_loss_is_sklearns():
    assert ganin_schedule(0) == 0 and ganin_schedule(0.2) == pytest.approx(np.tanh(1))
    source = normal(7)
    target = 2 * normal(11, seed=1)
    p = special.expit(source.numpy())
    q = special.expit(target.numpy())
    expected = log_loss(np.ones(7), p, labels=[0, 1]) + log_loss(np.zeros(11), q, labels=[0, 1])
    assert float(domain_loss(source, target)) == pytest.approx(expected)
    assert torch.isfinite(domain_loss(torch.tensor([-1e4]), torch.tensor([1e4])))


def test_adversarial_loss_of_a_linear_classifier_by_hand():
    domain = torch.nn.Linear(3, 1, dtype=torch.double)
    states = [normal(5, 3).requires_grad_(), normal(4, 3, seed=1).requires_grad_()]
    loss = adversarial_loss(domain, 0.3, *states)
    loss.backward()
    w = domain.weight.detach().numpy()[0]
    p, q = (special.expit(h.detach().numpy() @ w + domain.bias.item()) for h in states)
    assert float(loss) == pytest.approx(-np.log(p).mean() - np.log(1 - q).mean(), rel=1e-5)
    for h, slope in zip(states, ((p - 1) / 5, q / 4)):
        assert h.grad.numpy() == pytest.approx(-0.3 * np.outer(slope, w), abs=1e-6)


def quadratic(z_source: np.ndarray, z_target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """K and f of kernel mean matching, by scipy's distances."""

    def k(a, b):
        squared = distance.cdist(a, b, "sqeuclidean")
        return (np.exp(-squared) + np.exp(-0.1 * squared) + np.exp(-0.001 * squared)) / 3

    return k(z_source, z_source), -len(z_source) / len(z_target) * k(z_source, z_target).sum(1)


@pytest.mark.parametrize("b_min, classes", [(0.0, 1), (0.2, 3)])
def test_kmm_is_scipys_minimum(b_min, classes, monkeypatch):
    monkeypatch.setattr(kmm, "_TOLERANCE", 1e-12)
    monkeypatch.setattr(kmm, "_MAX_STEPS", 50000)
    z_source = normal(40, 3)
    z_target = normal(60, 3, seed=1) + 0.8
    label = torch.arange(40) ** 2 % 7 % classes * 5
    ours = kmm_weights(z_source, z_target, label, b_min).numpy()
    kernel, f = quadratic(z_source.numpy(), z_target.numpy())
    members = [(label == c).numpy() for c in label.unique()]
    totals = [
        {"type": "eq", "fun": lambda b, mine=mine: b[mine].sum() - mine.sum()} for mine in members
    ]
    scipys = optimize.minimize(
        lambda b: b @ kernel @ b / 2 + f @ b,
        np.ones(40),
        jac=lambda b: kernel @ b + f,
        method="SLSQP",
        bounds=[(b_min, None)] * 40,
        options={"ftol": 1e-13, "maxiter": 1000},
        constraints=totals,
    )
    assert ours @ kernel @ ours / 2 + f @ ours == pytest.approx(scipys.fun, rel=1e-6)
    assert ours == pytest.approx(scipys.x, abs=2e-2)
    assert ours.min() >= b_min
    for mine in members:
        assert ours[mine].sum() == pytest.approx(mine.sum(), abs=1e-9)


def test_the_projection_of_kmm_is_no_farther_than_any_allowed_point(low=-0.5):
    classes = torch.arange(40) % 3
    point = normal(40)
    nearest = kmm.project(point, classes, low)
    allowed = [kmm.project(normal(40, seed=seed), classes, low) for seed in range(1, 9)]
    for other in (nearest, *allowed):
        assert other.min() >= low - 1e-12
        assert np.bincount(classes, other) == pytest.approx(0, abs=1e-12)
        # The angle at the nearest point of a convex set is not acute.
        assert float((point - nearest) @ (other - nearest)) <= 1e-9


def test_kmm_in_blocks_is_the_same(monkeypatch):
    z_target = normal(50, 4, seed=1)
    label = torch.arange(30) % 3
    whole = kmm_weights(X, z_target, label)
    monkeypatch.setattr(kmm, "_BLOCK", 350)
    assert torch.allclose(kmm_weights(X, z_target, label), whole, atol=1e-9)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(kmm_weights(X[order], z_target, label[order]), whole[order], atol=1e-3)
    alike = kmm_weights(torch.full((30, 4), 0.1), z_target.float(), label)
    assert torch.allclose(alike, torch.ones(30), atol=1e-3)


def test_scores_of_logits():
    logits = 3 * normal(25, 6)
    p = special.softmax(logits.numpy(), 1)
    assert openness.max_softmax(logits).numpy() == pytest.approx(p.max(1))
    assert openness.max_logit(logits).numpy() == pytest.approx(logits.numpy().max(1))
    assert openness.neg_entropy(logits).numpy() == pytest.approx(-stats.entropy(p, axis=1))
    wanted = special.logsumexp(logits.numpy(), axis=1)
    assert openness.energy(logits).numpy() == pytest.approx(wanted)
    assert float(openness.neg_entropy(torch.tensor([[0.0, -torch.inf]]))) == 0


def random_graph(nodes: int, seed: int = 0) -> np.ndarray:
    """A symmetric adjacency in which node 3 has no neighbour."""
    a = (np.random.RandomState(seed).rand(nodes, nodes) < 0.2).astype(float)
    a = np.triu(a, 1) + np.triu(a, 1).T
    a[3] = 0
    a[:, 3] = 0
    return a


def test_logit_spread_is_numpys(bounded=0.999):
    logits = (2 * normal(30, 4) - 0.5).requires_grad_()
    f = logits.detach().numpy()
    length = np.sqrt((f**2).sum(1))
    total = f.sum(1)
    spreads = length.var() / length.mean(), total.var() / abs(total.mean())
    expected = bounded * spreads[0] + (1 - bounded) * spreads[1]
    spread = openness.logit_spread(logits)
    assert spread.item() == pytest.approx(expected)
    # The means have no gradient.
    (gradient,) = torch.autograd.grad(spread, logits)
    of_length = ((length - length.mean()) / length / length.mean())[:, None] * f
    of_total = (total - total.mean())[:, None] / abs(total.mean())
    slope = 2 / 30 * (bounded * of_length + (1 - bounded) * of_total)
    assert gradient.numpy() == pytest.approx(slope, abs=1e-9)
    assert torch.isfinite(openness.logit_spread(torch.zeros(1, 3))).all()


def test_propagation_is_two_half_steps_to_the_mean_of_the_neighbours():
    a = random_graph(20)
    score = normal(20)
    mean = a / a.sum(1, keepdims=True).clip(min=1)
    half = (np.eye(20) + mean + np.diag(a.sum(1) == 0)) / 2  # a node without any is its own
    found = openness.propagate(score, torch.from_numpy(mean))
    assert found.numpy() == pytest.approx(half @ half @ score.numpy())


@pytest.mark.parametrize("anchor", [[], [0, 3, 7, 11]])
def test_propagation_with_anchors_is_a_loop_over_an_augmented_graph(anchor):
    a = random_graph(20)
    score = normal(20)
    expected = score.tolist()
    for _ in range(8):
        last = list(expected)
        for i in range(20):
            linked = [j for j in anchor if i in anchor]
            neighbours = [j for j in range(20) if a[i, j]]
            if neighbours or linked:
                total = sum(last[j] for j in neighbours) + 1.02 * sum(last[j] for j in linked)
                expected[i] = total / (len(neighbours) + len(linked))
    anchor = torch.tensor(anchor, dtype=torch.long)
    found = openness.propagate_with_anchors(score, torch.from_numpy(a), anchor)
    assert found.tolist() == pytest.approx(expected)


def test_anchors_have_sure_neighbours():
    a = random_graph(60, 1)
    confidence = normal(60)
    train = torch.arange(1, 60, 4)
    rest = [i for i in range(60) if i not in train]
    low, high = np.percentile(confidence[rest], [5, 95])
    ratio = {}
    for i in train.tolist():
        around = [j for j in rest if a[i, j]]
        known = sum(float(confidence[j]) > high for j in around)
        ratio[i] = known / (1 + sum(float(confidence[j]) < low for j in around))
    found = openness.anchors(confidence, torch.from_numpy(a), train).tolist()
    assert len(found) == len(train) // 2 and found == sorted(set(found))
    assert min(ratio[i] for i in found) >= max(ratio[i] for i in ratio if i not in found)
    assert len(set(ratio.values())) > 1
    assert openness.anchors(confidence, torch.from_numpy(a), train[:0]).tolist() == []


@pytest.mark.parametrize("size", [4, 12])
def test_openmax_is_a_loop(size):
    """Of more than ten classes, those of rank 11 and beyond keep their logits."""
    label = torch.arange(30 * size) % size
    test = 4 * normal(30, size, seed=5)
    logits = 6 * torch.eye(size, dtype=torch.double)[label] + normal(30 * size, size)
    label[0] = 1
    ours = openness.openmax(test, openness.fit_openmax(logits, label)).numpy()
    f = logits.numpy()
    y = label.numpy()

    def d(a, b):
        return distance.euclidean(a, b) / 200 + distance.cosine(a, b)

    alpha = min(10, size)
    centres = []
    fits = []
    for c in range(size):
        mine = f[(y == c) & (f.argmax(1) == c)]
        centres.append(mine.mean(0))
        largest = sorted(d(row, centres[c]) for row in mine)[-min(20, len(mine) // 2) :]
        # libMR fits the tail once its smallest distance is 1, and asks the CDF of new ones there.
        translate = 1 - largest[0]
        shape, _, scale = stats.weibull_min.fit(np.array(largest) + translate, floc=0)
        fits.append((shape, 0, scale, translate))
    for row, probability in zip(test.numpy(), ours):
        new = row.copy()
        unknown = 0.0
        for i, c in enumerate(np.argsort(-row)):
            outside = stats.weibull_min.cdf(d(row, centres[c]) + fits[c][3], *fits[c][:3])
            w = 1 - max(0, alpha - i) / alpha * outside
            new[c] = row[c] * w
            unknown += row[c] * (1 - w)
        assert probability == pytest.approx(special.softmax(np.append(new, unknown)), abs=1e-6)


def test_doc_thresholds_are_numpys():
    prob = normal(60, 4).sigmoid() * 0.5 + 0.5
    label = torch.arange(60) % 3
    prob[label == 0] = 1 - 0.1 * (1 - prob[label == 0])
    ours = openness.doc_thresholds(prob, label).numpy()
    for c in range(3):
        own = prob[label == c, c].numpy()
        sigma = np.std(np.concatenate([own, 1 + (1 - own)]))
        assert ours[c] == pytest.approx(max(0.5, 1 - 3 * sigma))
    assert ours[0] > 0.8 and ours[3] == 0.5
