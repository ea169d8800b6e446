# Made by `python -m graphgym_srnc.api.stubs`.
from typing import Any, Sequence

from graphgym_srnc.api import OnNodes as OnNodes
from graphgym_srnc.api import from_frames as from_frames
from graphgym_srnc.api import from_networkx as from_networkx
from graphgym_srnc.api import load as load
from graphgym_srnc.api.estimator import Estimator
from graphgym_srnc.report.frame import results as results

__version__: str


class A2GNN(Estimator):
    """Propagate more on the target than on the source, and align both by MMD."""
    def __init__(self, *, weight: float = 25.0, source_hops: int = 0, target_hops: int = 10,
                 sample: int = 1000, score: str = 'max_softmax', temperature: float = 0.0,
                 perturbation: float = 0.0014, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'mlp', hidden: int = 128, layers: int = 2, dropout: float = 0.0,
                 activation: str = 'relu', heads: int = 8, features: str = 'none',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class ADAlign(Estimator):
    """Align the characteristic functions of hidden states at frequencies where they differ
    most."""
    def __init__(self, *, weight: float = 0.6, amplitude: float = 0.8, frequencies: int = 128,
                 source_hops: int = 10, target_hops: int = 10, score: str = 'max_softmax',
                 temperature: float = 0.0, perturbation: float = 0.0014, steps: int = 100,
                 rounds: int = 1, smoothing: int = 0, correction: str = 'none',
                 correction_power: float = 1.0, cut: str = 'validation', batch_size: int = 0,
                 fanout: int = 10, backbone: str = 'mlp', hidden: int = 128, layers: int = 3,
                 dropout: float = 0.25, activation: str = 'relu', heads: int = 8,
                 features: str = 'none', lr: float = 0.01, weight_decay: float = 0.0005,
                 selection: str = 'auto', min_agreement: float = 0.6, max_episodes: int = -1,
                 patience: int = 0, open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class CMD(Estimator):
    """Train a plain GNN with the central moment discrepancy (CMD) of source and target states."""
    def __init__(self, *, weight: float = 1.0, order: int = 5, target_nodes: int = 0,
                 score: str = 'max_softmax', temperature: float = 0.0,
                 perturbation: float = 0.0014, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 256, layers: int = 2, dropout: float = 0.5,
                 activation: str = 'relu', heads: int = 8, features: str = 'auto',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class CORAL(Estimator):
    """Train a plain GNN with the distance between the covariances of source and target states."""
    def __init__(self, *, weight: float = 100.0, target_nodes: int = 0, score: str = 'max_softmax',
                 temperature: float = 0.0, perturbation: float = 0.0014, steps: int = 100,
                 rounds: int = 1, smoothing: int = 0, correction: str = 'none',
                 correction_power: float = 1.0, cut: str = 'validation', batch_size: int = 0,
                 fanout: int = 10, backbone: str = 'gcn', hidden: int = 256, layers: int = 2,
                 dropout: float = 0.5, activation: str = 'relu', heads: int = 8,
                 features: str = 'auto', lr: float = 0.01, weight_decay: float = 0.0005,
                 selection: str = 'auto', min_agreement: float = 0.6, max_episodes: int = -1,
                 patience: int = 0, open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class DANN(Estimator):
    """Train a plain GNN against a domain classifier whose gradient is reversed."""
    def __init__(self, *, weight: float = 0.1, gamma: float = 10.0, target_nodes: int = 0,
                 score: str = 'max_softmax', temperature: float = 0.0,
                 perturbation: float = 0.0014, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 256, layers: int = 2, dropout: float = 0.5,
                 activation: str = 'relu', heads: int = 8, features: str = 'auto',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class DOC(Estimator):
    """Train one sigmoid per class and reject nodes that are below the threshold of every class."""
    def __init__(self, *, balanced: bool = True, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 256, layers: int = 2, dropout: float = 0.5,
                 activation: str = 'relu', heads: int = 8, features: str = 'auto',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class ERM(Estimator):
    """Train a plain GNN with cross-entropy on the labelled source nodes."""
    def __init__(self, *, score: str = 'max_softmax', temperature: float = 0.0,
                 perturbation: float = 0.0014, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 256, layers: int = 2, dropout: float = 0.5,
                 activation: str = 'relu', heads: int = 8, features: str = 'auto',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class G2Pxy(Estimator):
    """Learn the unknown class from mixtures of hidden states, called proxies (a variant of
    G2Pxy)."""
    def __init__(self, *, proxy_dim: int = 128, ratio: float = 1.0, boundary: float = 0.1,
                 masked_weight: float = 1.0, inter_weight: float = 0.01,
                 external_weight: float = 0.01, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 256, layers: int = 2, dropout: float = 0.5,
                 activation: str = 'relu', heads: int = 8, features: str = 'auto',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class GRADE(Estimator):
    """Train a plain GNN against a linear domain classifier on hidden states and logits."""
    def __init__(self, *, weight: float = 0.005, gamma: float = 10.0, target_nodes: int = 0,
                 score: str = 'max_softmax', temperature: float = 0.0,
                 perturbation: float = 0.0014, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 256, layers: int = 2, dropout: float = 0.5,
                 activation: str = 'relu', heads: int = 8, features: str = 'auto',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class IID(Estimator):
    """Train a plain GNN on the oracle task, in which every class is labelled."""
    def __init__(self, *, score: str = 'max_softmax', temperature: float = 0.0,
                 perturbation: float = 0.0014, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 256, layers: int = 2, dropout: float = 0.5,
                 activation: str = 'relu', heads: int = 8, features: str = 'auto',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class MMD(Estimator):
    """Train a plain GNN with the maximum mean discrepancy (MMD) between source and target
    states."""
    def __init__(self, *, weight: float = 0.1, sample: int = 1024, score: str = 'max_softmax',
                 temperature: float = 0.0, perturbation: float = 0.0014, steps: int = 100,
                 rounds: int = 1, smoothing: int = 0, correction: str = 'none',
                 correction_power: float = 1.0, cut: str = 'validation', batch_size: int = 0,
                 fanout: int = 10, backbone: str = 'gcn', hidden: int = 256, layers: int = 2,
                 dropout: float = 0.5, activation: str = 'relu', heads: int = 8,
                 features: str = 'auto', lr: float = 0.01, weight_decay: float = 0.0005,
                 selection: str = 'auto', min_agreement: float = 0.6, max_episodes: int = -1,
                 patience: int = 0, open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class NODESafe(Estimator):
    """Train a plain GNN with penalties on the variance of logit norms and logit sums over
    nodes."""
    def __init__(self, *, weight: float = 1.0, bounded: float = 0.999, warmup: int = 20,
                 score: str = 'gnnsafe', temperature: float = 0.0, perturbation: float = 0.0014,
                 steps: int = 100, rounds: int = 1, smoothing: int = 0, correction: str = 'none',
                 correction_power: float = 1.0, cut: str = 'validation', batch_size: int = 0,
                 fanout: int = 10, backbone: str = 'gcn', hidden: int = 256, layers: int = 2,
                 dropout: float = 0.5, activation: str = 'relu', heads: int = 8,
                 features: str = 'auto', lr: float = 0.01, weight_decay: float = 0.0005,
                 selection: str = 'auto', min_agreement: float = 0.6, max_episodes: int = -1,
                 patience: int = 0, open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class OpenWGL(Estimator):
    """Train a variational graph autoencoder whose classifier is uncertain on unlabelled nodes."""
    def __init__(self, *, latent: int = 16, kl_weight: float = 1.0, edge_weight: float = 1.0,
                 uncertainty_weight: float = 1.0, max_edges: int = 20000, samples: int = 100,
                 cut: str = 'validation', steps: int = 100, rounds: int = 1, smoothing: int = 0,
                 correction: str = 'none', correction_power: float = 1.0, batch_size: int = 0,
                 fanout: int = 10, backbone: str = 'gcn', hidden: int = 256, layers: int = 2,
                 dropout: float = 0.5, activation: str = 'relu', heads: int = 8,
                 features: str = 'auto', lr: float = 0.01, weight_decay: float = 0.0005,
                 selection: str = 'auto', min_agreement: float = 0.6, max_episodes: int = -1,
                 patience: int = 0, open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class PairAlign(Estimator):
    """Train a plain GNN on a source whose edges and labels are reweighted to match the target."""
    def __init__(self, *, strength: float = 1.0, edge_ridge: float = 3.0,
                 label_ridge: float = 0.01, floor: float = 0.0001, score: str = 'max_softmax',
                 temperature: float = 0.0, perturbation: float = 0.0014, steps: int = 100,
                 rounds: int = 1, smoothing: int = 0, correction: str = 'none',
                 correction_power: float = 1.0, cut: str = 'validation', batch_size: int = 0,
                 fanout: int = 10, backbone: str = 'gcn', hidden: int = 256, layers: int = 2,
                 dropout: float = 0.5, activation: str = 'relu', heads: int = 8,
                 features: str = 'auto', lr: float = 0.01, weight_decay: float = 0.0005,
                 selection: str = 'auto', min_agreement: float = 0.6, max_episodes: int = -1,
                 patience: int = 0, open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class PGL(Estimator):
    """Retrain the GNN from scratch in each episode on labels and a growing set of pseudo-
    labels."""
    def __init__(self, *, enlarging: float = 0.1, confident: float = 0.6,
                 unknown_loss: str = 'extra_class', steps: int = 100, members: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 256, layers: int = 2, dropout: float = 0.5,
                 activation: str = 'relu', heads: int = 8, features: str = 'auto',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class SRGNN(Estimator):
    """Train a plain GNN on reweighted labelled nodes, with the CMD of its hidden states."""
    def __init__(self, *, weight: float = 1.0, order: int = 5, b_min: float = 0.2, hops: int = 2,
                 kernel_dim: int = 128, kernel_nodes: int = 2000, target_nodes: int = 0,
                 score: str = 'max_softmax', temperature: float = 0.0,
                 perturbation: float = 0.0014, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 256, layers: int = 2, dropout: float = 0.5,
                 activation: str = 'relu', heads: int = 8, features: str = 'auto',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class SRNC(Estimator):
    """Alternate a classifier and a cluster GNN, as in Algorithm 1 of the SRNC paper."""
    def __init__(self, *, num_clusters: int = 16, pretrain_steps: int = 100, rounds: int = 5,
                 cluster_steps: int = 20, source_batch: int = 32, steps: int = 60,
                 alpha: float = 0.0, source_regularizer: bool = True,
                 pseudo_labels: str = 'cluster', unknown_share: float = 0.5,
                 cluster_init: str = 'auto', cluster_lr: float = 0.01, resolution: float = 1.0,
                 collapse: float = 1.0, smoothing: int = 0, correction: str = 'none',
                 correction_power: float = 1.0, cut: str = 'validation', batch_size: int = 0,
                 fanout: int = 10, backbone: str = 'gcn', hidden: int = 256, layers: int = 2,
                 dropout: float = 0.5, activation: str = 'relu', heads: int = 8,
                 features: str = 'auto', lr: float = 0.01, weight_decay: float = 0.0005,
                 selection: str = 'auto', min_agreement: float = 0.6, max_episodes: int = -1,
                 patience: int = 0, open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class SRNCPlus(Estimator):
    """Alternate a classifier and a cluster GNN, starting from the labels, for every kind of
    shift."""
    def __init__(self, *, rounds: int = 3, steps: int = 200, fit_steps: int = 60,
                 cluster_steps: int = 60, spare: int = 12, modularity_weight: float = 3.0,
                 resolution: float = 2.0, missing: float = 3.0, sure: float = 0.8,
                 doubt: float = 2.0, smoothing: int = 10, correction: str = 'auto',
                 correction_power: float = 1.0, cut: str = 'validation', batch_size: int = 0,
                 fanout: int = 10, backbone: str = 'gcn', hidden: int = 64, layers: int = 2,
                 dropout: float = 0.5, activation: str = 'relu', heads: int = 8,
                 features: str = 'auto', lr: float = 0.01, weight_decay: float = 0.0005,
                 selection: str = 'auto', min_agreement: float = 0.6, max_episodes: int = -1,
                 patience: int = 0, open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class StruRW(Estimator):
    """Train a plain GNN on a source graph whose edges are reweighted to match the target."""
    def __init__(self, *, strength: float = 0.8, max_ratio: float = 10.0,
                 score: str = 'max_softmax', temperature: float = 0.0,
                 perturbation: float = 0.0014, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 256, layers: int = 2, dropout: float = 0.5,
                 activation: str = 'relu', heads: int = 8, features: str = 'auto',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class UAGA(Estimator):
    """Align target nodes that look known with the source and push away those that look unknown."""
    def __init__(self, *, pretrain_steps: int = 150, steps: int = 20, rounds: int = 50,
                 target_weight: float = 0.1, domain_weight: float = 0.5,
                 unknown_share: float = 0.22, smoothing: int = 0, correction: str = 'none',
                 correction_power: float = 1.0, cut: str = 'validation', batch_size: int = 0,
                 fanout: int = 10, backbone: str = 'gcn', hidden: int = 256, layers: int = 2,
                 dropout: float = 0.5, activation: str = 'relu', heads: int = 8,
                 features: str = 'auto', lr: float = 0.01, weight_decay: float = 0.0005,
                 selection: str = 'auto', min_agreement: float = 0.6, max_episodes: int = -1,
                 patience: int = 0, open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...

class UDAGCN(Estimator):
    """Combine the graph and its PPMI graph by attention, with an adversary and an entropy loss."""
    def __init__(self, *, strength: float = 0.05, entropy_weight: float = 0.01,
                 domain_dim: int = 40, walks: int = 40, walk_length: int = 10,
                 score: str = 'max_softmax', temperature: float = 0.0,
                 perturbation: float = 0.0014, steps: int = 100, rounds: int = 1,
                 smoothing: int = 0, correction: str = 'none', correction_power: float = 1.0,
                 cut: str = 'validation', batch_size: int = 0, fanout: int = 10,
                 backbone: str = 'gcn', hidden: int = 128, layers: int = 2, dropout: float = 0.4,
                 activation: str = 'relu', heads: int = 8, features: str = 'none',
                 lr: float = 0.01, weight_decay: float = 0.0005, selection: str = 'auto',
                 min_agreement: float = 0.6, max_episodes: int = -1, patience: int = 0,
                 open_set: bool | None = None, random_state: int = 0,
                 num_threads: int | str = 'auto', callbacks: Sequence[Any] = (),
                 verbose: int = False) -> None: ...
