"""GraphGym's own training, as its users run it: one plain GCN on a Planetoid graph, whole and in
its own process.

The same few lines as PyG's public ``graphgym/main.py``, rewritten, with the config in code. Nothing
of this package is imported.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch_geometric import seed_everything
from torch_geometric.graphgym.config import assert_cfg, cfg, dump_cfg, set_out_dir, set_run_dir
from torch_geometric.graphgym.logger import set_printing
from torch_geometric.graphgym.model_builder import create_model
from torch_geometric.graphgym.train import GraphGymDataModule, train
from torch_geometric.graphgym.utils import agg_runs, auto_select_device, params_count

PLAIN_GCN = [
    "gnn.layer_type",
    "gcnconv",
    "gnn.layers_mp",
    2,
    "gnn.dim_inner",
    256,
    "gnn.dropout",
    0.5,
    "gnn.batchnorm",
    False,
    "gnn.l2norm",
    False,
    "optim.max_epoch",
    200,
    "accelerator",
    "cpu",
    "tensorboard_agg",
    False,
]
"""Everything else is GraphGym's default: Adam, transductive, public split, checkpoints on,
validation each epoch.

Batch and l2 normalisation, on by default, are off: a plain GCN has neither, and stock GraphGym is
faster so.
"""


def configure(*overrides: object) -> None:
    """Set GraphGym's global config to a plain GCN and keys and values by turns."""
    cfg.merge_from_list([*PLAIN_GCN, *overrides])
    assert_cfg(cfg)


def main() -> None:
    """Train once: ``stock.py NAME DATA_DIR OUT_DIR THREADS``; the last word of the output is the
    seconds it took from the raw files on."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("name", "data_dir", "out_dir"):
        parser.add_argument(name)
    parser.add_argument("threads", type=int)
    args = parser.parse_args()
    configure("dataset.name", args.name, "dataset.dir", args.data_dir, "num_threads", args.threads)
    set_out_dir(args.out_dir, "plain_gcn.yaml")
    dump_cfg(cfg)
    torch.set_num_threads(cfg.num_threads)
    set_run_dir(cfg.out_dir)
    set_printing()
    seed_everything(cfg.seed)
    begin = time.perf_counter()
    auto_select_device()
    datamodule = GraphGymDataModule()
    model = create_model()
    cfg.params = params_count(model)
    train(model, datamodule, logger=True)
    agg_runs(cfg.out_dir, cfg.metric_best)
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main()
