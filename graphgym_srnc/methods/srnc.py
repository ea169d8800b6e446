"""Shift-Robust Node Classification: a classifier and cluster GNNs that teach each other by turns (Algorithm 1 of the paper)."""
from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any, Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc import backbones
from graphgym_srnc.backbones import FEATURES, EncoderSpec, Graph
from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.alignment import evidence_lower_bound
from graphgym_srnc.losses.modularity import newman_resolution
from graphgym_srnc.methods.base import Method
from graphgym_srnc.methods.cluster_gnn import USED_SHARE, ClusterGNN, Clusters
from graphgym_srnc.methods.training import fit_labels, hidden_and_group, minimise
from graphgym_srnc.task import ShiftTask, Sizes

LADDER = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
"""Resolutions that the rule tries."""


class SRNC(Method):
    r"""Shift-Robust Node Classification, the paper's algorithm. Options beyond the paper are off by default, but for DMoN's collapse
    term, no weight decay of the cluster GNNs, and the order of pre-training in close-set shift.

    Args:
        num_clusters: :math:`C`; 0 = max(16, 3(N + 1)) in open-set shift. Close-set shift always has :math:`C = N`.
        pretrain_steps: steps of the classifier in episode 0.
        cluster_pretrain_steps: steps of each cluster GNN in episode 0, on modularity.
        cluster_source_steps: the same on the source labels, where ``cluster_init`` starts from them.
        rounds: episodes after episode 0, for each resolution.
        cluster_steps: :math:`T`, steps of each cluster GNN per episode.
        source_batch: :math:`B`, source nodes drawn per such step; 0 = all.
        steps: steps of the classifier per episode.
        alpha: :math:`\alpha`, weight of pseudo-labels on unlabelled source nodes.
        source_regularizer: whether :math:`\mathcal L_{\Phi,\theta,S}` is used (an ablation of the paper's appendix).
        source_posterior: ``labels`` = regularise on labelled source nodes; ``classifier`` = on all source nodes, by
            :math:`P_\theta` where there is no label.
        pseudo_labels: ``cluster``, or ``classifier`` for the ablation without :math:`\Phi`.
        unknown_share: in that ablation, the share of pseudo-labels that are unknown.
        cluster_init: ``modularity`` (the paper's order), ``source`` (fit the source labels first) or ``auto``: ``source`` in
            close-set shift, where the paper's order collapses.
        cluster_hidden: width of cluster GNNs; 0 = that of the classifier.
        cluster_lr: learning rate of cluster GNNs.
        cluster_weight_decay: weight decay of cluster GNNs.
        cluster_features: how cluster GNNs scale features: ``row``, ``l2``, ``auto`` or ``none``.
        resolutions: :math:`\gamma`, weights of the degree term of modularity, each tried in turn for ``rounds`` episodes; empty =
            by the rule of :meth:`choose_resolutions`.
        candidates: how many resolutions the rule keeps.
        collapse: weight of DMoN's collapse term.
        modularity_weight: weight of :math:`\mathcal L_{\Phi,T}` against :math:`\mathcal L_{\Phi,\theta,S}`.
        members: number of cluster GNNs, whose class posteriors are averaged. Where ``cluster_init`` starts them from the source labels
            there is one: all would begin as the same classifier.
        product: exponent of the classifier's posterior that multiplies the pseudo-label posterior; 0 = the paper.
        drop_unsure: in open-set shift, the share of target nodes with the least sure pseudo-labels that are never drawn. In close-set
            shift those are the very nodes that the shift has moved, and all are drawn.
        target_ratio: target nodes drawn per episode, in multiples of :math:`|D^s|`.
        hard_labels: take the likeliest pseudo-label rather than a sample.
        calibrated: whether the cut between known and unknown is moved on validation, as the baselines' thresholds are.
        self_training: in open-set shift, episodes at the end of each resolution in which a new classifier learns from the sure ones
            among the last one's own decisions on the whole target.
    """

    prior = 0.0
    kept = (*Method.kept, "pretrained", "resolutions")

    def __init__(self, *, num_clusters: int = 16, pretrain_steps: int = 100, cluster_pretrain_steps: int = 150,
                 cluster_source_steps: int = 60, rounds: int = 5, cluster_steps: int = 20, source_batch: int = 32, steps: int = 60,
                 alpha: float = 0.0, source_regularizer: bool = True, source_posterior: str = "labels", pseudo_labels: str = "cluster",
                 unknown_share: float = 0.5, cluster_init: str = "auto", cluster_hidden: int = 0, cluster_lr: float = 0.01,
                 cluster_weight_decay: float = 0.0, cluster_features: str = "auto", resolutions: list[float] = [1.0],  # noqa: B006
                 candidates: int = 3, collapse: float = 1.0, modularity_weight: float = 1.0, members: int = 1, product: float = 0.0,
                 drop_unsure: float = 0.0, target_ratio: float = 1.0, hard_labels: bool = False, calibrated: bool = False,
                 self_training: int = 0, **base) -> None:
        super().__init__(**base)
        options = {name: value for name, value in locals().items() if name not in ("self", "base", "__class__")}
        self.check(options)
        self.options = options
        self.reset()
        self.episodes = (rounds + self_training) * max(1, len(resolutions))
        self.register_buffer("number", torch.tensor(0))
        self.register_buffer("knows_unknown", torch.tensor(False))

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.adapt(task)
        self.classifier = self.new_classifier(task.num_outputs)
        members = 0 if self.pseudo_labels == "classifier" else self.members
        self.clusters = nn.ModuleList(Clusters(self.cluster_encoder, task.num_features, self.num_clusters, task.num_outputs,
                                               self.batch_size) for _ in range(members))

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Episode 0: pre-train the classifier on the source and the cluster GNNs on the target (lines 1 and 2 of Algorithm 1)."""
        self.setup(task)
        self.number.zero_()
        self.ready()
        if not task.open_set and self.cluster_init == "modularity":
            self.warnings.append("cluster_init modularity: in close-set shift the paper's order leaves clusters that are not the classes")
        if task.open_set and self.source is not self.target:
            self.warnings.append("open-set shift between two graphs: all clusters but one a class count as unknown, which has been too many"
                                 " where a class is many communities; compare with erm")
        source = fit_labels(self.classifier, self.optimizer, self.source, task.train, self.labels, self.pretrain_steps, task.num_known,
                            self.batch_size, self.fanout)
        self.pretrained = copy.deepcopy(self.classifier.state_dict())
        self.probes: dict[float, ClusterGNN] = {}
        self.resolutions = list(self.resolutions) or self.choose_resolutions()
        self.episodes = (self.rounds + self.self_training) * len(self.resolutions)
        # What the task has switched is told, since the config says otherwise.
        return {"source": source, "num_clusters": self.num_clusters, "members": self.members} | self.begin(self.resolutions[0])

    def ready(self) -> None:
        task = self.task
        self.adapt(task)
        self.cluster_source, self.cluster_target = (backbones.prepare(g, self.cluster_features) for g in (task.source, task.target))
        self.one_hot = F.one_hot(self.labels, task.num_known).float()
        if not task.num_known <= self.num_clusters <= task.target.num_nodes:
            allowed = f"{task.num_known} (known classes) to {task.target.num_nodes} (nodes)"
            raise InputError("srnc.num_clusters", self.num_clusters, allowed)
        self.classifier = self.new_classifier(task.num_outputs).to(task.device)
        self.optimizer = self.make_optimizer(self.classifier.parameters())

    def checkpoint(self) -> dict[str, Any]:
        """See :meth:`Method.checkpoint`; cluster GNNs have optimisers of their own, and those of later resolutions wait, pre-trained."""
        clusters, probes = ([cluster.checkpoint() for cluster in part] for part in (self.clusters, self.probes.values()))
        return super().checkpoint() | {"clusters": clusters, "probes": probes}

    def load(self, state: dict[str, Any]) -> None:
        clusters, probes = ([self.new_cluster_gnn(saved["resolution"]).restore(saved) for saved in state[part]]
                            for part in ("clusters", "probes"))
        self.clusters, self.probes = nn.ModuleList(clusters), {probe.resolution: probe for probe in probes}
        super().load(state)

    def reset(self) -> None:
        """Take the options as they were given; a task may switch some of them for itself."""
        for name, value in self.options.items():
            setattr(self, name, value)

    def adapt(self, task: ShiftTask | Sizes) -> None:
        """Take the options as they were given, and switch those that the kind of shift decides."""
        self.reset()
        if not task.open_set:
            self.drop_unsure, self.self_training, self.num_clusters = 0.0, 0, task.num_known
        elif not self.num_clusters:
            self.num_clusters = max(16, 3 * task.num_outputs)
        self.from_source = self.cluster_init == "source" or self.cluster_init == "auto" and not task.open_set
        if self.from_source:
            self.members = 1
        if self.encoder.base is not None:
            self.cluster_features = self.encoder.features  # what lies under the encoder was trained with them

    def episode(self) -> dict[str, float]:
        """One turn of the while loop of Algorithm 1."""
        task, figures = self.task, {}
        stage, turn = divmod(int(self.number), self.rounds + self.self_training)
        if turn == 0 and stage > 0:
            figures |= self.begin(self.resolutions[stage])
        if turn == 0:
            # The classifier has not seen the unknown class yet; its logit starts level with the others.
            with torch.no_grad():
                self.classifier.output_bias[task.num_known:] = 0
            self.optimizer = self.make_optimizer(self.classifier.parameters())
        if turn < self.rounds:
            figures |= self.update_clusters(self.resolutions[stage])  # lines 5 to 9
            nodes, label = self.draw_target(self.pseudo_posterior())  # lines 10 and 11
        else:
            nodes, label = self.own_labels()
            self.classifier.load_state_dict(self.new_classifier(task.num_outputs).state_dict())
            self.optimizer = self.make_optimizer(self.classifier.parameters())
        figures |= self.update_classifier(nodes, label)  # lines 12 to 14
        if task.open_set:
            figures["pseudo_unknown_share"] = float((label == task.num_known).float().mean())
        self.number += 1
        self.knows_unknown.fill_(task.open_set)
        return figures | {"resolution": self.resolutions[stage], "bound": self.bound()}

    def begin(self, resolution: float) -> dict[str, float]:
        """Start from the pre-trained classifier and cluster GNNs pre-trained at one resolution."""
        self.classifier.load_state_dict(self.pretrained)
        self.knows_unknown.fill_(False)
        if self.pseudo_labels == "classifier":
            self.clusters = nn.ModuleList()
            return {}
        probe = self.probes.pop(resolution, None)
        self.clusters = nn.ModuleList(self.pretrained_cluster_gnn(resolution) if i or probe is None else probe for i in range(self.members))
        return mean([cluster.state() for cluster in self.clusters])

    @property
    def cluster_encoder(self) -> EncoderSpec:
        """The recipe of a cluster GNN: the classifier's kind of layer with SELU and a self-skip, as in DMoN."""
        hidden = self.cluster_hidden or self.encoder.hidden
        return replace(self.encoder, hidden=hidden, act="selu", skip=True, features=self.cluster_features)

    def new_cluster_gnn(self, resolution: float) -> ClusterGNN:
        """An untrained cluster GNN."""
        return ClusterGNN(self.cluster_encoder, self.num_clusters, self.task.num_outputs, self.cluster_source, self.cluster_target,
                          resolution=resolution, collapse=self.collapse, modularity_weight=self.modularity_weight, lr=self.cluster_lr,
                          weight_decay=self.cluster_weight_decay, batch_size=self.batch_size, fanout=self.fanout)

    def pretrained_cluster_gnn(self, resolution: float) -> ClusterGNN:
        """A cluster GNN trained on modularity, or from the source labels where ``cluster_init`` says so."""
        cluster = self.new_cluster_gnn(resolution)
        if self.from_source:
            cluster.pretrain_on_source(self.task.train, self.labels, self.cluster_source_steps, self.make_optimizer)
        else:
            cluster.pretrain(self.cluster_pretrain_steps)
        return cluster

    def choose_resolutions(self) -> list[float]:
        """The rule for the resolution, which reads no label of a masked class.

        Close-set shift: Newman's estimate from the source labels. Open-set shift: one cluster GNN is pre-trained at each step of
        a ladder; resolutions at which fewer clusters are in use than there are classes to tell apart, with room for the masked
        ones, are left out, and the ``candidates`` smallest of the rest are tried in turn, the trainer choosing on validation.
        """
        task = self.task
        if not task.open_set:
            return [newman_resolution(task.source.edge_index, self.cluster_source.degree, task.train, self.labels)]
        for resolution in LADDER:
            probe = self.pretrained_cluster_gnn(resolution)
            if probe.state()["used_clusters"] >= min(1.25 * task.num_outputs, self.num_clusters):
                self.probes[resolution] = probe
            if len(self.probes) == self.candidates:
                break
        return list(self.probes) or [LADDER[-1]]

    def update_clusters(self, resolution: float) -> dict[str, float]:
        """Align each cluster GNN and train it for T steps; says aloud when one cannot do its part."""
        if not self.clusters:
            return {}
        nodes, p = self.source_posteriors()
        turns = []
        for cluster in self.clusters:
            cost = cluster.align(self.task.train, self.one_hot)
            terms = cluster.update(nodes, p, self.cluster_steps, self.source_batch)
            turns.append(terms | cluster.state() | {"alignment_cost": cost})
        figures = mean(turns)
        told = []
        # A class that few labels have may well be rarer in the target: twice the share, so that one near the line is no alarm.
        common = int((torch.bincount(self.labels) >= 2 * USED_SHARE * len(self.labels)).sum()) + int(self.task.open_set)
        if figures["used_clusters"] < common:
            told.append(f"cluster GNN collapsed: {figures['used_clusters']:.1f} clusters in use for {common} classes")
        if figures["modularity"] < 0.05:
            told.append(f"cluster GNN found no communities: modularity {figures['modularity']:.3f}")
        self.warnings += [f"resolution {resolution:g}: {text}" for text in told]
        return figures

    def source_posteriors(self) -> tuple[Tensor, Tensor]:
        r"""Source nodes ``[n]`` and the posteriors ``[n, N(+1)]`` that :math:`\mathcal L_{\Phi,\theta,S}` pulls cluster GNNs to."""
        if not self.source_regularizer:
            return self.task.train[:0], self.one_hot[:0]
        if self.source_posterior == "labels":
            return self.task.train, self.one_hot
        p = self.class_posterior(self.task.source)
        p[self.task.train] = F.pad(self.one_hot, (0, p.size(1) - self.one_hot.size(1)))
        return torch.arange(len(p), device=p.device), p

    @torch.no_grad()
    def class_posterior(self, graph: Data) -> Tensor:
        r""":math:`P_\theta` ``[V, N(+1)]``; until it has been trained on pseudo-labels it gives the unknown class nothing."""
        logits = self.logits(graph)
        if not self.knows_unknown:
            logits[:, self.task.num_known:] = -torch.inf
        return logits.softmax(1)

    @torch.no_grad()
    def pseudo_posterior(self) -> Tensor:
        r"""What pseudo-labels of the target are drawn from, ``[V, N(+1)]``: the mean class posterior of the cluster GNNs.

        With ``product`` it is multiplied by :math:`P_\theta`. Without :math:`\Phi` it is the classifier's own prediction, and the
        least sure nodes are unknown.
        """
        task = self.task
        if self.pseudo_labels == "classifier":
            confidence, named = self.class_posterior(task.target)[:, :task.num_known].max(1)
            if task.open_set:
                named = named.masked_fill(confidence < confidence[task.pool].quantile(self.unknown_share), task.num_known)
            return F.one_hot(named, task.num_outputs).float()
        q = self.cluster_posterior(self.cluster_target)
        if not self.product:
            return q
        p = self.class_posterior(task.target)
        if task.open_set and not self.knows_unknown:
            # The classifier knows no unknown class yet: it may only share out what Q leaves to the known ones.
            p = torch.cat([p[:, :task.num_known] * (1 - q[:, task.num_known:]), q[:, task.num_known:]], 1)
        return F.normalize(q * p.clamp(min=1e-6) ** self.product, p=1, dim=1)

    def cluster_posterior(self, graph: Graph) -> Tensor:
        r""":math:`Q_\Phi` in the label space, ``[V, N(+1)]``, a mean over members; clusters left over by the alignment are unknown."""
        return torch.stack([cluster.log_class_posterior(graph).exp() for cluster in self.clusters]).mean(0)

    def draw_target(self, q: Tensor) -> tuple[Tensor, Tensor]:
        r"""Target nodes, drawn uniformly, and pseudo-labels from ``q`` ``[V, N(+1)]``; both ``[|D^s|]`` by default (line 11)."""
        pool = self.task.pool
        if self.drop_unsure:
            sure = q[pool].amax(1).argsort(descending=True, stable=True)
            pool = pool[sure[:max(1, round(len(pool) * (1 - self.drop_unsure)))]]
        nodes = pool[torch.randperm(len(pool), device=pool.device)[:round(self.target_ratio * len(self.task.train))]]
        return nodes, q[nodes].argmax(1) if self.hard_labels else torch.multinomial(q[nodes], 1).view(-1)

    def own_labels(self) -> tuple[Tensor, Tensor]:
        """All target nodes but the least sure, and the classes that the classifier itself decides on; both ``[n]``."""
        scores = self.predict(self.task.target)[self.task.pool]
        scores[:, self.task.num_known:] += self.threshold
        top, label = scores.topk(2)
        sure = (top[:, 0] - top[:, 1]).argsort(descending=True, stable=True)[:max(1, round(len(scores) * (1 - self.drop_unsure)))]
        return self.task.pool[sure], label[sure, 0]

    def update_classifier(self, nodes: Tensor, label: Tensor) -> dict[str, float]:
        r"""Minimise :math:`\mathcal L_\theta = \mathcal L_{\theta,S} + \mathcal L_{\theta,\Phi,T} + \alpha \mathcal L_{\theta,\Phi,S}`,
        each a mean over its nodes, for ``steps`` steps."""
        parts = [("classifier_source", self.source, self.task.train, self.labels, 1.0),
                 ("classifier_target", self.target, nodes, label, 1.0)]
        if self.alpha and self.pseudo_labels == "cluster":
            drawn = torch.randperm(self.source.num_nodes, device=self.labels.device)
            drawn = drawn[~torch.isin(drawn, self.task.train)][:len(self.task.train)]
            q = self.cluster_posterior(self.cluster_source)[drawn].detach()
            parts.append(("classifier_unlabelled", self.source, drawn, torch.multinomial(q, 1).view(-1), self.alpha))
        # Nodes of one graph share one view: their neighbourhoods overlap.
        batches = []
        for graph in [self.source] if self.source is self.target else [self.source, self.target]:
            mine = [part for part in parts if part[1] is graph]
            batches.append((self.batches(graph, *(part[2] for part in mine)), mine))

        def losses() -> dict[str, Tensor]:
            terms = {}
            for turns, mine in batches:
                view, drawn = turns()
                labels = [part[3][index] for part, index in zip(mine, drawn)]
                logits = self.classifier(view).split([len(y) for y in labels])
                terms |= {name: weight * F.cross_entropy(z, y) for z, y, (name, _, _, _, weight) in zip(logits, labels, mine)}
            return terms

        return minimise(self.classifier, self.optimizer, losses, self.steps)

    @torch.no_grad()
    def bound(self) -> float:
        """The evidence lower bound on the labelled source nodes after the episode (Eq. VEM); 0 without cluster GNNs."""
        if not self.clusters:
            return 0.0
        log_q = self.cluster_posterior(self.cluster_source)[self.task.train].clamp(min=1e-12).log()
        return float(evidence_lower_bound(log_q, self.logits(self.task.source)[self.task.train].log_softmax(1)))

    @torch.no_grad()
    def predict(self, graph: Data) -> Tensor:
        """Log posteriors of the classifier, ``[V, N(+1)]``; before episode 1 the unknown class has none."""
        return self.smooth(self.class_posterior(graph), graph).clamp(min=1e-12).log()

    def calibrate(self, scores: Tensor, label: Tensor) -> None:
        if self.calibrated:
            super().calibrate(scores, label)

    def confidence(self, scores: Tensor) -> Tensor:
        """How far the likeliest known class is above the unknown one, ``[n]``; the threshold is 0 unless ``calibrated``."""
        return scores[:, :self.task.num_known].amax(1) - scores[:, self.task.num_known]

    def log_odds(self, confidence: Tensor) -> Tensor:
        return confidence

    def cluster(self, graph: Data) -> Tensor:
        """The likeliest cluster ``[V]`` of each node of any graph with the same features, by the first cluster GNN.

        Raises:
            InputError: there is none, in the ablation without it.
        """
        self.require("pseudo_labels", self.pseudo_labels, len(self.clusters) > 0, "cluster, where there are clusters")
        return self.clusters[0].log_posterior(backbones.prepare(graph, self.cluster_features)).argmax(1)

    def views(self) -> dict[str, Callable[[Data], tuple[Tensor, Tensor]]]:
        views = super().views()
        if self.clusters:
            views["cluster_gnn"] = partial(hidden_and_group, self.clusters[0].encoder, self.cluster_features)
        return views

    def check(self, options: dict[str, Any]) -> None:
        """Refuse option values that make no sense, by name."""
        choices = {"source_posterior": ("labels", "classifier"), "pseudo_labels": ("cluster", "classifier"),
                   "cluster_init": ("auto", "modularity", "source"), "cluster_features": FEATURES}
        for name, allowed in choices.items():
            self.require(name, options[name], options[name] in allowed, ", ".join(allowed))
        for name in ("rounds", "steps", "pretrain_steps", "members", "candidates"):
            self.require(name, options[name], options[name] >= 1, "1 or more")
        for name in ("num_clusters", "cluster_pretrain_steps", "cluster_source_steps", "cluster_steps", "source_batch",
                     "cluster_hidden", "alpha", "cluster_weight_decay", "collapse", "modularity_weight", "product", "self_training"):
            self.require(name, options[name], options[name] >= 0, "0 or more")
        for name in ("unknown_share", "drop_unsure"):
            self.require(name, options[name], 0 <= options[name] < 1, "a share in [0, 1)")
        for name in ("cluster_lr", "target_ratio", "resolutions"):
            numbers = options[name] if name == "resolutions" else [options[name]]
            self.require(name, options[name], all(value > 0 for value in numbers), "above 0")


def mean(figures: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure over members."""
    return {name: sum(f[name] for f in figures) / len(figures) for name in figures[0]}
