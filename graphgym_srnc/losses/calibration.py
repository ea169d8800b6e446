"""Calibration of probabilities to an expected accuracy."""

from __future__ import annotations

import math

from torch import Tensor

MAX_LOG_TEMPERATURE = 4.0
HALVINGS = 30  # of the interval of log temperatures


def temperature(log_p: Tensor, accuracy: float) -> float:
    r"""Temperature at which the mean largest probability is the expected accuracy.

    .. math:: \frac1n \sum_i \max_k \frac{p_{ik}^{1/T}}{\sum_l p_{il}^{1/T}} = a

    The result lies between :math:`e^{-4}` and :math:`e^4`, also if no temperature solves this.

    Args:
        log_p: logarithms of probabilities, ``[n, K]``.
        accuracy: expected accuracy :math:`a` on these nodes.

    References:
        Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, with the accuracy in
        place of labels.
    """
    low = -MAX_LOG_TEMPERATURE
    high = MAX_LOG_TEMPERATURE
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        confidence = float((log_p / math.exp(middle)).softmax(1).amax(1).mean())
        if confidence > accuracy:
            low = middle
        else:
            high = middle
    return math.exp(low)
