"""Choice of the unknown-class threshold."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.losses.prior import known_share


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
