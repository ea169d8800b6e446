"""The losses of methods that align hidden states of source and target."""

from __future__ import annotations

from typing import Callable

from torch import Tensor

from graphgym_srnc.backbones import View
from graphgym_srnc.methods.shared.supervised import Supervised
from graphgym_srnc.methods.shared.training import gather


def aligned(
    method: Supervised,
    term: str,
    weight: float,
    discrepancy: Callable[[Tensor, Tensor], Tensor],
    *,
    strength: float = 1.0,
    embed: Callable[[View], tuple[Tensor, Tensor]] | None = None,
    bounded: bool = False,
) -> dict[str, Tensor]:
    """Cross-entropy on the source, and a weighted discrepancy of source and target states.

    Args:
        method: the method, whose views are ``on_source`` and ``on_target``.
        term: name of the discrepancy.
        weight: weight of the discrepancy; 0 = none is computed.
        discrepancy: function of the hidden states ``[n, H]`` of all processes.
        strength: share of the weight at this step.
        embed: returns logits and states of a view; None = those of the classifier.
        bounded: whether a tanh is applied to states that no tanh bounds already.
    """
    embed = embed or method.classifier.embed
    logits, source = embed(method.on_source)
    terms = {"source": method.source_loss(logits)}
    if weight:
        source = gather(source)
        target = gather(embed(method.on_target)[1])
        if bounded and (method.encoder.act != "tanh" or len(method.classifier.layers) == 1):
            source = source.tanh()
            target = target.tanh()
        terms[term] = weight * strength * discrepancy(source, target)
    return terms
