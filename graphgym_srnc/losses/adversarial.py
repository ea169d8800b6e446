"""Adversarial alignment: gradient reversal, its schedule, the loss of the domain classifier."""
from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def reverse_gradient(h: Tensor, weight: float | Tensor) -> Tensor:
    r"""The identity with a reversed gradient: what helps the domain classifier hurts the encoder.

    .. math:: R(h) = h, \quad \frac{\partial R}{\partial h} = -\lambda I

    :math:`\lambda` acts on the encoder alone; the domain classifier behind ``R`` learns unhindered.

    Args:
        h: hidden values, of any shape.
        weight: :math:`\lambda`.

    Source: Ganin et al. (JMLR 2016).
    """
    return _Reverse.apply(h, weight)


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h: Tensor, weight: float | Tensor) -> Tensor:
        ctx.weight = weight
        return h.view_as(h)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return -ctx.weight * gradient, None


def ganin_schedule(progress: float, gamma: float = 10.0) -> float:
    r"""The weight of the reversed gradient, :math:`\lambda_p = \frac{2}{1 + e^{-\gamma p}} - 1`.

    It rises from 0 at the start of training (``progress`` :math:`p` = 0) to nearly 1 at its end
    (1), since an untrained domain classifier has nothing to teach (Ganin et al., JMLR 2016).
    """
    return 2 / (1 + math.exp(-gamma * progress)) - 1


def domain_loss(source_logit: Tensor, target_logit: Tensor) -> Tensor:
    r"""Cross-entropy of the domain classifier, which calls source nodes 1 and target nodes 0.

    .. math:: -\frac{1}{n} \sum_s \log \sigma(d_s) - \frac{1}{m} \sum_t \log (1 - \sigma(d_t))

    Each side is a mean of its own, so that the larger one does not outweigh the other. The logits
    :math:`d_s` and :math:`d_t` may be of any shape. Source: Ganin et al. (JMLR 2016).
    """
    return (F.binary_cross_entropy_with_logits(source_logit, torch.ones_like(source_logit))
            + F.binary_cross_entropy_with_logits(target_logit, torch.zeros_like(target_logit)))
