"""Maximum mean discrepancy (Long et al., ICML 2015): source and target agree under kernels."""
from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.losses import mmd
from graphgym_srnc.losses.adversarial import ganin_schedule
from graphgym_srnc.methods.scores import Scored
from graphgym_srnc.options import Range, Weight


class MMD(Scored):
    """The plain GNN with the squared multi-kernel MMD of its last hidden state.

    Args:
        weight: weight of the discrepancy at the end; it rises from 0 by Ganin's schedule. The
            kernels' widths follow the hidden states' scale, so at full weight from the start the
            term would shrink them to nothing before they mean anything.
        sample: nodes of either side drawn at each step, since it costs the square of their number.
    """

    search = {"weight": (0.1, 0.5, 1.0, 2.0)}

    def __init__(self, *, weight: Weight = 0.1, sample: Annotated[int, Range(2)] = 1024,
                 **base) -> None:
        super().__init__(**base)
        self.weight, self.sample = weight, sample

    def begin(self) -> None:
        self.on_target = self.target_view()

    def losses(self) -> dict[str, Tensor]:
        logits, *states = self.hidden_states()
        source, target = (h[torch.randperm(len(h), device=h.device)[:self.sample]] for h in states)
        weight = self.weight * ganin_schedule(self.progress)
        return {"source": F.cross_entropy(logits, self.labels),
                "mmd": weight * mmd.mmd(source, target)}
