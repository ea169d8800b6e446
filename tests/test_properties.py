"""Every method on any graph trains without a NaN, and predicts nodes whatever their order."""

from __future__ import annotations

import itertools
import math
import os

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tasks import tiny_method
from torch_geometric.data import Data

from graphgym_srnc import methods
from graphgym_srnc.backbones import BACKBONES
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.shifts.given import from_data, unlabelled
from graphgym_srnc.train import trainer

pytestmark = pytest.mark.usefixtures("hardly_pretrained")

EXAMPLES = max(2, int(os.environ.get("GRAPHGYM_SRNC_FUZZ") or 0) // 200)
"""Tasks a method and kind of shift."""

FEATURES = ("random", "one", "constant", "bare rows", "words")


@st.composite
def graphs(draw: st.DrawFn, classes: int, width: int, kind: str) -> Data:
    """A block model with odd sizes, isolated nodes, self-loops and repeated or one-way edges.

    The last class may have a single node.
    """
    sizes = [draw(st.integers(3, 12)) for _ in range(classes - 1)] + [draw(st.integers(1, 12))]
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    y = torch.repeat_interleave(torch.arange(classes), torch.tensor(sizes))
    y = y[torch.randperm(len(y), generator=rng)]
    inside, across = draw(
        st.sampled_from([(0.0, 0.1), (0.4, 0.05), (0.1, 0.5), (1.0, 0.0), (0.02, 0.02)])
    )
    chance = torch.where(y[:, None] == y, inside, across)
    edges = (torch.rand(len(y), len(y), generator=rng) < chance).nonzero().T
    # No graph is without an edge.
    extra = torch.tensor([[0, 1, 1], [1, 0, 1]])
    edges = torch.cat([extra, edges, *([edges[:, :5]] * draw(st.integers(0, 2)))], 1)
    if kind == "words":
        x = (torch.rand(len(y), width, generator=rng) < 0.1).float()
    elif kind == "constant":
        x = torch.ones(len(y), width)
    else:
        x = torch.rand(len(y), width, generator=rng) + torch.eye(classes, width)[y]
    if kind == "bare rows":
        x[::2] = 0
    return Data(x=x * draw(st.sampled_from([1.0, 1e-4, 1e4])), edge_index=edges, y=y)


@st.composite
def tasks(draw: st.DrawFn, open_set: bool) -> ShiftTask:
    """A task of one graph with an unseen class, or of two graphs; a class has 1 to 3 labels."""
    classes = draw(st.integers(2, 4)) + open_set
    kind = draw(st.sampled_from(FEATURES))
    width = 1 if kind == "one" else draw(st.sampled_from([2, 7, 40]))
    source = draw(graphs(classes, width, kind))
    target = None if open_set else draw(graphs(classes, width, kind))
    many = draw(st.integers(1, 3))
    own = torch.cat([(source.y == c).nonzero()[:many, 0] for c in range(classes - open_set)])
    source.train_mask = torch.zeros(len(source.y), dtype=torch.bool).index_fill(0, own, True)
    place = source if target is None else target
    free = ~source.train_mask if target is None else torch.ones(len(target.y), dtype=torch.bool)
    odd = torch.arange(len(place.y)) % 2 == 1
    place.val_mask = free & odd
    place.test_mask = free & ~odd
    return from_data(source, target, open_set=open_set)[0]


def check(method: Method, task: ShiftTask, order: torch.Tensor) -> None:
    """Train; then nodes in another order, and edges told otherwise, are predicted alike."""
    record = trainer.fit(method, task, seed=0, max_episodes=1)
    assert all(
        math.isfinite(value) for episode in record.history for value in episode.losses.values()
    )
    graph = task.target
    scores = method.predict(graph)
    assert len(scores) == graph.num_nodes and bool(torch.isfinite(scores).all())
    posterior = method.posterior(scores)
    decided = method.decide(scores)
    torch.testing.assert_close(
        posterior.sum(1), torch.ones(len(scores), dtype=posterior.dtype), rtol=0, atol=1e-6
    )
    assert bool(((decided >= 0) & (decided < task.num_outputs)).all())
    rank = order.argsort()
    permuted = Data(x=graph.x[order], edge_index=rank[graph.edge_index])
    close(method.predict(unlabelled(permuted)), scores[order])
    loops = torch.arange(graph.num_nodes).repeat(2, 1)
    more = Data(
        x=graph.x,
        edge_index=torch.cat([graph.edge_index.flip(1), graph.edge_index[:, ::2], loops, loops], 1),
    )
    close(method.predict(unlabelled(more)), scores)


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Equal but for the order in which sums are taken."""
    torch.testing.assert_close(
        found, wanted, rtol=1e-3, atol=1e-4 * max(1.0, float(wanted.abs().max()))
    )


@pytest.mark.parametrize("name, open_set", zip(methods.names(), itertools.cycle([True, False])))
def test_a_method_on_any_graph(name, open_set):
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        task=tasks(open_set), kind=st.sampled_from(sorted(set(BACKBONES) - {"dgi"})), data=st.data()
    )
    def on(task: ShiftTask, kind: str, data: st.DataObject) -> None:
        method = tiny_method(name, kind, hidden=4)
        if method.oracle:
            object.__setattr__(task, "oracle", task)
        rng = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
        order = torch.randperm(task.target.num_nodes, generator=rng)
        check(method, task, order)

    on()
