"""Deep Graph Infomax against PyG's, and what its embedding is good for."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import DeepGraphInfomax, GCNConv
from torch_geometric.utils import stochastic_blockmodel_graph

from graphgym_srnc.backbones.dgi import Infomax, train_infomax
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.sparse import Sparse


def blocks(share: float = 1.0, size: int = 60) -> Data:
    """Three planted blocks whose features hint at them; a share of the features is not zero."""
    torch.manual_seed(0)
    y = torch.arange(3).repeat_interleave(size)
    edges = stochastic_blockmodel_graph([size] * 3, torch.full((3, 3), 0.01) + 0.29 * torch.eye(3))
    x = (torch.rand(len(y), 30) < share).float() * (
        torch.rand(len(y), 30) + 2 * (torch.arange(30) % 3 == y[:, None])
    )
    return Data(x=x, edge_index=edges, y=y)


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_equals_pyg(share):
    data = blocks(share)
    graph = Graph(data, "none")
    assert isinstance(graph.x, Sparse) == (share < 0.2)
    model = Infomax(30, 16)
    nn.init.normal_(model.bias)
    permutation = torch.randperm(data.num_nodes)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(30, 16)
            self.act = nn.PReLU(16)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.act(self.conv(x, edge_index))

    theirs = DeepGraphInfomax(
        16,
        Encoder(),
        lambda z, *_: z.mean(0).sigmoid(),
        lambda x, edge_index: (x[permutation], edge_index),
    )
    theirs.encoder.load_state_dict(
        {"conv.lin.weight": model.weight.T, "conv.bias": model.bias, "act.weight": model.slope}
    )
    theirs.weight.data.copy_(model.discriminator.data)
    z, corrupted, summary = theirs(data.x, data.edge_index)
    assert torch.allclose(model(graph), z, atol=1e-5)
    loss = model.loss(graph, permutation)
    expected = theirs.loss(z, corrupted, summary)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    loss.backward()
    expected.backward()
    pairs = {
        "weight": theirs.encoder.conv.lin.weight.grad.T,
        "bias": theirs.encoder.conv.bias.grad,
        "slope": theirs.encoder.act.weight.grad,
        "discriminator": theirs.weight.grad,
    }
    for name, gradient in pairs.items():
        assert torch.allclose(getattr(model, name).grad, gradient, atol=1e-5), name


def test_training_is_seeded_stops_early_and_keeps_the_best(monkeypatch):
    graph = Graph(blocks())
    values = []
    loss = Infomax.loss
    torch.manual_seed(2)
    first = train_infomax(graph, hidden=8, steps=3)
    torch.manual_seed(2)
    assert torch.equal(first(graph), train_infomax(graph, hidden=8, steps=3)(graph))

    def recorded(self: Infomax, graph: Graph) -> torch.Tensor:
        value = loss(self, graph, torch.arange(180).flip(0))
        values.append(value.item())
        return value

    monkeypatch.setattr(Infomax, "loss", recorded)
    model = train_infomax(graph, hidden=8, steps=400, patience=3, lr=0.5)
    assert len(values) < 400 and len(values) - 1 - values.index(min(values)) == 3
    assert recorded(model, graph).item() == pytest.approx(min(values), abs=1e-6)
    assert not model.training
