"""The cut between known and unknown classes."""
from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def best_threshold(confidence: Tensor, prediction: Tensor, label: Tensor, unknown: int, prior: float | None = None) -> float:
    """The cut below which a node is unknown, by the largest validation Micro-F1; exact over all cuts, in O(n log n).

    Args:
        confidence: how sure the classifier is of its known class, ``[n]``.
        prediction: the known class it would name, ``[n]``.
        label: true classes with ``unknown`` where masked, ``[n]``.
        unknown: label of the unknown class.
        prior: the cut that holds without validation; given one, the cut nearest to it is taken among those that are at most one
            (paired) standard error worse than the best, so that few validation nodes cannot move it far.
    """
    confidence, order = confidence.sort()
    gain = ((label == unknown).long() - (prediction == label).long())[order]
    correct, changed = (F.pad(step.cumsum(0), (1, 0)) for step in (gain, gain.abs()))
    # Cut i names the i least sure nodes unknown: any threshold above the i-th confidence, up to and with the next, does so.
    low, high = F.pad(confidence, (1, 0), value=-torch.inf), F.pad(confidence, (0, 1), value=torch.inf)
    correct[1:-1][confidence[1:] == confidence[:-1]] = -len(label)
    best = int(correct.argmax())
    if prior is None:
        return float(high[best])
    lost = (correct[best] - correct).double()
    error = ((changed - changed[best]).abs() - lost ** 2 / len(label)).clamp(min=0).sqrt()
    cuts = torch.full_like(high, prior).clamp(torch.nextafter(low, torch.full_like(low, torch.inf)), high)
    return float(cuts[(cuts - prior).abs().masked_fill(lost > error, torch.inf).argmin()])
