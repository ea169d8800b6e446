"""UDAGCN (Wu et al., WWW 2020): two views of each graph, near and far, and nobody can tell both."""
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, Graph, View, build, ppmi_graph
from graphgym_srnc.losses.adversarial import domain_loss, reverse_gradient
from graphgym_srnc.methods.scores import Scored
from graphgym_srnc.options import Count, Weight
from graphgym_srnc.task import ShiftTask, Sizes


class UDAGCN(Scored):
    r"""One encoder reads the graph and its PPMI graph, and attention mixes both embeddings.

    .. math:: z = \sum_{v \in \{A, P\}} a_v h_v, \quad a = \text{softmax}_v(h_v u), \quad
        \mathcal L = \text{CE}(f_S) + \text{BCE}(d(R_\lambda(z_S)), 1)
        + \text{BCE}(d(R_\lambda(z_T)), 0) + w_e(p) \, H(f_T)

    with :math:`f` linear in :math:`z`, :math:`R_\lambda` a reversed gradient, :math:`H` the mean
    entropy of the predictions and :math:`w_e` rising linearly over the training.

    Args:
        strength: :math:`\lambda`, after the first steps.
        entropy_weight: :math:`w_e` at the end.
        domain_dim: width of the domain classifier's hidden layer.
        walks: random walks from each node, see :func:`graphgym_srnc.backbones.ppmi.ppmi`.
        walk_length: longest of them.
    """

    in_batches = False
    encoder_defaults = {"features": "none", "hidden": 128, "dropout": 0.4}
    search = {"strength": (0.01, 0.05, 0.2), "entropy_weight": (0.0, 0.01, 0.1)}

    def __init__(self, *, strength: Weight = 0.05, entropy_weight: Weight = 0.01,
                 domain_dim: Count = 40, walks: Count = 40, walk_length: Count = 10,
                 **base) -> None:
        super().__init__(**base)
        self.strength, self.entropy_weight, self.domain_dim = strength, entropy_weight, domain_dim
        self.walks, self.walk_length = walks, walk_length

    def new_classifier(self, num_outputs: int) -> Encoder:
        """The encoder of both views; the classes are the head's."""
        return build(self.encoder, self.task.num_features, self.encoder.hidden)

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.attention = nn.Linear(self.encoder.hidden, 1)
        self.head = nn.Linear(self.encoder.hidden, task.num_known)

    def begin(self) -> None:
        self.on_source, self.on_target = self._views(self.source), self._views(self.target)
        self.domain = nn.Sequential(nn.Linear(self.encoder.hidden, self.domain_dim), nn.ReLU(),
                                    nn.Dropout(self.encoder.dropout), nn.Linear(self.domain_dim, 1))

    def losses(self) -> dict[str, Tensor]:
        source = self.embed(self.on_source)[self.task.train]
        target = self.embed(self.on_target)[self.task.pool]
        strength = min(self.progress, self.strength)
        domains = [self.domain(reverse_gradient(z, strength)).view(-1) for z in (source, target)]
        log_p = self.head(target).log_softmax(1)
        entropy = -(log_p.exp() * log_p).sum(1).mean()
        return {"source": F.cross_entropy(self.head(source), self.labels),
                "domain": domain_loss(*domains),
                "entropy": self.entropy_weight * self.progress * entropy}

    def embed(self, views: list[View]) -> Tensor:
        """The mixed embedding ``[V, H]`` of the nodes of both views."""
        both = torch.stack([self.classifier(view) for view in views], 1)
        return (both * self.attention(both).softmax(1)).sum(1)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        """Logits ``[V, N]``; the walks are the same at each call."""
        self.eval()
        return self.head(self.embed(self._views(self.prepared(graph))))

    def _views(self, graph: Graph) -> list[View]:
        far = ppmi_graph(graph, self.walks, self.walk_length)
        return [self.classifier.view(graph), self.classifier.view(far)]
