"""Several classifiers of the same classes, which see features, hop features or edges."""

from __future__ import annotations

from typing import Sequence, cast

import torch
from torch import Tensor, nn

from graphgym_srnc import backbones
from graphgym_srnc.backbones import Encoder, EncoderSpec, Graph, PerGraph
from graphgym_srnc.backbones.sign import HopFeatures
from graphgym_srnc.methods.shared.forest import Forest
from graphgym_srnc.methods.shared.training import MakeOptimizer, Term, all_logits, fit_terms

LOCAL_BATCH = 1024  # nodes per step of a classifier that reads no neighbours
NEGLIGIBLE = 0.05  # share of the weight below which a classifier is left out


class Evidence(nn.Module):
    r"""A log-linear mixture of classifiers.

    .. math:: \log P(k) = \sum_m w_m \log P_m(k) + \text{const}

    Args:
        specs: specification of each network, see :func:`specs`.
        in_dim, out_dim: numbers of features and of classes.
        sizes: ``batch_size`` and ``fanout`` of the method.
        with_forest: whether a random forest on features is the last classifier.

    Attributes:
        weight: :math:`w`, ``[M]``. Their sum is an inverse temperature.
    """

    weight: Tensor

    def __init__(
        self,
        specs: Sequence[EncoderSpec],
        in_dim: int,
        out_dim: int,
        sizes: tuple[int, int],
        with_forest: bool = False,
    ) -> None:
        super().__init__()
        self.specs = list(specs)
        self.dims = (in_dim, out_dim)
        self.sizes = sizes
        self.with_forest = with_forest
        self.networks = nn.ModuleList(backbones.build(spec, in_dim, out_dim) for spec in specs)
        self.kinds = [spec.kind for spec in specs]
        if with_forest:
            self.networks.append(Forest(in_dim, out_dim))
            self.kinds.append(Forest.kind)
        count = len(self.kinds)
        self.register_buffer("weight", torch.full((count,), 1 / count))
        self.cached = PerGraph()
        self.register_load_state_dict_post_hook(_forget_logits)

    @property
    def gnn(self) -> Encoder:
        """The GNN of the config."""
        return cast(Encoder, self.networks[0])

    def untrained(self) -> Evidence:
        """New classifiers of the same specifications, with the same weights."""
        evidence = Evidence(self.specs, *self.dims, self.sizes, self.with_forest)
        evidence.to(self.weight.device).weight.copy_(self.weight)
        return evidence

    def find_hop_features(self, graph: Graph) -> None:
        """Reduce the features of the classifier on hop features to those of a graph."""
        self.hop_features.fit(graph)

    @property
    def hop_features(self) -> HopFeatures:
        """The features of the classifier on hop features, by graph."""
        bases = (getattr(network, "base", None) for network in self.networks)
        return next(base for base in bases if isinstance(base, HopFeatures))

    @property
    def _mlp(self) -> int:
        """Number of the MLP on features alone."""
        return self.kinds.index("mlp")

    def by_features(self, graph: Graph) -> Tensor:
        """Log posterior of the MLP on features alone, ``[V, out_dim]``."""
        return self._logits(self._mlp, graph).log_softmax(1)

    def _logits(self, number: int, graph: Graph) -> Tensor:
        """Logits of all nodes by a classifier, ``[V, out_dim]``, computed once after training."""
        found = self.cached.setdefault(graph, {})
        if number not in found:
            network = self.networks[number]
            if isinstance(network, Forest):
                found[number] = network.logits(graph)
            else:
                found[number] = all_logits(cast(Encoder, network), graph, self.sizes[0])
        return found[number]

    def favour_features(self, share: float) -> None:
        """Move a share of all weights to the MLP on features alone."""
        total = self.weight.sum()
        self.weight.mul_(1 - share)
        self.weight[self._mlp] += share * total

    @property
    def figures(self) -> dict[str, float]:
        """The weights by kind of classifier, for the record of a run."""
        return {f"weight_{kind}": w for kind, w in zip(self.kinds, self.weight.tolist())}

    @property
    def used(self) -> dict[int, float]:
        """The weights by number of the classifiers whose weight is not negligible."""
        smallest = NEGLIGIBLE * float(self.weight.sum())
        return {k: weight for k, weight in enumerate(self.weight.tolist()) if weight >= smallest}

    def fit(
        self,
        terms: Sequence[Term],
        steps: int,
        make_optimizer: MakeOptimizer,
        until_converged: bool,
    ) -> dict[str, float]:
        """Train the classifiers on cross-entropies; return the mean last losses of networks."""
        figures: dict[str, float] = {}
        self.cached.clear()
        used = [self.networks[number] for number in self.used]
        networks = [cast(Encoder, one) for one in used if not isinstance(one, Forest)]
        for network in networks:
            optimizer = make_optimizer(network.parameters())
            batch_size, fanout = self.sizes
            if network.local:
                batch_size = batch_size or LOCAL_BATCH
            losses = fit_terms(
                network,
                optimizer,
                terms,
                steps,
                batch_size,
                fanout,
                until_converged=until_converged,
            )
            for name, loss in losses.items():
                figures[name] = figures.get(name, 0.0) + loss / len(networks)
        for forest in used:
            if isinstance(forest, Forest):
                forest.fit(terms)
        return figures

    def log_posteriors(self, graph: Graph, num_classes: int) -> Tensor:
        """Log posteriors of all nodes by each used classifier, ``[M, V, num_classes]``."""
        logits = [self._logits(number, graph) for number in self.used]
        return torch.stack([z[:, :num_classes].log_softmax(1) for z in logits])

    def log_posterior(self, graph: Graph, num_classes: int) -> Tensor:
        """Log posterior of the mixture for all nodes of a graph, ``[V, num_classes]``."""
        log_p = self.log_posteriors(graph, num_classes)
        weight = log_p.new_tensor([*self.used.values()])
        return torch.tensordot(weight, log_p, 1).log_softmax(1)


def _forget_logits(evidence: Evidence, _: object) -> None:
    """Forget the logits of earlier weights."""
    evidence.cached.clear()


def specs(encoder: EncoderSpec, in_dim: int) -> list[EncoderSpec]:
    """Specifications of the GNN, of an MLP on hop features and of an MLP on features alone."""
    on_hops = backbones.own(encoder, "sign", HopFeatures(in_dim))
    on_features = backbones.own(encoder, "mlp")
    return [encoder, *[spec for spec in (on_hops, on_features) if spec.kind != encoder.kind]]
