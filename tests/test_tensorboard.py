"""TensorBoard reads back all that was written, by its own readers and dashboards, and watching a
run changes none of its numbers."""

from __future__ import annotations

import io
import os
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
from torch_geometric.data import Data

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.gym import run as gym_run
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.plots import events
from graphgym_srnc.plots.tensorboard import Extras, TensorBoard
from graphgym_srnc.train import trainer
from graphgym_srnc.train.diagnostics import judge


def sixty_nodes() -> ShiftTask:
    generator = torch.Generator().manual_seed(0)
    true = torch.arange(60) % 4
    graph = Data(
        x=torch.eye(4)[true] + 0.3 * torch.rand(60, 4, generator=generator),
        y=true.clamp(max=2),
        y_true=true,
        edge_index=torch.randint(60, (2, 120), generator=generator),
    )
    graph.y[3] = -1
    nodes = torch.arange(60)
    parts = nodes[:20][true[:20] < 2], nodes[20:40], nodes[40:], nodes[20:]
    more = {"class_names": ("left", "tab\tright"), "info": {"split_seed": 7}}
    return ShiftTask("open_set/toy", graph, graph, *parts, num_known=2, open_set=True, **more)


class Noisy(Method):
    """Draws from every random generator, so that a callback that does so too is found out."""

    episodes = 3

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.task = task
        self.layer = torch.nn.Linear(4, 3)
        return self.episode()

    def episode(self) -> dict[str, float]:
        self.train()
        with torch.no_grad():
            self.layer.weight += 0.5 * torch.randn(3, 4) + random.random() + np.random.rand()
        self.warnings = {"collapse": "the cluster GNN collapsed"}
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


def fit(callbacks=()) -> tuple[trainer.RunRecord, Noisy]:
    random.seed(0)
    np.random.seed(0)
    method = Noisy()
    return trainer.fit(method, sixty_nodes(), seed=3, callbacks=callbacks), method


def watch(directory: Path, settings: dict | None = None, **options) -> trainer.RunRecord:
    board = TensorBoard(directory, Extras(**{"figures": True, "full": True} | options))
    record, method = fit([board])
    record.verdict = judge(method, sixty_nodes(), record.first)
    record.verdict["sentences"]["agreement"] = "It often changed its mind."
    board.finish(record, method, sixty_nodes(), settings or {})
    return record


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> tuple[Path, trainer.RunRecord]:
    """The folder of a run with figures, also as PDF, and its record."""
    folder = tmp_path_factory.mktemp("drawn")
    return folder, watch(folder, pdf=True)


def read(directory: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(directory), {"scalars": 0, "images": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def dashboards(logdir: Path) -> TBContext:
    multiplexer = EventMultiplexer({}).AddRunsFromDirectory(str(logdir))
    multiplexer.Reload()
    return TBContext(
        data_provider=MultiplexerDataProvider(multiplexer, str(logdir)),
        multiplexer=multiplexer,
        logdir=str(logdir),
        flags=SimpleNamespace(),
    )


def test_event_accumulator_reads_back_everything(drawn):
    folder, record = drawn
    found = read(folder)
    for block in ("losses", "val", "test"):
        for name in getattr(record.history[0], block):
            values = [(event.step, event.value) for event in found.Scalars(f"{block}/{name}")]
            assert values == [
                (e.number, pytest.approx(getattr(e, block)[name], rel=1e-6)) for e in record.history
            ]
    stems = "classifier-selected cluster_gnn-selected confusion-selected reliability".split()
    for stem in stems:
        (image,) = found.Images(f"view_selected/{stem.removesuffix('-selected')}")
        content = (folder / "figures" / f"{stem}.png").read_bytes()
        assert image.step == record.best and image.encoded_image_string == content
        assert imread(io.BytesIO(content)).shape[:2] == (image.height, image.width)
    assert b"collapsed" in found.Tensors("warnings/text_summary")[0].tensor_proto.string_val[0]
    (verdict,) = found.Tensors("verdict/text_summary")
    assert verdict.tensor_proto.string_val == [b"It often changed its mind."]
    assert {file.name for file in (folder / "figures").iterdir()} == {
        f"{stem}.{kind}" for stem in stems for kind in ("png", "pdf")
    }


def test_hparams_have_the_settings_and_final_scores_of_a_run(tmp_path, gym):
    words = ["train.mode", "srnc", "srnc.rounds", "2", "gnn.dim_inner", "16", "seed", "4"]
    settings = gym_run.settings(gym.load_config(overrides=words))
    shown = {"method": "srnc", "data": "synthetic/synthetic", "seed": 4, "srnc.rounds": 2}
    shown |= {"gnn.dim_inner": 16, "gnn.act": "relu", "synthetic.num_unseen": 2}  # defaults too
    assert shown.items() <= settings.items() and "open_set.num_unseen" not in settings
    record = watch(tmp_path / "0", settings=settings, figures=False)
    events = EventAccumulator(str(tmp_path / "0"))
    events.Reload()
    (content,) = (
        HParamsPluginData.FromString(value.plugin_data.content).session_start_info
        for tag, value in events.summary_metadata.items()
        if tag == "_hparams_/session_start_info"
    )
    assert content.hparams["srnc.rounds"].number_value == 2
    (final,) = events.Scalars("view_selected/test_micro_f1")
    assert final.step == record.best
    assert final.value == pytest.approx(record.history[record.best].test["micro_f1"])


def test_projector_serves_each_run(drawn, tmp_path):
    from werkzeug.test import Client

    for name in "ab":
        shutil.copytree(drawn[0], tmp_path / name / "0")
    watch(tmp_path / "c" / "0", figures=False)
    apps = ProjectorPlugin(dashboards(tmp_path)).get_plugin_apps()
    served = {route: Client(app) for route, app in apps.items()}
    runs = [os.path.join(name, "0") for name in "ab"]
    assert sorted(served["/runs"].get("/").json) == runs
    for run in runs:
        infos = served["/info"].get("/", query_string={"run": run}).json["embeddings"]
        assert [info["tensorName"] for info in infos] == ["classifier", "cluster_gnn"]
        query = {"run": run, "name": "cluster_gnn"}
        table = served["/metadata"].get("/", query_string=query).text.splitlines()
        assert table[0].split("\t") == ["node", "class", "predicted", "cluster"]
        assert len(table) == 61
        rows = [dict(zip(table[0].split("\t"), line.split("\t"))) for line in table[1:]]
        assert rows[1]["class"] == "tab right" and rows[3]["class"] == "no label"
        assert {"node": "2", "class": "unseen 2"}.items() <= rows[2].items()
        assert {row["cluster"] for row in rows} <= {"3", "4", "5"}
        assert {row["predicted"] for row in rows} <= {"left", "tab right", "unknown"}
        query = {"run": run, "name": "classifier"}
        content = served["/tensor"].get("/", query_string=query).data
        vectors = np.frombuffer(content, dtype=np.float32)
        # Principal axes keep distances.
        vectors = vectors.reshape(60, 4)
        x = sixty_nodes().target.x.numpy().astype(float)
        near, far = (np.linalg.norm(points[0] - points, axis=1) for points in (vectors, x))
        assert np.allclose(near, far, atol=1e-3)


def test_watching_changes_no_number(drawn, tmp_path):
    def numbers(record: trainer.RunRecord) -> list:
        return [(episode.losses, episode.val, episode.test) for episode in record.history]

    plain, _ = fit()
    _, watched = drawn
    watch(tmp_path / "none", tensorboard=False, figures=False)
    assert not (tmp_path / "none").exists()
    assert numbers(plain) == numbers(watched) and plain.best == watched.best


def results() -> dict[int, dict]:
    """Three runs, of which the second stopped early and selected its first episode; a loss is told
    from episode 1 on only."""
    rng = np.random.default_rng(0)
    found = {}
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
    curve = [(event.step, event.value) for event in found.Scalars("test/micro_f1")]
    assert curve == [(n, pytest.approx(mean, rel=1e-6)) for n, mean in enumerate(held.mean(0))]
    cluster = [[episode["losses"].get("cluster") for episode in history] for history in histories]
    told = [[run[n] for run in cluster if n < len(run)] for n in (1, 2, 3)]
    assert [(event.step, event.value) for event in found.Scalars("losses/cluster")] == [
        (n + 1, pytest.approx(np.mean(values), rel=1e-6)) for n, values in enumerate(told)
    ]
