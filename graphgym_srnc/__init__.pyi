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
    """One encoder for both graphs, propagated :math:`s` times on the source and :math:`t` times on
    the target, matched by MMD, then a graph convolution that gives the classes on either."""
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
    r"""A2GNN's encoder, matched by characteristic functions :math:`\phi` of the hidden states."""
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
    """The plain GNN with the central moment discrepancy of its last hidden state."""
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
    """The plain GNN with the distance of the covariances of its last hidden state."""
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
    """The plain GNN, and a domain classifier on its hidden state whose gradient is reversed."""
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
    """One-against-the-rest classifiers, with the summed binary cross-entropy of all of them."""
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
    """Empirical risk minimisation on the labelled source nodes (Eq. 2 of the paper)."""
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
    """A linear classifier of :math:`N + 1` classes on the encoder's hidden states :math:`z`; in
    episode 0 it learns the known ones, afterwards the last one stands for proxies of the
    unknown."""
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
    """The plain GNN, and a linear domain classifier on hidden state and logits side by side."""
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
    """The plain GNN on ``task.oracle``; the paper's ΔF1 is the distance to its Micro-F1."""
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
    """The plain GNN with the squared multi-kernel MMD of its last hidden state."""
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
    """The plain GNN with penalties on how lengths and sums of its logits vary over nodes."""
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
    r"""Every node has a normal distribution, the encoder's output :math:`z_i \sim \mathcal
    N(\mu_i, \text{diag}(\sigma_i^2))`, and a linear classifier reads a draw of it."""
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
    """The plain GNN on a source whose edges and labels are weighted, both anew in each episode."""
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
    """Each episode re-trains the GNN from scratch on labels and pseudo-labels, and names more."""
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
    """The plain GNN with kernel-mean-matching weights on its training nodes and the CMD of its
    hidden states (Eq. 11 of SRGNN)."""
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
    """Shift-Robust Node Classification as the paper has it."""
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
    """Classifier and cluster GNN by turns, from the labels on, in every kind of shift."""
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
    r"""The plain GNN on a source graph whose edges between classes :math:`a` and :math:`b` weigh
    :math:`1 - \lambda + \lambda \, B^T_{ab} / B^S_{ab}`."""
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
    """A classifier of :math:`N + 1` classes; what looks known is drawn to the source, what looks
    unknown is pushed away from it."""
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
    """One encoder reads the graph and its PPMI graph, and attention mixes both embeddings."""
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
