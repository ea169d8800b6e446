"""Figures show the numbers they were given, in every format, with nothing over anything else."""

from __future__ import annotations

import io
import itertools

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread
from sklearn.decomposition import PCA

from graphgym_srnc.errors import InputError
from graphgym_srnc.plots import charts, embedding, style

METHODS = (
    "SRNC+ (without missing labels)|openwgl with a long name, longer than any other|srnc|pgl|g2pxy"
    "|doc|erm|dann|cmd|mmd|coral|srgnn|strurw|a2gnn|iid"
).split("|")


def texts(figure: Figure) -> list[str]:
    found = [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_visible()]
    return [text for text in found if text]


def ranks(size: int) -> dict[str, float]:
    return {name: 1 + 0.9 * index - 0.7 * (index % 3) for index, name in enumerate(METHODS[:size])}


def counted(labels: dict[str, tuple[int, int]], name: str = "Cora") -> dict:
    sides = {key: {"source": source, "target": target} for key, (source, target) in labels.items()}
    return {"name": name, "labels": sides}


def each_figure() -> dict[str, Figure]:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 2))
    label = np.arange(60) % 3
    names = ["a $", "b_{c}", "a class with a very long name $^"]
    lines = {"srnc": rng.normal(size=(3, 5)), "pgl": rng.normal(size=(2, 3))}
    reliability = {"val": [(0.5, 0.4, 10), (0.9, 0.95, 20)]}
    return {
        "confusion": charts.confusion_figure(rng.integers(0, 9, (3, 3)), names, "$"),
        "shift": charts.shift_figure(counted({name: (3, 1) for name in names})),
        "critical_difference": charts.critical_difference_figure(ranks(4), 1.5),
        "embedding": embedding.embedding_figure(points, label, label, names, names, "", [2]),
        "curves": charts.curves_figure({"validation": lines, "test": lines}, "", "", [*lines]),
        "reliability": charts.reliability_figure(reliability),
    }


@pytest.fixture(scope="module")
def pictures() -> dict[str, bytes]:
    """Each figure as it is stored."""
    return {name: style.encode(figure) for name, figure in each_figure().items()}


def test_every_figure_is_a_picture_and_may_be_a_pdf(pictures, tmp_path):
    """One with a matrix, one with words of its own at lines, and one with points."""
    before = dict(matplotlib.rcParams)
    figures = each_figure()
    for name in ("confusion", "critical_difference", "embedding"):
        figure = figures[name]
        content = style.save(figure, tmp_path / f"{name}.pdf").read_bytes()
        assert content.startswith(b"%PDF-") and len(content) > 2000
        # Letters stay letters.
        assert b"/Type3" not in content and b"CreationDate" not in content
    assert {*pictures} == {*figures}
    for name in pictures:
        assert pictures[name].startswith(b"\x89PNG\r\n") and len(pictures[name]) > 2000
        pixels = imread(io.BytesIO(pictures[name]))[..., :3]
        assert 0.3 < (pixels > 0.99).all(-1).mean() < 0.99
        assert len(np.unique(pixels @ [1.0, 1e3, 1e6])) > 20, "colours"
    assert dict(matplotlib.rcParams) == before


def test_settings_of_figures_do_not_change_them(pictures, monkeypatch):
    for key, value in (
        ("text.usetex", True),
        ("lines.linewidth", 40.0),
        ("figure.facecolor", "black"),
        ("savefig.transparent", True),
        ("axes.titlecolor", "red"),
    ):
        monkeypatch.setitem(matplotlib.rcParams, key, value)
    figures = each_figure()
    for name in ("confusion", "curves"):  # with an image, and with lines
        assert style.encode(figures[name]) == pictures[name]


def test_a_confusion_matrix_shows_shares_and_counts_of_the_classes_that_occur():
    counts = np.array([[3, 0, 1, 0], [0, 0, 0, 0], [0, 1, 2, 0], [0, 0, 0, 0]])
    axes = charts.confusion_figure(counts, ["a", "b", "c", "d"]).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a (4)", "c (3)"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert axes.images[0].get_array().tolist() == [[0.75, 0, 0.25], [0, 1 / 3, 2 / 3]]
    assert [text.get_text() for text in axes.texts] == ["3", "1", "1", "2"]


def test_label_shift_bars_are_shares():
    figure = charts.shift_figure(counted({"a": (6, 10), "b": (2, 20), "c": (0, 70)}))
    axes = figure.axes[0]
    widths = [[bar.get_width() for bar in bars] for bars in axes.containers]
    assert widths == [pytest.approx([75, 25, 0]), pytest.approx([10, 20, 70])]
    assert [bool(bar.get_hatch()) for bar in axes.containers[1]] == [False, False, True]
    legend = {"labelled training nodes (8)", "target nodes (100)"}
    assert {*legend, "share of nodes (%)", "a", "b", "c"} <= set(texts(figure))
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first class is on top


def test_critical_difference_is_readable():
    own = ranks(15)
    cd = 4.2
    figure = charts.critical_difference_figure(own, cd, "Open-set shift")
    style.encode(figure)
    axes = figure.axes[0]
    shown = texts(figure)
    assert {f"Nemenyi's test: critical difference {cd:.2f}", "Open-set shift"} <= set(shown)
    order = sorted(own, key=own.get)
    assert axes.yaxis_inverted()  # the best is on top
    assert axes.get_xlim()[0] < min(own.values()) - cd / 2 and min(axes.get_xticks()) == 1
    ends = [line.get_xdata() for line in axes.get_lines()[::2]]  # bar, dot
    assert ends == [pytest.approx([own[name] - cd / 2, own[name] + cd / 2]) for name in order]
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    for name, label, box in zip(order, axes.get_yticklabels(), boxes):
        assert name[:30] in label.get_text() and figure.bbox.x0 <= box.x0
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_curves_are_means_with_bands_in_the_look_of_their_method():
    short = np.array([[1.0, 3.0, np.nan], [3.0, 3.0, np.nan]])
    long = np.array([[5.0, 6.0, 8.0]])
    panels = {"validation": {"b": long}, "test": {"a": short, "b": long}}
    figure = charts.curves_figure(panels, "Micro-F1 (%)", "Cora", ["a", "b"])
    alone, axes = figure.axes
    first, second = axes.get_lines()
    assert first.get_ydata().compressed().tolist() == [2, 3]
    assert second.get_ydata().tolist() == [5, 6, 8]
    assert {(0, 1), (0, 3)} <= {*map(tuple, axes.collections[0].get_paths()[0].vertices.tolist())}
    assert alone.get_lines()[0].get_color() == second.get_color() == style.PALETTE[1]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert {"episode", "validation", "test", "Micro-F1 (%)", "Cora"} <= set(texts(figure))


@pytest.mark.parametrize("shape", [(60, 7), (5, 40)])
def test_principal_components_are_those_of_scikit_learn(shape):
    points = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    expected = PCA(min(4, *shape)).fit_transform(points)
    found = embedding.principal(points, 4)
    assert found.shape == expected.shape
    np.testing.assert_allclose(abs(found), abs(expected), rtol=1e-4, atol=1e-5)


def test_maps_keep_groups_apart():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(30, 6)), rng.normal(size=(30, 6)) + 9])
    assert embedding.projection("auto", 8) == "pca" and embedding.projection("auto", 9) == "tsne"
    for how in embedding.MAPS:
        flat = embedding.map_2d(points, how)
        assert flat.shape == (60, 2) and np.array_equal(flat, embedding.map_2d(points, how))
        assert abs(flat[:30].mean(0) - flat[30:].mean(0)).max() > 2 * max(
            flat[:30, 0].std(), flat[30:, 0].std()
        )
    assert embedding.map_2d(points[:, :1]).shape == (60, 2)
    with pytest.raises(InputError, match="auto, pca, tsne"):
        embedding.projection("umap", 2)
    assert len(embedding.sample(5000)) == 2000 and embedding.sample(7).tolist() == list(range(7))


def test_a_swap_of_two_classes_is_seen():
    """A class has one colour in all figures, and unknown is grey."""
    points = np.arange(120.0).reshape(60, 2)
    label = np.repeat([0, 1, 2], 20)
    hidden = np.where(label == 2, -1, label)
    far = np.r_[points[:59] / 100, [[500.0, 500.0]]]
    figure = embedding.embedding_figure(far, label, hidden, "abc", "ab")
    assert figure.axes[1].get_title() == "by given label" and figure.axes[0].get_xlim()[1] < 400
    swapped = np.array([1, 0, 2])[label]
    names = ["a", "b", "unseen c"]
    outputs = ["a", "b", "unknown"]
    figure = embedding.embedding_figure(points, swapped, label, outputs, names, "", [2])
    assert figure.axes[1].get_title() == "by true class (× = unseen in training)"

    def colours(axes) -> list[str]:
        found = {}
        for dots in axes.collections:
            face = to_hex(dots.get_facecolors()[0])
            found |= dict.fromkeys(map(tuple, dots.get_offsets().tolist()), face)
        return [found[tuple(point)] for point in points.tolist()]

    left, right = map(colours, figure.axes)
    first, second, third = (colour.lower() for colour in style.PALETTE[:3])
    assert left == [second] * 20 + [first] * 20 + [style.GREY.lower()] * 20
    assert right == [first] * 20 + [second] * 20 + [third] * 20
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["a", "b", "unseen c", "unknown"]
    label[0] = -1  # no label
    figure = embedding.embedding_figure(points, label, label, outputs, names)
    assert [own[0] for own in map(colours, figure.axes)] == [style.FAINT.lower()] * 2
    assert figure.legends[0].get_texts()[-1].get_text() == "no label"
