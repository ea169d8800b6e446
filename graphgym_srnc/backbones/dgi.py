"""Deep Graph Infomax of Velickovic et al. (ICLR 2019): an embedding learnt from features and edges, without any label."""
from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc import cache
from graphgym_srnc.backbones.encoder import EncoderSpec
from graphgym_srnc.backbones.graph import Block, Graph, View
from graphgym_srnc.backbones.mlp import MLP, _Own
from graphgym_srnc.errors import InputError


class Infomax(nn.Module):
    r"""A one-layer GCN that tells the graph's own nodes from nodes with shuffled features, given a summary of the graph.

    With :math:`z_i` a node's embedding, :math:`\tilde z_i` that under shuffled features and :math:`s = \sigma(\frac1V \sum_i z_i)`,
    the discriminator :math:`\sigma(z_i^\top M s)` has to say yes to :math:`z_i` and no to :math:`\tilde z_i`.

    Args:
        in_dim: number of features :math:`F`.
        hidden: width :math:`H` of the embedding.

    Raises:
        InputError: ``hidden`` is below 1.
    """

    def __init__(self, in_dim: int, hidden: int = 512) -> None:
        super().__init__()
        if hidden < 1:
            raise InputError("dgi.hidden", hidden, "1 or more")
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_dim, hidden)))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.slope = nn.Parameter(torch.full((hidden,), 0.25))
        self.discriminator = nn.Parameter(torch.empty(hidden, hidden).uniform_(-(hidden ** -0.5), hidden ** -0.5))

    def forward(self, graph: Graph) -> Tensor:
        """The embedding of all nodes, ``[V, H]``."""
        return self._activate(Block(graph.adjacency("gcn")).propagate(graph.x, self.weight))

    def loss(self, graph: Graph, permutation: Tensor | None = None) -> Tensor:
        """Binary cross-entropy of the discriminator: its mean over the graph's nodes plus its mean over the corrupted ones.

        Args:
            graph: the graph.
            permutation: which node's features each node gets in the corrupted graph, ``[V]``; by default a random one.
        """
        if permutation is None:
            permutation = torch.randperm(graph.num_nodes, device=graph.device)
        # Rows of XW are those of X: both graphs share this product, by far the dearest one, in either direction.
        adjacency, projected = graph.adjacency("gcn"), graph.x @ self.weight
        z, corrupted = self._activate(adjacency @ projected), self._activate(adjacency @ projected[permutation])
        direction = self.discriminator @ z.mean(0).sigmoid()
        return F.softplus(-(z @ direction)).mean() + F.softplus(corrupted @ direction).mean()

    def _activate(self, h: Tensor) -> Tensor:
        return F.prelu(h + self.bias, self.slope)


def train_infomax(graph: Graph, hidden: int = 512, steps: int = 300, patience: int = 20, lr: float = 1e-3) -> Infomax:
    """Train :class:`Infomax` on a graph by full-batch Adam, as its authors do, and keep the weights of the lowest loss.

    Args:
        graph: the graph; no label is read.
        hidden: width of the embedding.
        steps: most steps.
        patience: stop after so many steps without a lower loss.
        lr: learning rate; there is no weight decay.

    Returns:
        The trained module in eval mode; ``module(graph)`` is the embedding.

    Raises:
        InputError: an argument is not above 0.
        FloatingPointError: the loss is not finite.
    """
    for name, value in {"steps": steps, "patience": patience, "lr": lr}.items():
        if not value > 0:
            raise InputError(f"dgi.{name}", value, "above 0")
    model = Infomax(graph.num_features, hidden).to(graph.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    kept, lowest, waited = {name: value.clone() for name, value in model.state_dict().items()}, float("inf"), 0
    for step in range(steps):
        loss = model.loss(graph)
        value = float(loss.detach())
        if value != value or value == float("inf"):
            raise FloatingPointError(f"dgi: loss is {value} at step {step}")
        waited += 1
        if value < lowest:
            lowest, waited = value, 0
            for name, weight in model.state_dict().items():
                kept[name].copy_(weight)
        if waited == patience:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.load_state_dict(kept)
    return model.eval()


class DGI(MLP):
    """A multi-layer perceptron on the embedding of an :class:`Infomax` that was trained on the target graph and stays as it is.

    Args:
        spec: its ``base`` is the trained :class:`Infomax`, see :func:`graphgym_srnc.backbones.pretrained`; its ``layers`` and
            ``hidden`` are those of the perceptron.
        in_dim, out_dim: number of features and of logits.
    """

    def __init__(self, spec: EncoderSpec, in_dim: int, out_dim: int) -> None:
        # Without a base, as in a check of the config, there are weights to look at but nothing to train.
        base = Infomax(in_dim, spec.hidden) if spec.base is None else copy.deepcopy(spec.base)
        super().__init__(spec, base.bias.numel(), out_dim)
        self.base = base.eval().requires_grad_(False)

    @staticmethod
    def pretrain(spec: EncoderSpec, target: Graph) -> Infomax:
        """The embedding that all encoders of a run share, as wide as their hidden layers; on the CPU it is learnt once and kept."""
        if target.device.type != "cpu":
            return train_infomax(target, spec.hidden)
        weights = cache.memoise("dgi", lambda: train_infomax(target, spec.hidden).state_dict(), (target.content, spec.hidden))
        with torch.device("meta"):
            model = Infomax(target.num_features, spec.hidden)
        model.load_state_dict(weights, assign=True)
        return model.eval()

    @torch.no_grad()
    def view(self, graph: Graph, nodes: Tensor | None = None) -> View:
        x = self.base(graph)
        return View(x if nodes is None else x[nodes], [_Own()] * len(self.layers))
