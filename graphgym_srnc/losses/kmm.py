"""Kernel mean matching: importance weights that match the source sample to the target sample."""

from __future__ import annotations

from typing import Callable, Iterator

import torch
from torch import Tensor

_BLOCK = 2**23  # kernel entries computed at a time: 32 MB in float32
_GAMMAS = (1.0, 0.1, 0.001)  # inverse bandwidths of the kernel
_MAX_STEPS = 2000
_TOLERANCE = 1e-7  # the solver stops at this relative change of the weights


@torch.no_grad()
def kmm_weights(z_source: Tensor, z_target: Tensor, label: Tensor, b_min: float = 0.2) -> Tensor:
    r"""Importance weights :math:`\beta` ``[M]`` of source nodes by kernel mean matching, mean 1.

    .. math:: \min_\beta \tfrac12 \beta^\top K \beta + f^\top \beta \quad \text{s.t.} \quad
        \beta_i \ge b_\text{min}, \quad \sum_{i \in c} \beta_i = |c|

    .. math:: K_{ij} = k(z_i, z_j), \quad f_i = -\frac{M}{M'} \sum_j k(z_i, z'_j), \quad
        k(a, b) = \frac{1}{3} \sum_{\gamma \in \{1, 0.1, 0.001\}} e^{-\gamma \lVert a - b \rVert^2}

    The solver is accelerated projected gradient descent with restarts. It stores :math:`K` once,
    in float32 unless the samples are small.

    Args:
        z_source, z_target: features of the labelled nodes ``[M, d]`` and of the target ``[M', d]``.
        label: classes, ``[M]``; any integers.
        b_min: smallest weight, at least 0 and below 1.

    References:
        Huang et al. (NeurIPS 2006). Kernel, bound and class totals: Zhu et al. (NeurIPS 2021).
        Solver: Beck and Teboulle (SIIMS 2009); O'Donoghue and Candes (Found. Comput. Math. 2015).
    """
    size = len(z_source)
    small = len(z_source) + len(z_target) <= 4096
    kernel = z_source.new_empty(size, size, dtype=torch.double if small else torch.float)

    # With d = beta - 1 the objective is 1/2 d'Kd + slope'd, which avoids cancellation of large
    # terms. d sums to zero over each class.
    slope = z_source.new_zeros(size, dtype=torch.double)
    centre = z_source.mean(0)
    z_source = (z_source - centre).to(kernel.dtype)
    z_target = (z_target - centre).to(kernel.dtype)
    for rows, block in _kernel_rows(z_source, z_source):
        kernel[rows] = block
        slope[rows] += block.sum(1, dtype=torch.double)
    for rows, block in _kernel_rows(z_source, z_target):
        slope[rows] -= size / len(z_target) * block.sum(1, dtype=torch.double)

    classes = label.unique(return_inverse=True)[1]
    weights = 1 + _minimise(kernel, slope, classes, b_min - 1)
    return weights.clamp(min=b_min).to(centre.dtype)


def _kernel_rows(a: Tensor, b: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield the kernel between ``a`` and ``b`` in blocks of rows."""
    norm = b.square().sum(1)
    step = max(1, _BLOCK // len(b))
    for start in range(0, len(a), step):
        part = a[start : start + step]
        squared = torch.addmm(norm, part, b.T, alpha=-2)
        squared = squared.add_(part.square().sum(1, keepdim=True)).clamp_(min=0)
        block = torch.zeros_like(squared)
        for gamma in _GAMMAS:
            block += (squared * -gamma).exp_()
        yield slice(start, start + step), block.div_(len(_GAMMAS))


def _minimise(kernel: Tensor, slope: Tensor, classes: Tensor, low: float) -> Tensor:
    """Minimum of 1/2 d'Kd + slope'd over ``d >= low`` with class sums of zero."""

    def times(d: Tensor) -> Tensor:
        return (kernel @ d.to(kernel.dtype)).double()

    slope = _balance(slope, classes)
    curvature = _curvature(times, classes)
    best = point = torch.zeros_like(slope)
    product_best = product_point = torch.zeros_like(slope)
    value = 0.0
    t = 1.0  # Nesterov's sequence
    for _ in range(_MAX_STEPS):
        new = project(point - (product_point + slope) / curvature, classes, low)
        if float((new - point).norm()) <= _TOLERANCE * len(slope) ** 0.5:
            return new
        product = times(new)
        value_new = float(new @ (product / 2 + slope))
        if value_new > value:
            # Restart without momentum; if there was none, the curvature was underestimated.
            curvature = curvature * 2 if t == 1 else curvature
            point = best
            product_point = product_best
            t = 1.0
            continue
        if float((point - new) @ (new - best)) > 0:
            t = 1.0
        t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
        momentum = (t - 1) / t_new
        # By linearity the product of K with the extrapolated point needs no multiplication.
        point = new + momentum * (new - best)
        product_point = product + momentum * (product - product_best)
        best = new
        product_best = product
        value = value_new
        t = t_new
    return best


def _balance(v: Tensor, classes: Tensor) -> Tensor:
    """Subtract the class mean from each entry: the projection that keeps class sums constant."""
    sizes = classes.bincount()
    return v - (v.new_zeros(len(sizes)).index_add_(0, classes, v) / sizes)[classes]


def _curvature(times: Callable[[Tensor], Tensor], classes: Tensor) -> float:
    """Largest eigenvalue of K among vectors with class sums of zero, by power iteration."""
    # A fixed vector needs no random generator; an irregular one is orthogonal to no eigenvector.
    number = torch.arange(1, len(classes) + 1, device=classes.device, dtype=torch.double)
    vector = torch.sin(number**2)
    value = 0.0
    for _ in range(20):
        vector = _balance(vector, classes)
        vector = vector / vector.norm().clamp(min=1e-300)
        product = times(vector)
        value = float(vector @ product)
        vector = product
    # If all features are equal the value is rounding noise, so it is bounded from below.
    return max(1.05 * value, 1e-6 * len(classes))


def project(v: Tensor, classes: Tensor, low: float) -> Tensor:
    r"""Nearest point with entries of at least ``low <= 0`` and a sum of zero over each class.

    .. math:: d_i = \max(v_i - \tau_c, \text{low}), \quad \textstyle\sum_{i \in c} d_i = 0

    Args:
        v: any point, ``[M]``, in float64.
        classes: class of each entry, ``[M]``, in ``0 .. N - 1``; no class is empty.
        low: the bound (Held et al., Math. Programming 1974, for the simplex).
    """
    sizes = classes.bincount()
    order = v.argsort(descending=True)
    order = order[classes[order].argsort(stable=True)]
    group = classes[order]
    first = sizes.cumsum(0) - sizes
    # With the k largest entries of a class free, the rest at the bound:
    # sum(free - tau) + low (|c| - k) = 0.
    above = v[order] - low
    total = above.cumsum(0)
    total = total - (total - above)[first][group] + low * sizes.to(v.dtype)[group]
    count = torch.arange(1, len(v) + 1, device=v.device) - first[group]
    is_free = (above * count > total).to(v.dtype)
    free = v.new_zeros(len(sizes)).index_add(0, group, is_free).long().clamp(min=1)
    tau = total[first + free - 1] / free
    return (v - low - tau[classes]).clamp(min=0) + low
