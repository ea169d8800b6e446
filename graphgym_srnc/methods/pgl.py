"""Progressive graph learning (Luo et al., ICML 2020), carried over to one graph: the paper's strongest baseline."""
from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc import backbones
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.base import Method, best_threshold, fit_labels
from graphgym_srnc.task import ShiftTask


class PGL(Method):
    r"""Each episode re-trains the GNN from scratch on labels and pseudo-labels, and names more of them.

    After episode :math:`m` of :math:`1/\alpha` the :math:`m\alpha\beta|U|` most confident unlabelled nodes keep their class as
    pseudo-label, and the :math:`m\alpha(1-\beta)|U|` least confident ones are pseudo-unknown. The unknown class is cut by a
    threshold on the largest softmax, on validation, anew in each episode.

    Args:
        enlarging: :math:`\alpha`, the share of unlabelled nodes named per episode.
        confident: :math:`\beta`, the share of those that get a class.
        unknown_loss: what pseudo-unknown nodes are for: ``none``, ``uniform`` (cross-entropy with the uniform distribution)
            or ``extra_class`` (an (N+1)-th logit).
        steps: gradient steps of an episode.
    """

    def __init__(self, *, enlarging: float = 0.1, confident: float = 0.6, unknown_loss: str = "extra_class", steps: int = 100,
                 **base) -> None:
        super().__init__(**base)
        if steps < 1:
            raise InputError("pgl.steps", steps, "1 or more")
        if not 0 < enlarging <= 1:
            raise InputError("pgl.enlarging", enlarging, "a share in (0, 1]")
        if not 0 <= confident <= 1:
            raise InputError("pgl.confident", confident, "a share in [0, 1]")
        if unknown_loss not in ("none", "uniform", "extra_class"):
            raise InputError("pgl.unknown_loss", unknown_loss, "none, uniform, extra_class")
        self.enlarging, self.confident, self.unknown_loss, self.steps = enlarging, confident, unknown_loss, steps
        self.episodes = round(1 / enlarging)
        self.register_buffer("threshold", torch.tensor(0.0))
        self.register_buffer("number", torch.tensor(0))

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.task = task
        self.number.zero_()
        self.source = backbones.prepare(task.source, self.encoder.features)
        self.target = backbones.prepare(task.target, self.encoder.features)
        empty = task.pool[:0]
        return self._train(empty, empty, empty)

    def episode(self) -> dict[str, float]:
        confidence, prediction = self._known(self.predict(self.task.target)[self.task.pool]).max(1)
        self.number += 1
        order = confidence.argsort(descending=True)
        share = min(1.0, int(self.number) * self.enlarging) * len(order)
        known, unknown = order[:int(share * self.confident)], order[len(order) - int(share * (1 - self.confident)):]
        return self._train(self.task.pool[known], prediction[known], self.task.pool[unknown])

    def _train(self, nodes: Tensor, labels: Tensor, unknown: Tensor) -> dict[str, float]:
        task = self.task
        extra = self.unknown_loss == "extra_class" and task.open_set
        self.classifier = backbones.build(self.encoder, self.source.num_features, task.num_known + int(extra))
        optimizer = self.make_optimizer(self.classifier.parameters())
        if not task.open_set or self.unknown_loss == "none":
            unknown = unknown[:0]
        source = task.source.y[task.train]
        if not len(nodes) + len(unknown):
            return {"source": fit_labels(self.classifier, optimizer, self.source, task.train, source, self.steps, task.num_known)}
        on_source = self.classifier.view(self.source, task.train)
        on_target = self.classifier.view(self.target, torch.cat([nodes, unknown]))
        self.classifier.train()
        for _ in range(self.steps):
            terms = {"source": F.cross_entropy(self.classifier(on_source), source)}
            known, rest = self.classifier(on_target).split([len(nodes), len(unknown)])
            if len(nodes):
                terms["pseudo_known"] = F.cross_entropy(known, labels)
            if len(unknown):
                wanted = torch.full((len(rest),), task.num_known) if extra else rest.new_full(rest.shape, 1 / rest.size(1))
                terms["pseudo_unknown"] = F.cross_entropy(rest, wanted)
            optimizer.zero_grad()
            sum(terms.values()).backward()
            optimizer.step()
        return {name: float(term.detach()) for name, term in terms.items()} | {"pseudo_labels": len(nodes), "pseudo_unknowns": len(unknown)}

    def _known(self, scores: Tensor) -> Tensor:
        """Probabilities of the known classes, ``[n, N]``; an unknown logit takes its share of the mass away."""
        return scores.softmax(1)[:, :self.task.num_known]

    def predict(self, graph: Data) -> Tensor:
        scores = super().predict(graph)
        # Before there are pseudo-unknown nodes the extra logit is untrained.
        return scores[:, :self.task.num_known] if self.number == 0 else scores

    def calibrate(self, scores: Tensor, label: Tensor) -> None:
        if self.task.open_set:
            self.threshold.fill_(best_threshold(*self._known(scores).max(1), label, self.task.unknown))

    def decide(self, scores: Tensor) -> Tensor:
        confidence, prediction = self._known(scores).max(1)
        return torch.where(confidence < self.threshold, self.task.num_known, prediction)
