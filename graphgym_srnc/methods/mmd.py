"""Maximum mean discrepancy (Long et al., ICML 2015): hidden states of source and target agree under a mixture of kernels."""
from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.losses import mmd
from graphgym_srnc.losses.adversarial import ganin_schedule
from graphgym_srnc.methods.supervised import Supervised
from graphgym_srnc.parallel import gather


class MMD(Supervised):
    """The plain GNN with the squared multi-kernel MMD of its last hidden state between source and target.

    Args:
        weight: weight of the discrepancy at the end; it rises from 0 by Ganin's schedule. The kernels' widths follow the hidden states'
            scale, so at full weight from the start the term would shrink them to nothing before they mean anything.
        sample: nodes of either side drawn for it at each step, since it costs the square of their number.
    """

    def __init__(self, *, weight: float = 0.1, sample: int = 1024, **base) -> None:
        super().__init__(**base)
        self.require("weight", weight, weight >= 0, "0 or more")
        self.require("sample", sample, sample >= 2, "2 or more")
        self.weight, self.sample = weight, sample

    def begin(self) -> None:
        self.on_target = self.target_view()

    def losses(self) -> dict[str, Tensor]:
        logits, source = self.classifier.embed(self.on_source)
        source, target = gather(source, self.classifier.embed(self.on_target)[1])
        source, target = (h[torch.randperm(len(h), device=h.device)[:self.sample]] for h in (source, target))
        weight = self.weight * ganin_schedule(self.progress)
        return {"source": F.cross_entropy(logits, self.labels), "mmd": weight * mmd.mmd(source, target)}
