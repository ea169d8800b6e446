"""TensorBoard reads back all that was written, by its own readers and dashboards, and watching a
run changes none of its numbers."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.backend_context import Context
from tensorboard.plugins.hparams.metadata import parse_session_start_info_plugin_data
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
from torch_geometric.data import Data

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.gym.run import Extras
from graphgym_srnc.io import store
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.plots import events
from graphgym_srnc.plots.tensorboard import (
    TensorBoard,
    untouched,
)
from graphgym_srnc.train import trainer
from graphgym_srnc.train.diagnostics import judge


def toy_task() -> ShiftTask:
    generator = torch.Generator().manual_seed(0)
    true = torch.arange(60) % 4
    graph = Data(
        x=torch.eye(4)[true] + 0.3 * torch.rand(60, 4, generator=generator),
        y=true.clamp(max=2),
        y_true=true,
        edge_index=torch.randint(60, (2, 120), generator=generator),
    )
    nodes = torch.arange(60)
    return ShiftTask(
        "open_set/toy",
        graph,
        graph,
        train=nodes[:20][true[:20] < 2],
        val=nodes[20:40],
        test=nodes[40:],
        pool=nodes[20:],
        num_known=2,
        open_set=True,
        class_names=("left", "tab\tright"),
        info={"split_seed": 7},
    )


class Noisy(Method):
    """Draws from every random generator, so that a callback that does so too is found out."""

    episodes = 3

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.task, self.layer = task, torch.nn.Linear(4, 3)
        return self.episode()

    def episode(self) -> dict[str, float]:
        self.train()
        with torch.no_grad():
            self.layer.weight += 0.5 * torch.randn(3, 4) + random.random() + np.random.rand()
        self.warnings = ["the cluster GNN collapsed"]
        return {
            "source": float(self.layer.weight.detach().norm()),
            "mode": float(self.layer.training),
        }

    def predict(self, graph: Data, role: str = "target") -> torch.Tensor:
        self.eval()
        torch.rand(1)
        return self.layer(graph.x).detach()

    def views(self):
        def clusters(graph: Data) -> tuple[torch.Tensor, torch.Tensor]:
            hidden = torch.randn(graph.num_nodes, 5) + np.random.rand()
            return hidden, self.predict(graph).argmax(1) + 3

        def classifier(graph: Data) -> tuple[torch.Tensor, torch.Tensor]:
            return graph.x, self.predict(graph).argmax(1)

        return {"classifier": classifier, "cluster_gnn": clusters}


class Blind(Noisy):
    """A method with nothing to draw."""

    def views(self):
        return {}


def fit(callbacks=(), make=Noisy) -> tuple[trainer.RunRecord, Noisy]:
    random.seed(0)
    np.random.seed(0)
    method = make()
    return trainer.fit(method, toy_task(), seed=3, callbacks=callbacks), method


def watch(directory: Path, settings: dict, make=Noisy, **options) -> trainer.RunRecord:
    board = TensorBoard(directory, **options)
    record, method = fit([board], make)
    record.verdict = judge(method, toy_task(), record.first)._asdict()
    board.finish(record, method, toy_task(), settings)
    board.close()
    return record


def read(directory: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(directory), {"scalars": 0, "images": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def hyper_parameters(accumulator: EventAccumulator) -> dict:
    content = accumulator.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    values = parse_session_start_info_plugin_data(content).hparams
    return {name: getattr(value, value.WhichOneof("kind")) for name, value in values.items()}


def dashboards(logdir: Path) -> TBContext:
    multiplexer = EventMultiplexer({}).AddRunsFromDirectory(str(logdir))
    multiplexer.Reload()
    return TBContext(
        data_provider=MultiplexerDataProvider(multiplexer, str(logdir)),
        multiplexer=multiplexer,
        logdir=str(logdir),
        flags=SimpleNamespace(),
    )


def test_event_accumulator_reads_back_everything(tmp_path):
    settings = {"seed": 3, "gnn.dim_inner": 16, "open_set.unseen": [1, 2], "srnc.hard": True}
    settings |= {"gnn.act": "", "synthetic.unseen": []}
    told_already = {"method": "srnc", "train.mode": "srnc"}
    record = watch(tmp_path, settings | told_already, full=True, pdf=True)
    found = read(tmp_path)
    for block in ("losses", "val", "test"):
        for name in getattr(record.history[0], block):
            values = [(event.step, event.value) for event in found.Scalars(f"{block}/{name}")]
            assert values == [
                (e.number, pytest.approx(getattr(e, block)[name], rel=1e-6)) for e in record.history
            ]
    for split in ("val", "test"):
        for name, value in getattr(record, split).items():
            block = "final" if name in events.FIRST else "final_more"
            (event,) = found.Scalars(f"{block}/{split}_{name}")
            assert event.value == pytest.approx(value, nan_ok=True)
    for tag in ("cluster_gnn", "confusion"):
        assert [image.step for image in found.Images(f"selected/{tag}")] == [record.best]
    image = found.Images("selected/episodes")[0]
    assert image.encoded_image_string == (tmp_path / "figures" / "episodes.png").read_bytes()
    assert imread(io.BytesIO(image.encoded_image_string)).shape[:2] == (image.height, image.width)
    assert b"collapsed" in found.Tensors("warnings/text_summary")[0].tensor_proto.string_val[0]
    shown = {"method": "SRNC", "backbone": "GCN", "data": "open_set/toy"}
    shown |= {"open_set.unseen": "[1, 2]", "gnn.act": "none", "synthetic.unseen": "none"}
    assert hyper_parameters(found) == settings | shown
    stems = "classifier-selected cluster_gnn-selected confusion-selected episodes reliability"
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {
        f"{stem}.{kind}" for stem in stems.split() for kind in ("png", "pdf")
    }


def test_hparams_dashboard_shows_the_keys_of_all_runs(tmp_path):
    watch(tmp_path / "a" / "0", {"seed": 0, "srnc.num_clusters": 4}, figures=False)
    watch(tmp_path / "a" / "1", {"seed": 1, "srnc.num_clusters": 4}, figures=False)
    other = {"seed": 0, "pgl.rounds": 2, "train.mode": "pgl"}
    watch(tmp_path / "b" / "0", other, make=Blind, figures=False)
    context = Context(dashboards(tmp_path))
    metadata = context.hparams_metadata(RequestContext(), "")
    assert sorted(metadata) == [os.path.join(*run) for run in ("a0", "a1", "b0")]
    experiment = context.experiment_from_metadata(RequestContext(), "", True, metadata, None)
    shown = {info.name: info.differs for info in experiment.hparam_infos}
    names = "method backbone data seed srnc.num_clusters pgl.rounds"
    assert set(shown) == set(names.split())
    assert shown["method"] and shown["seed"] and not shown["data"]
    # The dashboard shows the first five.
    assert [info.name.tag for info in experiment.metric_infos[:5]] == [
        "final/test_macro_recall",
        "final/test_micro_f1",
        "final/test_unknown_auroc",
        "final/val_macro_recall",
        "final/val_micro_f1",
    ]


def test_a_run_shows_what_searches_vary_and_what_is_not_the_default(gym):
    words = ["srnc.rounds", "2", "gnn.dim_inner", "16", "synthetic.num_unseen", "3", "seed", "4"]
    shown = Extras().settings(gym.load_config(overrides=["train.mode", "srnc", *words]))
    wanted = {"srnc.rounds": 2, "synthetic.num_unseen": 3, "seed": 4, "gnn.dim_inner": 16}
    assert (wanted | {"method": "srnc"}).items() <= shown.items()
    assert not {"gnn.keep_edge", "train.radius"} & set(shown)
    varied = (("srnc.rounds", "3"), ("cfg", "/a/folder/erm.yaml"))
    swept = Extras(varied=varied).settings(gym.load_config())
    assert set(swept) == {"srnc.rounds", "cfg", "method", "seed"} and swept["cfg"] == "erm"


def test_projector_serves_each_run(tmp_path):
    from werkzeug.test import Client

    watch(tmp_path / "a" / "0", {"seed": 0})
    watch(tmp_path / "b" / "0", {"seed": 0})
    watch(tmp_path / "c" / "0", {"seed": 0}, figures=False)
    watch(tmp_path / "d" / "0", {"seed": 0}, make=Blind)
    apps = ProjectorPlugin(dashboards(tmp_path)).get_plugin_apps()
    served = {route: Client(app) for route, app in apps.items()}
    runs = [os.path.join(name, "0") for name in "ab"]
    assert sorted(served["/runs"].get("/").json) == runs
    for run in runs:
        infos = served["/info"].get("/", query_string={"run": run}).json["embeddings"]
        assert [info["tensorName"] for info in infos] == ["classifier", "cluster_gnn"]
        query = {"run": run, "name": "cluster_gnn"}
        table = served["/metadata"].get("/", query_string=query).text.splitlines()
        assert table[0].split("\t") == ["node", "class", "known", "predicted", "cluster", "split"]
        assert len(table) == 61
        rows = [dict(zip(table[0].split("\t"), line.split("\t"))) for line in table[1:]]
        assert rows[1]["class"] == "tab right"
        third = {"node": "2", "class": "unseen 2", "known": "unknown", "split": "other"}
        assert third.items() <= rows[2].items()
        assert [rows[node]["split"] for node in (0, 25, 45)] == ["train", "val", "test"]
        assert {row["cluster"] for row in rows} <= {"3", "4", "5"}
        assert {row["predicted"] for row in rows} <= {"left", "tab right", "unknown"}
        query = {"run": run, "name": "classifier"}
        content = served["/tensor"].get("/", query_string=query).data
        vectors = np.frombuffer(content, dtype=np.float32)
        # Principal axes keep distances.
        vectors, x = vectors.reshape(60, 4), toy_task().target.x.numpy().astype(float)
        near, far = (np.linalg.norm(points[0] - points, axis=1) for points in (vectors, x))
        assert np.allclose(near, far, atol=1e-3)


def test_watching_changes_no_number(tmp_path):
    def numbers(record: trainer.RunRecord) -> list:
        return [(episode.losses, episode.val, episode.test) for episode in record.history]

    plain, _ = fit()
    board = TensorBoard(tmp_path, full=True, how="tsne")
    watched, _ = fit([board])
    board.close()
    watch(tmp_path / "none", {}, events=False, figures=False)
    assert not (tmp_path / "none").exists()
    assert numbers(plain) == numbers(watched) and plain.best == watched.best


def test_untouched_puts_training_modes_back():
    method = fit()[1].train()
    with untouched(method):
        method.eval()
    assert method.training and method.layer.training


def results() -> dict[int, dict]:
    """Three runs, of which the second stopped early and selected its first episode; a loss is told
    from episode 1 on only."""
    rng, found = np.random.default_rng(0), {}
    for seed, length in enumerate((4, 2, 3)):
        history = []
        for n in range(length):
            losses = {"source": rng.random()} | ({"cluster": rng.random()} if n else {})
            scores = {part: {"micro_f1": rng.random()} for part in ("train", "val", "test")}
            history.append({"number": n, "losses": losses, **scores, "seconds": rng.random()})
        last = {part: history[0][part] for part in ("val", "test")}
        found[seed] = {"history": history, "selected": 0, "lr": 0.01, "params": 1, **last}
    return found


def test_aggregate_is_numpys_mean_and_std(tmp_path):
    assert events.write_aggregate(tmp_path / "none", {}) is None
    events.write_aggregate(tmp_path, {0: results()[0]})
    path = events.write_aggregate(tmp_path, results())
    assert list((tmp_path / events.MEAN).iterdir()) == [path]  # it replaces the one before
    found = read(tmp_path / events.MEAN)
    histories = [result["history"] for result in results().values()]
    runs = [[episode["test"]["micro_f1"] for episode in history] for history in histories]
    held = np.array([run + [run[0]] * (4 - len(run)) for run in runs])
    mean, std = held.mean(0), held.std(0)
    sides = {"mean": mean, "lower": mean - std, "upper": mean + std}
    curves = {f"within_std/test/micro_f1/{side}": curve for side, curve in sides.items()}
    for tag, curve in (curves | {"test/micro_f1": mean}).items():
        assert [event.step for event in found.Scalars(tag)] == [0, 1, 2, 3]
        values = [event.value for event in found.Scalars(tag)]
        assert values == pytest.approx(curve.tolist(), rel=1e-6)
    cluster = [[episode["losses"].get("cluster") for episode in history] for history in histories]
    told = [[run[n] for run in cluster if n < len(run)] for n in (1, 2, 3)]
    assert [(event.step, event.value) for event in found.Scalars("losses/cluster")] == [
        (n + 1, pytest.approx(np.mean(values), rel=1e-6)) for n, values in enumerate(told)
    ]
    config = found.Tensors("custom_scalars__config__")[0].tensor_proto
    layout = Layout.FromString(config.string_val[0])
    assert [category.title for category in layout.category] == ["test", "val", "train", "losses"]
    tags = set(found.Tags()["scalars"])
    for category in layout.category:
        for chart in category.chart:
            (series,) = chart.margin.series
            assert {series.value, series.lower, series.upper} <= tags
            assert series.value.endswith(f"{chart.title}/mean")


def test_graphgym_aggregates_beside_ours(tmp_path, gym):
    from torch_geometric.graphgym.utils.agg_runs import agg_batch, agg_runs

    experiment = store.Experiment(tmp_path, "toy", {"seed": 0})
    for seed, result in results().items():
        experiment.begin(seed)
        experiment.finish(seed, result)
    events.write_aggregate(experiment.path, experiment.aggregate())
    agg_runs(str(experiment.path), "auto")
    assert list((experiment.path / events.MEAN).iterdir())
    agg_batch(str(tmp_path), "auto")
    assert (tmp_path / "agg" / "val_best.csv").is_file()
