"""Prediction: logits, smoothing, prior correction, unknown-class threshold and decision."""

from __future__ import annotations

import copy
from functools import partial
from typing import Annotated, Callable, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, EncoderSpec, Graph, Scaling, prepare
from graphgym_srnc.core.options import OneOf, Steps, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses.prior import black_box_weights, em_prior, known_share
from graphgym_srnc.methods.shared.training import all_logits
from graphgym_srnc.methods.shared.validation import OutOfFold

ROLES = ("source", "target")
KNOWN_RECALL = 0.95  # of the validation nodes, if none of them is of an unknown class


class Predictor(nn.Module):
    r"""How a method turns a graph into scores, and scores into classes.

    :meth:`predict` smooths the logits over the graph and corrects them for its class prior.
    :meth:`decide` predicts a node as unknown if its :meth:`confidence` is below the threshold,
    which :meth:`calibrate` sets. A method may override each of these steps.

    Statistics of a whole graph, such as column means and class shares, are those of the graphs of
    training. A later graph is predicted by those of the graph in its role. Its nodes are therefore
    predicted alike, whether or not other components belong to the graph.

    Args:
        smoothing: steps of personalised PageRank over the predicted posterior; 0 = none.
        correction: correction of the posterior by the class prior of the target: ``none``, ``mean``
            (divide by the mean posterior), ``em`` or ``bbse`` (multiply by the estimated ratio of
            class shares to training), or ``labels`` (divide by the shares of the training labels).
            The prior is estimated on the target of training and kept for later graphs.
        correction_power: exponent :math:`\tau` of the correction.
        cut: how to choose the unknown-class threshold: the best Micro-F1 on ``validation``, or the
            estimated ``share`` of unknown target nodes, which needs validation nodes of known
            classes alone.

    Attributes:
        task: the blind task; a loaded model has its :class:`Sizes` instead.
        calibrated: whether validation nodes set the threshold; otherwise it is 0.
        cross_fits: whether the method holds out labels itself if there are no validation nodes.
        out_of_fold: predictions of labelled nodes by classifiers that did not learn them, of a
            method that holds out labels itself.
        explicit_unknown: whether the last of ``N + 1`` scores is that of the unknown class.
    """

    task: ShiftTask
    encoder: EncoderSpec
    classifier: Encoder
    batch_size: int
    warnings: list[str]
    threshold: Tensor
    source_prior: Tensor
    confusion: Tensor
    prior_weight: Tensor
    calibrated: bool = True
    cross_fits: bool = False
    out_of_fold: OutOfFold | None = None
    explicit_unknown: bool = False

    def __init__(
        self,
        *,
        smoothing: Steps = 0,
        correction: Annotated[str, OneOf("none", "mean", "em", "bbse", "labels")] = "none",
        correction_power: Weight = 1.0,
        cut: Annotated[str, OneOf("validation", "share")] = "validation",
    ) -> None:
        super().__init__()
        self.smoothing = smoothing
        self.cut = cut
        self.correction = correction
        self.correction_power = correction_power
        self.register_buffer("threshold", torch.tensor(0.0))

    @property
    def prior_correction(self) -> tuple[str, float]:
        """Name and power of the correction."""
        return self.correction, self.correction_power

    def build(self, task: ShiftTask | Sizes) -> None:
        """Build the untrained modules that predictions need, given a task or only its sizes.

        A trained model is loaded into them, so what predictions use must be a weight or a buffer.
        """
        self.task = cast(ShiftTask, task)
        self.out_of_fold = None
        self.scaling = nn.ModuleDict({role: Scaling() for role in ROLES})
        if isinstance(task, ShiftTask):
            for role, graph in zip(ROLES, (task.source, task.target)):
                cast(Scaling, self.scaling[role]).fit(graph.x)
        correction = self.prior_correction[0]
        known = task.num_known
        if correction in ("em", "labels"):
            self.register_buffer("source_prior", torch.full((known,), 1 / known))
        if correction == "bbse":
            self.register_buffer("confusion", torch.eye(known) / known)
        ones = torch.ones(len(ROLES), known, dtype=torch.float64)
        self.register_buffer("prior_weight", ones)

    # ---- statistics of the training graphs ----

    def as_trained(self, graph: Data, role: str = "target") -> Data:
        """A graph whose features are scaled by the statistics of the training graph of its role."""
        own = self.task.graphs().values() if isinstance(self.task, ShiftTask) else ()
        if hasattr(graph.x, "scaling") or any(graph.x is learned.x for learned in own):
            return graph
        graph = copy.copy(graph)
        graph.x = cast(Scaling, self.scaling[role]).attach(graph.x)
        return graph

    def statistic(
        self, name: str, graph: Data, role: str, estimate: Callable[[], Tensor]
    ) -> Tensor:
        """A statistic of a graph, which a buffer ``[2, ...]`` holds for each of :data:`ROLES`.

        It is estimated on the graphs of training, and those of source and target are kept. Other
        graphs have the one of their role.
        """
        stored = getattr(self, name)
        if not isinstance(self.task, ShiftTask) or all(
            graph is not own for own in self.task.graphs().values()
        ):
            return stored[ROLES.index(role)]
        found = estimate()
        for place, own in zip(stored, (self.task.source, self.task.target)):
            if graph is own:
                place.copy_(found)
        return found

    # ---- scores ----

    def votes(self, graph: Data) -> dict[str, tuple[float, Tensor]]:
        """Weight and posterior ``[V, K]`` of each classifier of a mixture by name, if it is one."""
        return {}

    def prepared(self, graph: Data) -> Graph:
        """A graph with features scaled as the encoder reads them."""
        return prepare(graph, self.encoder.features)

    def predict(self, graph: Data, role: str = "target") -> Tensor:
        """Scores ``[V, K]`` that decisions use; the first ``N`` are those of known classes.

        ``role`` is ``source`` for the source of two graphs, else ``target``.
        """
        graph = self.as_trained(graph, role)
        scores = self.uncorrected(graph, role)
        if self.prior_correction[0] == "none":
            return scores
        estimate = partial(self.estimated_weight, scores)
        return self.corrected(scores, self.statistic("prior_weight", graph, role, estimate))

    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Scores before prior correction: logits, or logarithms of a smoothed posterior."""
        return self.smoothed(self.logits(graph, role), graph)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        """Logits ``[V, N(+1)]`` of any graph with the same features."""
        return all_logits(self.classifier, self.prepared(graph), self.batch_size)

    def smoothed(self, logits: Tensor, graph: Data) -> Tensor:
        """Logits ``[V, K]``, or with ``smoothing`` the logarithm of their smoothed softmax."""
        if not self.smoothing:
            return logits
        return self.smooth(logits.softmax(1), graph).clamp(min=1e-12).log()

    @torch.no_grad()
    def smooth(self, p: Tensor, graph: Data) -> Tensor:
        r"""Personalised PageRank over a posterior ``[V, K]``, whose rows then sum to 1.

        .. math:: P \leftarrow 0.9 \hat A P + 0.1 P_0
        """
        result = p
        prepared = self.prepared(graph)
        for _ in range(self.smoothing):
            result = 0.9 * (prepared.adjacency("gcn") @ result) + 0.1 * p
        return F.normalize(result, p=1, dim=1)

    @torch.no_grad()
    def estimated_weight(self, scores: Tensor) -> Tensor:
        """Weights ``[N]`` of the known classes, from the scores ``[V, K]`` of a whole graph."""
        correction = self.prior_correction[0]
        known = self.task.num_known
        total = scores[:, :known].logsumexp(1, keepdim=True)
        p = (scores[:, :known] - total).double().exp()
        if correction == "mean":
            return 1 / p.mean(0).clamp(min=1e-12)
        if correction == "labels":
            return 1 / self.source_prior.to(p)
        if correction == "em":
            return em_prior(p, self.source_prior) / self.source_prior
        predicted = torch.bincount(p.argmax(1), minlength=known).double()
        return black_box_weights(self.confusion, predicted / predicted.sum())

    @torch.no_grad()
    def corrected(self, scores: Tensor, weight: Tensor) -> Tensor:
        r"""Scores ``[n, K]`` corrected for the class prior by weights ``[N]``.

        .. math:: \tilde p_{ic} \propto p_{ic} \, w_c^\tau

        Known-class probabilities are renormalised to their previous total, so the unknown class
        keeps its share.
        """
        known = self.task.num_known
        total = scores[:, :known].logsumexp(1, keepdim=True)
        log_p = (scores[:, :known] - total).double()
        log_weight = self.prior_correction[1] * weight.clamp(min=1e-12).log()
        corrected = (log_p + log_weight).log_softmax(1).to(scores)
        return torch.cat([corrected + total, scores[:, known:]], 1)

    def learn_prior(self, labels: Tensor) -> None:
        """Store the class prior of training labels ``[n]``, if the correction reads it."""
        if self.prior_correction[0] in ("em", "labels"):
            counts = torch.bincount(labels, minlength=self.task.num_known)
            self.source_prior.copy_(counts / counts.sum())

    def learn_validation(self, label: Tensor) -> dict[str, float]:
        """Learn from the labels ``[n]`` of the validation nodes what scores depend on.

        The trainer calls it after each episode, before :meth:`predict`. The result are figures.
        """
        if self.correction == "bbse":
            graph = self.task.validation
            scores = self.uncorrected(graph, self.task.role_of(graph))
            self.learn_confusion(scores[self.task.val], label)
        return {}

    def learn_confusion(self, scores: Tensor, label: Tensor) -> None:
        """Store the confusion matrix of uncorrected scores ``[n, K]`` of held-out known nodes."""
        size = self.task.num_known
        known = label < size
        predicted = scores[known, :size].argmax(1)
        counts = torch.bincount(predicted * size + label[known], minlength=size**2)
        self.confusion.copy_(counts.view(size, size) / counts.sum())

    # ---- decisions ----

    def confidence(self, scores: Tensor) -> Tensor:
        """Confidence ``[n]`` that a node is of a known class, from scores ``[n, N(+1)]``.

        It is the largest softmax of a known class, or the difference between the largest score of a
        known class and that of the unknown class, if there is one. The threshold and the AUROC of
        the unknown class refer to it.
        """
        unknown = self.task.unknown
        learned = self.explicit_unknown or self.task.unknown_found
        if unknown is not None and learned and scores.size(1) > unknown:
            return scores[:, :unknown].amax(1) - scores[:, unknown]
        return scores.softmax(1)[:, : self.task.num_known].amax(1)

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """Set the threshold by the option ``cut``.

        If no validation node is unknown, the threshold accepts :data:`KNOWN_RECALL` of them.

        Args:
            scores, label: scores ``[n, K]`` and labels ``[n]`` of the validation nodes.
            on_target: scores of the target nodes, ``[V, K]``.
        """
        if not self.task.open_set:
            return
        unknown = label == self.task.num_known
        confidence = self.confidence(scores)
        if self.cut == "share":
            threshold = threshold_by_share(confidence[~unknown], self.confidence(on_target))
        elif not self.calibrated:
            return
        elif unknown.any():
            known = scores[:, : self.task.num_known].argmax(1)
            threshold = best_threshold(confidence, known, label, self.task.num_known)
        else:
            threshold = float(confidence.quantile(1 - KNOWN_RECALL))
            self.warnings.append(
                "No held-out node belongs to an unknown class. The unknown-class threshold is set"
                f" so that {100 * KNOWN_RECALL:.0f} % of the held-out nodes are predicted as known."
            )
        self.threshold.fill_(threshold)

    def decide(self, scores: Tensor) -> Tensor:
        """Classes ``[n]``: the most probable known class, or unknown below the threshold."""
        known = scores[:, : self.task.num_known].argmax(1)
        if not self.task.open_set:
            return known
        return torch.where(self.confidence(scores) < self.threshold, self.task.num_known, known)

    def posterior(self, scores: Tensor) -> Tensor:
        r"""Probabilities ``[n, N(+1)]``, whose maximum is the class of :meth:`decide`.

        .. math:: \log p_u - \max_c \log p_c = \ell(t) - \ell(s)

        The softmax of the known scores gives the ratios between known classes, the threshold
        :math:`t`, the confidence :math:`s` and :meth:`log_odds` :math:`\ell` that of the unknown.
        """
        log_p = scores[:, : self.task.num_known].double().log_softmax(1)
        if not self.task.open_set:
            return log_p.exp()

        confidence = self.confidence(scores)
        margin = self.log_odds(self.threshold.double()) - self.log_odds(confidence.double())
        margin = margin.clamp(-50, 50)
        # The decision counts at a tie, also if rounding causes it.
        below = confidence < self.threshold
        margin = torch.where(below, margin.clamp(min=1e-9), margin.clamp(max=0))
        return torch.cat([log_p, (log_p.amax(1) + margin)[:, None]], 1).softmax(1)

    def log_odds(self, confidence: Tensor) -> Tensor:
        r"""Log-odds of a confidence: :math:`\log \frac{s}{1 - s}` of a probability :math:`s`."""
        return confidence if self.explicit_unknown else confidence.logit(eps=1e-12)


def threshold_by_share(held_out: Tensor, on_target: Tensor) -> float:
    """Threshold that predicts the estimated share of unknown target nodes as unknown.

    Args:
        held_out, on_target: confidence of held-out nodes of known classes ``[n]``, and of all
            target nodes ``[V]``.
    """
    ordered = on_target.sort().values
    unknown = round((1 - known_share(held_out, on_target)) * len(ordered))
    return float(ordered[unknown]) if unknown < len(ordered) else float("inf")


def best_threshold(confidence: Tensor, prediction: Tensor, label: Tensor, unknown: int) -> float:
    """Threshold with the largest validation Micro-F1 of all thresholds, in O(n log n).

    Args:
        confidence, prediction, label: confidence that a node is of a known class, its most probable
            known class, and its true class, all ``[n]``.
        unknown: label of the unknown class.
    """
    confidence, order = confidence.sort()
    gain = ((label == unknown).long() - (prediction == label).long())[order]
    correct = F.pad(gain.cumsum(0), (1, 0))

    # Entry i predicts the i least confident nodes as unknown, as does every threshold above the
    # i-th confidence, up to and including the next one.
    high = F.pad(confidence, (0, 1), value=torch.inf)
    correct[1:-1][confidence[1:] == confidence[:-1]] = -len(label)
    return float(high[correct.argmax()])
