"""Progressive graph learning (Luo et al., ICML 2020), carried over to one graph: the paper's strongest baseline."""
from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.methods.base import Method
from graphgym_srnc.methods.training import fit_labels, minimise
from graphgym_srnc.task import ShiftTask, Sizes


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
        self.require("steps", steps, steps >= 1, "1 or more")
        self.require("enlarging", enlarging, 0 < enlarging <= 1, "a share in (0, 1]")
        self.require("confident", confident, 0 <= confident <= 1, "a share in [0, 1]")
        self.require("unknown_loss", unknown_loss, unknown_loss in ("none", "uniform", "extra_class"), "none, uniform, extra_class")
        self.enlarging, self.confident, self.unknown_loss, self.steps = enlarging, confident, unknown_loss, steps
        self.episodes = round(1 / enlarging)
        self.register_buffer("number", torch.tensor(0))

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.extra = self.unknown_loss == "extra_class" and task.open_set
        self.classifier = self.new_classifier(task.num_known + int(self.extra))

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.setup(task)
        self.number.zero_()
        empty = task.pool[:0]
        return self._train(empty, empty, empty)

    def episode(self) -> dict[str, float]:
        confidence, prediction = self.predict(self.task.target)[self.task.pool].softmax(1)[:, :self.task.num_known].max(1)
        self.number += 1
        order = confidence.argsort(descending=True)
        share = min(1.0, int(self.number) * self.enlarging) * len(order)
        known, unknown = order[:int(share * self.confident)], order[len(order) - int(share * (1 - self.confident)):]
        return self._train(self.task.pool[known], prediction[known], self.task.pool[unknown])

    def _train(self, nodes: Tensor, labels: Tensor, unknown: Tensor) -> dict[str, float]:
        task = self.task
        self.ready()
        optimizer = self.make_optimizer(p for p in self.classifier.parameters() if p.requires_grad)
        if not task.open_set or self.unknown_loss == "none":
            unknown = unknown[:0]
        if not len(nodes) + len(unknown):
            return {"source": fit_labels(self.classifier, optimizer, self.source, task.train, self.labels, self.steps, task.num_known,
                                         self.batch_size, self.fanout)}
        sources, targets = self.batches(self.source, task.train), self.batches(self.target, nodes, unknown)

        def losses() -> dict[str, Tensor]:
            view, (drawn,) = sources()
            terms = {"source": F.cross_entropy(self.classifier(view), self.labels[drawn])}
            view, drawn = targets()
            known, rest = self.classifier(view).split([len(part[index]) for part, index in zip((nodes, unknown), drawn)])
            if len(nodes):
                terms["pseudo_known"] = F.cross_entropy(known, labels[drawn[0]])
            if len(unknown):
                wanted = labels.new_full((len(rest),), task.num_known) if self.extra else rest.new_full(rest.shape, 1 / rest.size(1))
                terms["pseudo_unknown"] = F.cross_entropy(rest, wanted)
            return terms

        terms = minimise(self.classifier, optimizer, losses, self.steps)
        return terms | {"pseudo_labels": len(nodes), "pseudo_unknowns": len(unknown)}

    def logits(self, graph: Data) -> Tensor:
        logits = super().logits(graph)
        # Before there are pseudo-unknown nodes the extra logit is untrained.
        return logits[:, :self.task.num_known] if self.number == 0 else logits
