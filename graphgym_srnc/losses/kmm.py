"""Kernel mean matching: importance weights that match the source sample to the target sample."""

from __future__ import annotations

import math
from typing import Callable, Iterator, Sequence

import torch
from torch import Tensor

from graphgym_srnc.errors import InputError

_BLOCK = 2**23
"""Kernel entries computed at a time: 32 MB in float32."""


@torch.no_grad()
def kmm_weights(
    z_source: Tensor,
    z_target: Tensor,
    label: Tensor,
    b_min: float = 0.2,
    b_max: float = math.inf,
    gammas: Sequence[float] = (1.0, 0.1, 0.001),
    max_steps: int = 2000,
    tol: float = 1e-7,
) -> Tensor:
    r"""Importance weights of labelled source nodes by kernel mean matching.

    .. math:: \min_\beta \tfrac12 \beta^\top K \beta + f^\top \beta \quad \text{s.t.} \quad
        b_\text{min} \le \beta_i \le b_\text{max}, \quad \sum_{i \in c} \beta_i = |c|

    .. math:: K_{ij} = k(z_i, z_j), \quad f_i = -\frac{M}{M'} \sum_j k(z_i, z'_j), \quad
        k(a, b) = \frac{1}{U} \sum_u e^{-\gamma_u \lVert a - b \rVert^2}

    The solver is accelerated projected gradient descent with restarts. :math:`K` is stored once, in
    float32 (:math:`4 M^2` bytes) unless the samples are small.

    Args:
        z_source, z_target: features of the labelled nodes ``[M, d]`` and of the target ``[M', d]``.
        label: classes, ``[M]``; any integers.
        b_min, b_max: bounds of a weight.
        gammas: :math:`\gamma_u`, the inverse bandwidths.
        max_steps: maximum number of steps.
        tol: stop if a step changes the weights by less than this share of their norm.

    Returns:
        :math:`\beta`, ``[M]``, with mean 1 and the dtype of ``z_source``.

    Raises:
        InputError: ``b_min`` is outside [0, 1) or ``b_max`` is below 1, which forbids weights of 1.

    References:
        Huang et al. (NeurIPS 2006). Kernel, bounds and class totals: Zhu et al. (NeurIPS 2021).
        Solver: Beck and Teboulle (SIIMS 2009); O'Donoghue and Candes (Found. Comput. Math. 2015).
    """
    if not 0 <= b_min < 1:
        raise InputError("b_min", b_min, "at least 0 and below 1")
    if not b_max >= 1:
        raise InputError("b_max", b_max, "at least 1")
    size, small = len(z_source), len(z_source) + len(z_target) <= 4096
    kernel = z_source.new_empty(size, size, dtype=torch.double if small else torch.float)

    # With d = beta - 1 the objective is 1/2 d'Kd + slope'd, which avoids cancellation of large
    # terms. d sums to zero over each class.
    slope = z_source.new_zeros(size, dtype=torch.double)
    centre = z_source.mean(0)
    z_source, z_target = (z_source - centre).to(kernel.dtype), (z_target - centre).to(kernel.dtype)
    for rows, block in _kernel_rows(z_source, z_source, gammas):
        kernel[rows] = block
        slope[rows] += block.sum(1, dtype=torch.double)
    for rows, block in _kernel_rows(z_source, z_target, gammas):
        slope[rows] -= size / len(z_target) * block.sum(1, dtype=torch.double)

    classes = label.unique(return_inverse=True)[1]
    weights = 1 + _minimise(kernel, slope, classes, b_min - 1, b_max - 1, max_steps, tol)
    return weights.clamp(b_min, b_max).to(centre.dtype)


def _kernel_rows(a: Tensor, b: Tensor, gammas: Sequence[float]) -> Iterator[tuple[slice, Tensor]]:
    """Yield the kernel between ``a`` and ``b`` in blocks of rows."""
    norm, step = b.square().sum(1), max(1, _BLOCK // len(b))
    for start in range(0, len(a), step):
        part = a[start : start + step]
        squared = torch.addmm(norm, part, b.T, alpha=-2)
        squared = squared.add_(part.square().sum(1, keepdim=True)).clamp_(min=0)
        block = torch.zeros_like(squared)
        for gamma in gammas:
            block += (squared * -gamma).exp_()
        yield slice(start, start + step), block.div_(len(gammas))


def _minimise(
    kernel: Tensor,
    slope: Tensor,
    classes: Tensor,
    low: float,
    high: float,
    max_steps: int,
    tol: float,
) -> Tensor:
    """Minimum of 1/2 d'Kd + slope'd over ``low <= d <= high`` with class sums of zero."""

    def times(d: Tensor) -> Tensor:
        return (kernel @ d.to(kernel.dtype)).double()

    slope, curvature = _balance(slope, classes), _curvature(times, classes)
    best = look = torch.zeros_like(slope)
    product_best = product_look = torch.zeros_like(slope)
    value, pace = 0.0, 1.0
    for _ in range(max_steps):
        new = project(look - (product_look + slope) / curvature, classes, low, high)
        if float((new - look).norm()) <= tol * len(slope) ** 0.5:
            return new
        product = times(new)
        value_new = float(new @ (product / 2 + slope))
        if value_new > value:
            # Restart without momentum; if there was none, the curvature was underestimated.
            curvature = curvature * 2 if pace == 1 else curvature
            look, product_look, pace = best, product_best, 1.0
            continue
        if float((look - new) @ (new - best)) > 0:
            pace = 1.0
        faster = (1 + (1 + 4 * pace * pace) ** 0.5) / 2
        momentum = (pace - 1) / faster
        # By linearity the product of K with the extrapolated point needs no multiplication.
        look = new + momentum * (new - best)
        product_look = product + momentum * (product - product_best)
        best, product_best, value, pace = new, product, value_new, faster
    return best


def _balance(v: Tensor, classes: Tensor) -> Tensor:
    """Subtract the class mean from each entry: the projection that keeps class sums constant."""
    sizes = classes.bincount()
    return v - (v.new_zeros(len(sizes)).index_add_(0, classes, v) / sizes)[classes]


def _curvature(times: Callable[[Tensor], Tensor], classes: Tensor) -> float:
    """Largest eigenvalue of K among vectors with class sums of zero, by power iteration.

    It is much smaller than that of K itself, whose first eigenvector is nearly constant.
    """
    # A fixed vector needs no random generator; an irregular one is orthogonal to no eigenvector.
    number = torch.arange(1, len(classes) + 1, device=classes.device, dtype=torch.double)
    vector, value = torch.sin(number**2), 0.0
    for _ in range(20):
        vector = _balance(vector, classes)
        vector = vector / vector.norm().clamp(min=1e-300)
        product = times(vector)
        value, vector = float(vector @ product), product
    # If all features are equal the value is rounding noise, so it is bounded from below.
    return max(1.05 * value, 1e-6 * len(classes))


def project(v: Tensor, classes: Tensor, low: float, high: float = math.inf) -> Tensor:
    r"""Nearest point with bounded entries and a sum of zero over each class.

    .. math:: d_i = \text{clip}(v_i - \tau_c, \text{low}, \text{high}), \quad
        \textstyle\sum_{i \in c} d_i = 0

    :math:`\tau_c` is found by one sort if there is no upper bound, else by bisection.

    Args:
        v: any point, ``[M]``, in float64.
        classes: class of each entry, ``[M]``, in ``0 .. N - 1``; no class is empty.
        low, high: bounds, ``low <= 0 <= high``.

    Returns:
        :math:`d`, ``[M]``.

    References:
        Held et al. (Math. Programming 1974) for the simplex.
    """
    sizes = classes.bincount()
    zero = v.new_zeros(len(sizes))
    if math.isinf(high):
        order = v.argsort(descending=True)
        order = order[classes[order].argsort(stable=True)]
        group, first = classes[order], sizes.cumsum(0) - sizes
        # With the k largest entries of a class free, the rest at the bound:
        # sum(free - tau) + low (|c| - k) = 0.
        above = v[order] - low
        total = above.cumsum(0)
        total = total - (total - above)[first][group] + low * sizes.to(v.dtype)[group]
        count = torch.arange(1, len(v) + 1, device=v.device) - first[group]
        free = zero.index_add(0, group, (above * count > total).to(v.dtype)).long().clamp(min=1)
        tau = total[first + free - 1] / free
        return (v - low - tau[classes]).clamp(min=0) + low

    lower = zero.scatter_reduce(0, classes, v, "amin", include_self=False) - high
    upper = zero.scatter_reduce(0, classes, v, "amax", include_self=False) - low
    for _ in range(60):
        tau = (lower + upper) / 2
        excess = zero.index_add(0, classes, (v - tau[classes]).clamp(low, high)) > 0
        lower, upper = torch.where(excess, tau, lower), torch.where(excess, upper, tau)
    return (v - ((lower + upper) / 2)[classes]).clamp(low, high)
