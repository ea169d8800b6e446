"""Public names and parameters of estimators, written by ``python docs/stubs.py``."""

from collections.abc import Sequence
from typing import Any, Literal

from typing_extensions import dataclass_transform

from graphgym_srnc import plot as plot
from graphgym_srnc import shifts as shifts
from graphgym_srnc.api import Estimator as Estimator
from graphgym_srnc.api import OnNodes as OnNodes
from graphgym_srnc.api import from_frames as from_frames
from graphgym_srnc.api import from_networkx as from_networkx
from graphgym_srnc.api import load as load
from graphgym_srnc.api.parameters import Callback as _Callback
from graphgym_srnc.core.task import ShiftTask as ShiftTask
from graphgym_srnc.errors import InputError as InputError
from graphgym_srnc.errors import ShiftWarning as ShiftWarning
from graphgym_srnc.own.discover.found import discover as discover
from graphgym_srnc.report.frame import results as results

__all__ = [
    "A2GNN",
    "ADAlign",
    "CMD",
    "CORAL",
    "DANN",
    "DOC",
    "ERM",
    "Estimator",
    "G2Pxy",
    "GRADE",
    "IID",
    "InputError",
    "MMD",
    "NODESafe",
    "OnNodes",
    "OpenWGL",
    "PGL",
    "PairAlign",
    "SRGNN",
    "SRNC",
    "SRNCPlus",
    "ShiftTask",
    "ShiftWarning",
    "StruRW",
    "UAGA",
    "UDAGCN",
    "discover",
    "from_frames",
    "from_networkx",
    "load",
    "plot",
    "results",
    "shifts",
]
__version__: str

_Backbone = Literal[
    "gcnconv",
    "sageconv",
    "gatconv",
    "gatdrop",
    "sgconv",
    "mlp",
    "dgi",
    "sign",
    "gcn",
    "sage",
    "gat",
    "sgc",
]
_Activation = Literal["relu", "selu", "elu", "tanh", "swish", "lrelu_01", "identity"]
_Features = Literal["row", "l2", "auto", "none"]
_Selection = Literal["auto", "target_val", "source_val", "target_modularity", "last"]
_Confidence = Literal[
    "max_softmax", "max_logit", "entropy", "energy", "gnnsafe", "grasp", "odin", "openmax"
]
_Correction = Literal["none", "mean", "em", "bbse", "labels"]
_Cut = Literal["validation", "share"]

# Type checkers make the signature of each class below of its fields.
@dataclass_transform(kw_only_default=True, eq_default=False)
class _Fields(Estimator): ...

class _Parameters(_Fields):
    """Parameters of every estimator, with their usual defaults."""

    steps: int = 100
    source_first: bool = False
    batch_size: int = 0
    fanout: int = 10
    smoothing: int = 0
    correction_power: float = 1.0
    cut: _Cut = "validation"
    backbone: _Backbone = "gcn"
    hidden: int = 256
    layers: int = 2
    dropout: float = 0.5
    activation: _Activation = "relu"
    heads: int = 8
    features: _Features = "auto"
    lr: float = 0.01
    weight_decay: float = 0.0005
    selection: _Selection = "auto"
    max_episodes: int = -1
    patience: int = 0
    open_set: bool | None = None
    class_weight: dict[Any, float] | str | None = None
    random_state: int = 0
    num_threads: int | Literal["auto"] = "auto"
    callbacks: Sequence[_Callback] = ()
    verbose: int = 0

class A2GNN(_Parameters):
    r"""Propagate more on the target than on the source, and align both by MMD.

    Args:
        weight: constant weight w. The authors sum five kernels where this takes the mean, so 25 is
            their 5.
        source_hops: propagation steps s on the source.

    Other estimators have the same further parameters, which ``help(A2GNN)`` explains.
    """

    weight: float = 25.0
    source_hops: int = 0
    target_hops: int = 10
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"
    backbone: _Backbone = "mlp"
    hidden: int = 128
    dropout: float = 0.0
    features: _Features = "none"

class ADAlign(_Parameters):
    r"""Align the characteristic functions of hidden states at frequencies where they differ most.

    Args:
        weight: weight w of the discrepancy.
        amplitude: weight α of amplitudes; phases have the rest.
        source_hops: propagation steps of a hidden layer on the source.

    Other estimators have the same further parameters, which ``help(ADAlign)`` explains.
    """

    weight: float = 0.6
    amplitude: float = 0.8
    source_hops: int = 10
    target_hops: int = 10
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"
    backbone: _Backbone = "mlp"
    hidden: int = 128
    layers: int = 3
    dropout: float = 0.25
    features: _Features = "none"

class CMD(_Parameters):
    r"""Train a plain GNN with the central moment discrepancy (CMD) of source and target states.

    Args:
        weight: weight w of the discrepancy; 0 = none is computed.

    Other estimators have the same further parameters, which ``help(CMD)`` explains.
    """

    weight: float = 1.0
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"

class CORAL(_Parameters):
    r"""Train a plain GNN with the distance between the covariances of source and target states.

    Args:
        weight: weight w. The distance is small; try 1 to 10,000.

    Other estimators have the same further parameters, which ``help(CORAL)`` explains.
    """

    weight: float = 100.0
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"

class DANN(_Parameters):
    r"""Train a plain GNN against a domain classifier whose gradient is reversed.

    Args:
        weight: weight w of the domain loss.

    Other estimators have the same further parameters, which ``help(DANN)`` explains.
    """

    weight: float = 0.1
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"

class DOC(_Parameters):
    r"""Train one sigmoid per class and reject nodes that are below the threshold of every class.

    Args:
        balanced: whether the positive nodes of a class weigh as much as its negative ones, as in
            gDOC of Open-World-LGL; False = DOC.
        correction: correction of the posterior by the class prior of the target: ``none``, ``mean``
            (divide by the mean posterior), ``em`` or ``bbse`` (multiply by the estimated ratio of
            class shares to training), or ``labels`` (divide by the shares of the training labels).
            The prior is estimated on the target of training and kept for later graphs. Allowed:
            none.

    Other estimators have the same further parameters, which ``help(DOC)`` explains.
    """

    balanced: bool = True
    correction: Literal["none"] = "none"
    rounds: int = 1

class ERM(_Parameters):
    r"""Train a plain GNN with cross-entropy on the labelled source nodes.

    Args:
        confidence: score in open-set shift that is larger if a node more likely is of a known
            class: ``max_softmax``, ``max_logit``, ``entropy``, ``energy``, ``gnnsafe`` (energy
            propagated over the graph), ``grasp`` (with added edges between training nodes),
            ``odin`` or ``openmax``. Only ``max_softmax`` uses ``smoothing``; the others read the
            raw logits. ``grasp`` adds edges on the graph of the training nodes alone, so part of
            this graph has other scores than the whole. Allowed: max_softmax, max_logit, entropy,
            energy, gnnsafe, grasp, odin, openmax.

    Other estimators have the same further parameters, which ``help(ERM)`` explains.
    """

    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"

class G2Pxy(_Parameters):
    r"""Learn the unknown class from mixtures of hidden states, called proxies (a variant of G2Pxy).

    Args:
        inter_weight: weights w_1 and w_2.
        external_weight: weights w_1 and w_2.

    Other estimators have the same further parameters, which ``help(G2Pxy)`` explains.
    """

    inter_weight: float = 0.01
    external_weight: float = 0.01
    rounds: int = 1
    correction: _Correction = "none"

class GRADE(_Parameters):
    r"""Train a plain GNN against a linear domain classifier on hidden states and logits.

    Args:
        weight: weight w. The authors' is 0.01 of the mean over both graphs.

    Other estimators have the same further parameters, which ``help(GRADE)`` explains.
    """

    weight: float = 0.005
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"

class IID(_Parameters):
    r"""Train a plain GNN on the oracle task, in which every class is labelled.

    Args:
        confidence: score in open-set shift that is larger if a node more likely is of a known
            class: ``max_softmax``, ``max_logit``, ``entropy``, ``energy``, ``gnnsafe`` (energy
            propagated over the graph), ``grasp`` (with added edges between training nodes),
            ``odin`` or ``openmax``. Only ``max_softmax`` uses ``smoothing``; the others read the
            raw logits. ``grasp`` adds edges on the graph of the training nodes alone, so part of
            this graph has other scores than the whole. Allowed: max_softmax, max_logit, entropy,
            energy, gnnsafe, grasp, odin, openmax.

    Other estimators have the same further parameters, which ``help(IID)`` explains.
    """

    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"

class MMD(_Parameters):
    r"""Train a plain GNN with the maximum mean discrepancy (MMD) between source and target states.

    Args:
        weight: largest weight w.

    Other estimators have the same further parameters, which ``help(MMD)`` explains.
    """

    weight: float = 0.1
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"

class NODESafe(_Parameters):
    r"""Train a plain GNN with penalties on the variance of logit norms and logit sums over nodes.

    Args:
        weight: weight w. The authors use 12 on Cora, 5 on CiteSeer and 0.8 to 1 on PubMed.
        confidence: score in open-set shift that is larger if a node more likely is of a known
            class: ``max_softmax``, ``max_logit``, ``entropy``, ``energy``, ``gnnsafe`` (energy
            propagated over the graph), ``grasp`` (with added edges between training nodes),
            ``odin`` or ``openmax``. Only ``max_softmax`` uses ``smoothing``; the others read the
            raw logits. ``grasp`` adds edges on the graph of the training nodes alone, so part of
            this graph has other scores than the whole. Allowed: max_softmax, max_logit, entropy,
            energy, gnnsafe, grasp, odin, openmax.

    Other estimators have the same further parameters, which ``help(NODESafe)`` explains.
    """

    weight: float = 1.0
    confidence: _Confidence = "gnnsafe"
    rounds: int = 1
    correction: _Correction = "none"

class OpenWGL(_Parameters):
    r"""Train a variational graph autoencoder whose classifier is uncertain on unlabelled nodes.

    Args:
        kl_weight: weights w_1, w_2, w_3.
        edge_weight: weights w_1, w_2, w_3.
        uncertainty_weight: weights w_1, w_2, w_3.

    Other estimators have the same further parameters, which ``help(OpenWGL)`` explains.
    """

    kl_weight: float = 1.0
    edge_weight: float = 1.0
    uncertainty_weight: float = 1.0
    rounds: int = 1
    correction: _Correction = "none"

class PairAlign(_Parameters):
    r"""Train a plain GNN on a source whose edges and labels are reweighted to match the target.

    Args:
        edge_ridge: ridge λ of pairs and labels; it draws ratios to 1.
        label_ridge: ridge λ of pairs and labels; it draws ratios to 1.

    Other estimators have the same further parameters, which ``help(PairAlign)`` explains.
    """

    edge_ridge: float = 3.0
    label_ridge: float = 0.01
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"

class PGL(_Parameters):
    r"""Retrain the GNN from scratch in each episode on labels and a growing set of pseudo-labels.

    Args:
        enlarging: share α of the unlabelled nodes that get a pseudo-label per episode.
        confident: share β of those that get a known class.
        steps: gradient steps per episode.
        members: number of networks from different initial weights, whose posteriors are averaged.

    Other estimators have the same further parameters, which ``help(PGL)`` explains.
    """

    enlarging: float = 0.1
    confident: float = 0.6
    members: int = 1
    correction: _Correction = "none"

class SRGNN(_Parameters):
    r"""Train a plain GNN on reweighted labelled nodes, with the CMD of its hidden states.

    Args:
        weight: weight w of the discrepancy; 0 = none is computed.

    Other estimators have the same further parameters, which ``help(SRGNN)`` explains.
    """

    weight: float = 1.0
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"

class SRNC(_Parameters):
    r"""Alternate a classifier and a cluster GNN, as in Algorithm 1 of the SRNC paper.

    Args:
        num_clusters: number of clusters C in open-set shift; N in close-set shift.
        pretrain_steps: gradient steps of the classifier in episode 0.
        rounds: number of episodes after episode 0.
        cluster_steps: gradient steps T of the cluster GNN per episode.
        source_batch: number B of source nodes drawn per cluster step; 0 = all.
        steps: gradient steps of the classifier per episode.
        alpha: weight α of pseudo-labels on unlabelled source nodes. Above 0 the predictions of the
            classifier stand in for the missing source labels.
        source_regularizer: whether to use L_{Φ,θ,S}; False is an ablation.
        pseudo_labels: model that gives the pseudo-labels: ``cluster``, or ``classifier`` for the
            ablation without Φ. Allowed: cluster, classifier.
        unknown_share: share of pseudo-labels that are unknown in that ablation; 0 = 1 / (N + 1), as
            many as of each known class. The paper does not give it.
        cluster_init: how the cluster GNN starts: from ``modularity`` alone (the paper's order),
            from the ``source`` labels, or ``auto``, which is ``source`` in close-set shift.
            Allowed: auto, modularity, source.
        cluster_lr: learning rate of the cluster GNN.
        collapse: weight of DMoN's collapse term.

    Other estimators have the same further parameters, which ``help(SRNC)`` explains.
    """

    num_clusters: int = 16
    pretrain_steps: int = 100
    rounds: int = 5
    cluster_steps: int = 20
    source_batch: int = 32
    steps: int = 60
    alpha: float = 0.0
    source_regularizer: bool = True
    pseudo_labels: Literal["cluster", "classifier"] = "cluster"
    unknown_share: float = 0.0
    cluster_init: Literal["auto", "modularity", "source"] = "auto"
    cluster_lr: float = 0.01
    collapse: float = 1.0
    correction: _Correction = "none"

class SRNCPlus(_Parameters):
    r"""Alternate a classifier and a cluster GNN, starting from the labels, for every kind of shift.

    Args:
        rounds: maximum number of iterations; 0 = two on one graph, three between two graphs, and up
            to five while the expected accuracy rises.
        steps: maximum gradient steps of the classifier per iteration. On one graph without
            ``batch_size`` it stops when the loss has converged.
        fit_steps: gradient steps of the cluster GNN on labels and pseudo-labels.
        cluster_steps: gradient steps of the cluster GNN on the whole loss.
        spare: number of spare clusters in open-set shift.
        modularity_weight: weight w of modularity.
        resolution: resolution of modularity in open-set shift, in multiples of Newman's estimate
            from the pseudo-labels. In close-set shift it is 1.
        missing: weight of label density against log-odds in the first scores; 0 = log-odds alone.
        doubt: exponent of the held-out accuracy that gives the share of pseudo-labels to learn; 0 =
            all. In open-set shift between two graphs the share is 70 %.
        smoothing: steps of personalised PageRank over the posterior. On one graph, held-out nodes
            decide whether it is smoothed.
        abstain: whether to predict no node as unknown if the labels show no sign of an unknown
            class, and not to adapt to the target if its edges do not seem to join nodes of the same
            class.
        correction: correction of the posterior by class shares, see ``ERM``. ``auto`` is ``mean``
            with power 0.75 in close-set shift, else ``labels`` with power 0.5. Allowed: auto, none,
            mean, em, bbse, labels.
        source_first: whether to find the unknown class on the source of two graphs first, see
            ``graphgym_srnc.train.source_first``. It needs held-out source nodes of unknown classes,
            and has no effect without them.

    Other estimators have the same further parameters, which ``help(SRNCPlus)`` explains.
    """

    rounds: int = 0
    steps: int = 200
    fit_steps: int = 60
    cluster_steps: int = 60
    spare: int = 12
    modularity_weight: float = 3.0
    resolution: float = 2.0
    missing: float = 3.0
    doubt: float = 2.0
    smoothing: int = 10
    abstain: bool = True
    correction: Literal["auto", "none", "mean", "em", "bbse", "labels"] = "auto"
    source_first: bool = True
    hidden: int = 64

class StruRW(_Parameters):
    r"""Train a plain GNN on a source graph whose edges are reweighted to match the target.

    Args:
        strength: strength λ of the reweighting.

    Other estimators have the same further parameters, which ``help(StruRW)`` explains.
    """

    strength: float = 0.8
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"

class UAGA(_Parameters):
    r"""Align target nodes that look known with the source and push away those that look unknown.

    Args:
        pretrain_steps: gradient steps of episode 0.
        steps: gradient steps between two clusterings.
        rounds: number of clusterings, one per episode.
        target_weight: weight w.

    Other estimators have the same further parameters, which ``help(UAGA)`` explains.
    """

    pretrain_steps: int = 150
    steps: int = 20
    rounds: int = 50
    target_weight: float = 0.1
    correction: _Correction = "none"

class UDAGCN(_Parameters):
    r"""Combine the graph and its PPMI graph by attention, with an adversary and an entropy loss.

    Args:
        strength: maximum λ; before it is reached, λ is the share of training that is done.
        entropy_weight: weight w_e at the end.

    Other estimators have the same further parameters, which ``help(UDAGCN)`` explains.
    """

    strength: float = 0.05
    entropy_weight: float = 0.01
    confidence: _Confidence = "max_softmax"
    rounds: int = 1
    correction: _Correction = "none"
    hidden: int = 128
    dropout: float = 0.4
    features: _Features = "none"
