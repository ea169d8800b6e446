"""Adversarial domain alignment: gradient reversal, its schedule and the domain loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def reverse_gradient(h: Tensor, weight: float | Tensor) -> Tensor:
    r"""Identity function with a reversed gradient into the encoder (Ganin et al., JMLR 2016).

    .. math:: R(h) = h, \quad \frac{\partial R}{\partial h} = -\lambda I

    The ``weight`` :math:`\lambda` does not scale the gradient of the domain classifier.
    """
    reversed_ = h.view_as(h)
    if reversed_.requires_grad:
        reversed_.register_hook(lambda gradient: -weight * gradient)
    return reversed_


def ganin_schedule(progress: float) -> float:
    r"""Weight of the reversed gradient at the share :math:`p` of training (Ganin et al., 2016).

    .. math:: \lambda_p = \frac{2}{1 + e^{-10 p}} - 1

    It is small at first because the gradient of an untrained domain classifier is noise.
    """
    return 2 / (1 + math.exp(-10 * progress)) - 1


def domain_loss(source_logit: Tensor, target_logit: Tensor) -> Tensor:
    r"""Cross-entropy of the domain classifier, with label 1 for source and 0 for target nodes.

    .. math:: -\frac{1}{n} \sum_s \log \sigma(d_s) - \frac{1}{m} \sum_t \log (1 - \sigma(d_t))

    Each domain is averaged separately, so a larger domain does not dominate.
    """
    cross_entropy = F.binary_cross_entropy_with_logits
    of_source = cross_entropy(source_logit, torch.ones_like(source_logit))
    return of_source + cross_entropy(target_logit, torch.zeros_like(target_logit))


def adversarial_loss(domain: nn.Module, weight: float, *states: Tensor) -> Tensor:
    """Loss of a domain classifier whose gradient is reversed into hidden states ``[n, H]``.

    Args:
        domain: the classifier, with one logit for each node.
        weight: of the reversed gradient.
        states: hidden states of source nodes, and of target nodes.
    """
    return domain_loss(*(domain(reverse_gradient(h, weight)).view(-1) for h in states))
