"""Label shift: how many nodes of each class, and of no known class, an unlabelled graph holds."""
from __future__ import annotations

import math

import torch
from scipy.optimize import nnls
from torch import Tensor

ROUNDS = 1000
"""At most so many rounds of expectation maximisation."""


def em_prior(posterior: Tensor, prior: Tensor) -> Tensor:
    r"""The class prior of unlabelled nodes with the largest likelihood, by EM.

    .. math:: \pi \leftarrow \frac{1}{V} \sum_i
        \frac{p_{ic} \, \pi_c / \pi^s_c}{\sum_{c'} p_{ic'} \, \pi_{c'} / \pi^s_{c'}}

    It starts at the prior of training and ends when no entry moves by 1e-6.

    Args:
        posterior: :math:`p`, ``[V, N]``, of a classifier trained under ``prior``.
        prior: :math:`\pi^s`, ``[N]``, positive.

    Source: Saerens, Latinne and Decaestecker (Neural Computation 2002).
    """
    p = posterior.double()
    found = before = prior.to(p)
    for _ in range(ROUNDS):
        joint = p * (found / before)
        last, found = found, (joint / joint.sum(1, keepdim=True).clamp(min=1e-300)).mean(0)
        if float((found - last).abs().max()) < 1e-6:
            break
    return found


def black_box_weights(confusion: Tensor, predicted: Tensor) -> Tensor:
    r"""The ratio :math:`w_c = \pi_c / \pi^s_c` that explains what a classifier predicts, ``[N]``.

    .. math:: \min_{w \ge 0} \lVert C w - \mu \rVert_2

    Args:
        confusion: :math:`C`, ``[N, N]``: share of held-out source nodes that are predicted as the
            row and are of the class of the column; its entries sum to one.
        predicted: :math:`\mu`, ``[N]``: share of target nodes that are predicted as each class.

    Source: Lipton, Wang and Smola (ICML 2018), with weights that are not negative.
    """
    found, _ = nnls(confusion.double().cpu().numpy(), predicted.double().cpu().numpy())
    return torch.from_numpy(found).to(predicted.device)


def known_share(known: Tensor, mixture: Tensor) -> float:
    r"""At most how large a share of a mixture is of the known classes: best bin estimation.

    .. math:: \hat\alpha = \frac{\hat q_u(\hat c)}{\hat q_p(\hat c)}, \quad
        \hat c = \arg\min_c \frac{\hat q_u(c)}{\hat q_p(c)} + \frac{1 + \gamma}{\hat q_p(c)}
        \left(\sqrt{\frac{\log(4/\delta)}{2 n_u}} + \sqrt{\frac{\log(4/\delta)}{2 n_p}}\right)

    with :math:`\hat q(c)` the share of nodes with a confidence of at least :math:`c`, and the
    authors' :math:`\gamma = 0.01`, :math:`\delta = 0.1`. Nothing is assumed of the unknown nodes
    but that hardly any is among the surest.

    Args:
        known: confidence of held-out nodes of known classes, ``[n_p]``.
        mixture: confidence of the unlabelled nodes, ``[n_u]``.

    Returns:
        :math:`\hat\alpha`, in 0 to 1.

    Source: Garg, Wu, Smola, Balakrishnan and Lipton (NeurIPS 2021), Algorithm 1.
    """
    known, mixture = known.double().sort().values, mixture.double().sort().values
    cuts = torch.cat([known, mixture]).unique()
    share_p, share_u = (1 - torch.searchsorted(part, cuts) / len(part) for part in (known, mixture))
    kept = share_p > 0
    share_p, share_u = share_p[kept].double(), share_u[kept].double()

    slack = sum(math.sqrt(math.log(4 / 0.1) / (2 * len(part))) for part in (known, mixture))
    best = ((share_u + 1.01 * slack) / share_p).argmin()
    return min(1.0, float(share_u[best] / share_p[best]))
