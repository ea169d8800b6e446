"""Deep Graph Infomax of Veličković et al. (ICLR 2019), an unsupervised node embedding."""

from __future__ import annotations

import copy
import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.backbones.encoder import EncoderSpec
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.backbones.layers import MLP
from graphgym_srnc.backbones.view import Block
from graphgym_srnc.core import progress


class DGI(MLP):
    """Perceptron on the embedding of a frozen :class:`Infomax`, ``spec.base``."""

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        base = Infomax(in_dim, spec.hidden) if spec.base is None else copy.deepcopy(spec.base)
        super().__init__(spec, cast(Infomax, base).bias.numel(), out_dim)
        self.base = cast(Infomax, base.eval().requires_grad_(False))

    @staticmethod
    def pretrain(spec: EncoderSpec, target: Graph) -> Infomax:
        """Train the embedding that all encoders of a run share."""
        return train_infomax(target, hidden=spec.hidden)

    @torch.no_grad()
    def inputs(self, graph: Graph) -> Tensor:
        return self.base(graph)


class Infomax(nn.Module):
    r"""One-layer GCN trained to discriminate a graph from a copy with shuffled features.

    :math:`z_i` is the embedding of a node, :math:`\tilde z_i` that with shuffled features, and
    :math:`s = \sigma(\frac1V \sum_i z_i)`. The discriminator :math:`\sigma(z_i^\top M s)` is
    trained to accept :math:`z_i` and to reject :math:`\tilde z_i`.
    """

    def __init__(self, in_dim: int, hidden: int) -> None:
        super().__init__()
        bound = hidden**-0.5
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_dim, hidden)))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.slope = nn.Parameter(torch.full((hidden,), 0.25))
        self.discriminator = nn.Parameter(torch.empty(hidden, hidden).uniform_(-bound, bound))

    def forward(self, graph: Graph) -> Tensor:
        """Embedding of all nodes, ``[V, H]``."""
        block = Block(graph.adjacency("gcn"))
        return self._activate(block.propagate(graph.x, self.weight))

    def loss(self, graph: Graph, permutation: Tensor | None = None) -> Tensor:
        """Cross-entropy of the discriminator; ``permutation`` ``[V]`` is random by default."""
        if permutation is None:
            permutation = torch.randperm(graph.num_nodes, device=graph.device)
        # Both graphs share XW, the most expensive product, since they share the rows of X.
        adjacency = graph.adjacency("gcn")
        projected = graph.x @ self.weight
        z = self._activate(adjacency @ projected)
        corrupted = self._activate(adjacency @ projected[permutation])
        direction = self.discriminator @ z.mean(0).sigmoid()
        return F.softplus(-(z @ direction)).mean() + F.softplus(corrupted @ direction).mean()

    def _activate(self, h: Tensor) -> Tensor:
        return F.prelu(h + self.bias, self.slope)


def train_infomax(
    graph: Graph, hidden: int = 512, steps: int = 300, patience: int = 20, lr: float = 1e-3
) -> Infomax:
    """:class:`Infomax` with the weights of the lowest loss of full-batch Adam, in eval mode.

    Training stops after ``patience`` steps without a lower loss.
    """
    model = Infomax(graph.num_features, hidden).to(graph.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    best = model.state_dict()
    lowest = math.inf
    waited = 0
    for step in progress.steps(steps):
        loss = model.loss(graph)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise FloatingPointError(f"dgi: loss is {value} at step {step}")
        waited += 1
        if value < lowest:
            best = copy.deepcopy(model.state_dict())
            lowest = value
            waited = 0
        if waited == patience:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.load_state_dict(best)
    return model.eval()
