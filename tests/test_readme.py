"""README, tutorials and docs/reference/data.md: their snippets run, small, and commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch

from graphgym_srnc import backbones, load, methods, shifts
from graphgym_srnc.cli.main import main
from graphgym_srnc.data import datasets
from graphgym_srnc.data.block_model import class_topics, dcsbm
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_RUN, METHOD, GRAPHGYM = (
    (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    for page in ("tutorials/first-run", "tutorials/method", "how-to/graphgym")
)

TINY = (
    "gnn.dim_inner 8 train.max_episodes 1 synthetic.num_nodes 300 synthetic.num_features 40"
    " srnc.pretrain_steps 5 srnc.cluster_steps 2 srnc.steps 3 srnc_plus.fit_steps 5"
    " srnc_plus.cluster_steps 2 srnc_plus.steps 3"
).split()


def blocks(language: str, text: str = README) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def block(words: str, text: str = README) -> str:
    """The one Python block that holds some words."""
    found = [code for code in blocks("python", text) if words in code]
    assert len(found) == 1, words
    return found[0]


def commands(text: str = README) -> list[list[str]]:
    """The words of every command of ours in a shell block."""
    text = text.replace("\\\n", " ")
    lines = [
        part.partition("#")[0]
        for code in blocks("(?:bash|console)", text)
        for line in code.splitlines()
        for part in line.split("&&")
    ]
    return [words[1:] for words in map(shlex.split, lines) if words[:1] == ["graphgym-srnc"]]


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Puts a block with its file's name on top into a folder that counts as part of the package."""

    def copy(package, words: str, text: str = README) -> str:
        code = block(words, text)
        name = re.match(
            rf"# graphgym_srnc/{package.__name__.rpartition('.')[2]}/(\w+)\.py\n", code
        )[1]
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        return name

    return copy


@pytest.mark.slow
def test_printed_outputs_have_the_form_of_real_ones(gym, tmp_path, monkeypatch, capsys):
    """The numbers are of the full runs and are not repeated here, but lines and columns are."""

    def form(line: str) -> str:
        return re.sub(r"[\d.,]+", "0", " ".join(line.split()))

    monkeypatch.chdir(tmp_path)
    small = [word for word in TINY if word != "300"]
    small.insert(small.index("synthetic.num_nodes") + 1, "600")
    ours = commands()[:2]
    assert [words[0] for words in ours] == ["run", "discover"]
    assert main([*ours[0], "--no-tensorboard", "--no-figures", *small]) == 0
    assert main(ours[1]) == 0
    assert main(["run", "--name", "default", "--no-tensorboard", "--no-figures", *small]) == 0
    printed = [form(line) for text in capsys.readouterr() for line in text.splitlines()]
    shown = [line for page in (README, FIRST_RUN) for line in blocks("text", page)[0].splitlines()]
    assert len(shown) >= 9
    for line in filter(None, shown):
        assert any(real.startswith(form(line.removesuffix("..."))) for real in printed), line


def test_links_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_keys_in_the_text_exist(gym):
    cfg, own = gym.load_config(), set(gym.schema()) | {"gnn", "optim"}
    # docs/performance.md is of benchmarks; the others speak of config keys and of files, the latter
    # with a suffix.
    explanation = (ROOT / "docs/explanation").glob("*.md")
    for page in [ROOT / "README.md", ROOT / "docs/reference/data.md", *explanation]:
        for key in re.findall(r"`([a-z_]+\.[a-z_]+)(?: [^`]+)?`", page.read_text(encoding="utf-8")):
            section, name = key.split(".")
            if section in own and name != "py" and key != "trainer.fit" and key != "erased.share":
                assert name in cfg[section], f"{page.name}: {key}"


@pytest.mark.usefixtures("few_numbers")
def test_python_api(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main("data example demo --nodes 400 --labelled 0.3".split()) == 0
    space: dict = {}
    code = block("SRNCPlus")
    assert "SRNCPlus(open_set=True)" in code
    small = "SRNCPlus(open_set=True, rounds=1, fit_steps=5, cluster_steps=5, steps=10, hidden=8)"
    exec(code.replace("SRNCPlus(open_set=True)", small), space)
    told = capsys.readouterr().out
    held_out = space["model"].scores_["held_out"]
    assert str(held_out["accuracy"]) in told and 0 < held_out["labels"] < 200
    assert "beside 5 known classes, in 400 nodes" in told and "  1: " in told
    loaded = load("model.safetensors").predict(space["graph"])
    assert (loaded == space["model"].predict(space["graph"])).all()


@pytest.mark.parametrize("mode", ["open_set", "close_set"])
def test_added_method(gym, copied, mode):
    name, information = copied(methods, "methods/infomax.py", METHOD), []
    for weight in ("0", "2"):
        words = ["train.mode", name, f"{name}.steps", "40", f"{name}.weight", weight]
        words += ["synthetic.mode", mode, "synthetic.signal", "0.7"]
        cfg = gym.load_config(
            None, [*words, *TINY, "synthetic.num_classes", "3", "synthetic.num_unseen", "1"]
        )
        method, record = gym.fit(cfg, gym.build_task(cfg))
        assert type(method).__name__ == "InfoMax" and method.weight == float(weight)
        assert method.steps == 40 and len(record.history) == 2 and record.test["micro_f1"] > 0.4
        assert ("unknown_auroc" in record.test) == (mode == "open_set")
        information.append(record.history[-1].losses["information"])
    assert information[0] == 0 > information[1]
    with pytest.raises(InputError, match="infomax.weight"):
        gym.load_config(None, ["train.mode", name, f"{name}.weight", "-1"])


def test_added_shift(gym, copied, monkeypatch):
    topics = class_topics(3, 40, 0.5, splits.generator(0, "topics"))
    shares, rng = torch.ones(3).numpy() / 3, splits.generator(0, "graph")
    graph = dcsbm(num_nodes=300, shares=shares, topics=topics, rng=rng)
    monkeypatch.setattr(datasets, "load", lambda name, root: clean(graph))
    name = copied(shifts, "shifts/erased.py", METHOD)
    cfg = gym.load_config(
        None, ["dataset.format", name, "dataset.name", "Photo", f"{name}.share", "0.25", *TINY]
    )
    task = gym.build_task(cfg)
    lost = ((task.target.x == 0).all(0) & (task.source.x != 0).any(0)).sum()
    assert task.name == "erased/Photo" and 0 < lost <= 10
    assert torch.equal(task.source.y, task.target.y)
    assert len(gym.fit(cfg, task)[1].history) == 2
    with pytest.raises(InputError, match=rf"{name}.share: got 2.0; allowed: in \[0, 1\]"):
        gym.build_task(gym.load_config(None, ["dataset.format", name, f"{name}.share", "2.0"]))


def test_added_backbone(gym, copied):
    name = copied(backbones, "backbones/highpass.py", METHOD)
    for mode in ("srnc", "erm"):
        words = ["gnn.layer_type", name, "train.mode", mode, "erm.steps", "3", *TINY]
        cfg = gym.load_config(None, words)
        method, _ = gym.fit(cfg, gym.build_task(cfg))
        assert type(method.classifier).__name__ == "HighPass"


def test_main_py_of_graphgym(gym, tmp_path, monkeypatch):
    from torch_geometric.graphgym.config import assert_cfg, cfg, set_cfg
    from torch_geometric.graphgym.model_builder import create_model
    from torch_geometric.graphgym.train import GraphGymDataModule

    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec(block("import graphgym_srnc.gym ", GRAPHGYM), space)
    cfg.clear()
    set_cfg(cfg)
    cfg.merge_from_list(
        ["dataset.format", "synthetic", "train.mode", "srnc", "accelerator", "cpu", *TINY]
    )
    assert_cfg(cfg)
    cfg.run_dir, cfg.params = str(tmp_path / "one" / "0"), 0
    with pytest.raises(InputError, match="optim.scheduler"):
        GraphGymDataModule()
    cfg.optim.scheduler = "none"
    datamodule = GraphGymDataModule()
    space["train"](create_model(), datamodule)
    assert (tmp_path / "one/0/test/stats.json").is_file()


def test_every_file_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/reference/data.md").read_text(encoding="utf-8")
    space: dict = {}
    for code in blocks("python", page):
        exec(code, space)
    build = shifts.find("file")
    weighted = build(path="weighted.pt", open_set=False, labels_per_class=5)
    assert weighted.target.edge_weight is not None
    sizes = {"labels_per_class": 5, "num_unseen": 1, "split": "random"}
    drawn = [build(path=path, **sizes) for path in ("graph.pt", "graph.npz", "tables")]
    assert len({task.source.edge_index.size(1) for task in drawn}) == 1
    assert all(task.num_known == 2 for task in drawn)
    given = build(path="tables")
    assert given.class_names == ("art", "bio", "law") and given.train.tolist() == list(range(20))
    assert len(given.test) == 20


def test_the_methods_of_the_readme_are_those_of_the_guide():
    """The guide has the same first two cells, and more rows and columns."""
    guide = (ROOT / "docs" / "explanation" / "which-method.md").read_text(encoding="utf-8")

    def rows(text: str) -> list[tuple[str, str]]:
        head, _, lines = text.partition("| your data |")[2].partition("\n|---|")
        cells = [line.split(" | ") for line in lines.split("\n\n")[0].splitlines()[1:]]
        return [(line[0].strip("| "), line[1].strip("| ")) for line in cells]

    short, long = rows(README), rows(guide)
    assert len(short) >= 6 and {*short} <= {*long}
