"""Columns of numbers with extreme values."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas
import pytest
from scipy.stats import rankdata

from graphgym_srnc import from_frames
from graphgym_srnc.data import extremes, features
from graphgym_srnc.data.names import units_of

V = 60


def frames(**columns: object) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """A table of nodes with columns of numbers, and links in a ring."""
    ids = [f"n{i}" for i in range(V)]
    table = pandas.DataFrame({"id": ids, "label": [*"xy"] * (V // 2), **columns})
    return table, pandas.DataFrame({"from": ids, "to": [*ids[1:], ids[0]]})


def heavy(rng: np.random.Generator) -> np.ndarray:
    return np.exp(4 * rng.normal(size=V))


def made_of(told: bool, *tables: pandas.DataFrame, **options: object):
    """A graph, which gives a warning or none."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        graph = from_frames(*tables, **options)
    assert bool(found) == told, [str(one.message) for one in found]
    return graph


@pytest.mark.usefixtures("without_ranges")
def test_extreme_numbers_become_standardised_ranks_and_others_stay_numbers():
    rng = np.random.default_rng(0)
    mass, size = heavy(rng), rng.normal(size=V)
    mass[:3] = np.nan
    graph = made_of(False, *frames(mass=mass, size=size), numbers=["mass", "size"])
    expected = np.nan_to_num(np.stack([mass, size], 1))
    known = rankdata(mass[3:])
    expected[3:, 0] = (known - known.mean()) / known.std()
    expected[:, 1] = (size - size.mean()) / size.std()
    assert graph.feature_names == ["mass", "size", "mass is missing"]
    np.testing.assert_allclose(graph.x[:, :2], expected, atol=1e-6)
    (note,) = [note for note in graph.notes if "rank" in note]
    one = f"one number is {np.nanmax(mass):g} and the median is {np.nanmedian(mass):g}."
    assert note == f"mass: the feature is the rank of each number, since {one}"


def test_ranks_become_the_numbers_of_the_table_again():
    rng = np.random.default_rng(8)
    mass, size = heavy(rng), rng.normal(50, 10, size=V)
    mass[:3] = np.nan
    mass[-4:] = 1e35
    kinds = {"mass": mass, "size": size, "kind": [*"abc"] * (V // 3)}
    options = {"numbers": ["mass", "size"], "categories": ["kind"]}
    graph = made_of(True, *frames(**kinds), **options)
    units = units_of(json.loads(json.dumps(graph.recipe)))
    of_mass, of_size = graph.x[:, :2].T.tolist()
    # Also the number beside the extreme one is exact.
    assert [units["mass"].number(feature) for feature in of_mass[3:]] == mass[3:].tolist()
    np.testing.assert_allclose([units["size"].number(one) for one in of_size], size, atol=1e-4)
    assert units_of({}) is None


@pytest.mark.parametrize("value", [1e35, 999_999, -9999])
def test_an_isolated_value_that_repeats_is_named_and_does_no_harm(value):
    rng = np.random.default_rng(1)
    size = rng.normal(50, 10, size=V)
    size[:4] = value
    graph = made_of(True, *frames(size=size), numbers=["size"])
    usual = graph.x[4:, 0]
    assert usual.std() > 0.8 and abs(np.corrcoef(usual, rankdata(size[4:]))[0, 1]) > 0.999
    (note,) = [note for note in graph.notes if "rank" in note]
    low, high = size[4:].min(), size[4:].max()
    assert f"4 cells are {value:g}, and all others lie between {low:g} and {high:g}. If" in note
    assert "empty these cells" in note


def test_neither_two_cells_nor_the_end_of_a_long_tail_may_mean_a_missing_number():
    for values, is_told in (
        ([1e6] * 3, True),
        ([1e6] * 2, False),
        ([2e5, 1e6, 1e6, 1e6], False),
        ([-2e5, 1e6, 1e6, 1e6], False),
    ):
        cells = pandas.Series([*range(50), *values], name="size", dtype=float)
        line, should_check = extremes.on_column(cells)
        assert should_check == is_told == ("cells are 1e+06" in line)


def test_usual_columns_are_not_extreme():
    rng = np.random.default_rng(2)
    usual = {
        "normal": rng.normal(size=500),
        "uniform": rng.random(500),
        "skewed": rng.exponential(size=500),
        "binary": np.arange(500) == 7,
        "counts": rng.poisson(0.1, 500),
        "equal": np.ones(500),
        "empty": np.full(500, np.nan),
        "third": np.where(np.arange(500) % 3, 0, 1e6),
    }
    assert extremes.learn(pandas.DataFrame(usual).astype(float)) == {}
    few = {"few": np.where(np.arange(500) % 100, rng.normal(size=500), 31.0)}
    assert [*extremes.learn(pandas.DataFrame(few))] == ["few"]


def test_a_later_table_has_the_ranks_of_the_earlier_one():
    rng = np.random.default_rng(3)
    mass = heavy(rng)
    table, links = frames(mass=mass)
    graph = made_of(False, table, links, numbers=["mass"])
    assert graph.recipe == json.loads(json.dumps(graph.recipe))
    later = np.array([-1e99, 0.0, 1e99, *np.sort(mass)[:-3]])
    again = made_of(False, *frames(mass=later), like=graph)
    assert again.recipe == graph.recipe
    x = again.x[:, 0]
    assert np.isfinite(x).all() and x[0] == x[1] == x[3] == graph.x.min()
    assert x[2] == graph.x.max() and (np.diff(x[3:]) > 0).all()
    made = made_of(False, table, links, like=graph)
    np.testing.assert_array_equal(made.x, graph.x)


def test_another_unit_of_a_column_of_ranks_is_told():
    mass = heavy(np.random.default_rng(4))
    table, links = frames(mass=mass)
    graph = made_of(False, table, links, numbers=["mass"])
    again = made_of(True, table.assign(mass=1e9 * mass), links, like=graph)
    told = "mass: the mean rank is 0.991667, and 0.5 in the earlier graph, more than a standard"
    assert any(note.startswith(told) for note in again.notes)


@pytest.mark.usefixtures("without_ranges")
def test_a_recipe_without_ranks_gives_the_features_of_then():
    mass = heavy(np.random.default_rng(5))
    table, links = frames(mass=mass)
    graph = made_of(False, table, links, numbers=["mass"])
    numbers = {"columns": ["mass"], "mean": [mass.mean()], "std": [mass.std()]}
    graph.recipe = graph.recipe | {"numbers": numbers}
    again = made_of(False, table, links, like=graph)
    np.testing.assert_allclose(again.x[:, 0], (mass - mass.mean()) / mass.std(), atol=1e-6)


def test_many_values_need_few_numbers_in_the_recipe():
    rng = np.random.default_rng(6)
    mass = np.round(np.exp(4 * rng.normal(size=20_000)), 2)  # the smallest ones repeat
    mass[:800] = 1e35
    values = pandas.DataFrame({"mass": mass})
    learnt = extremes.learn(values)
    assert len(learnt["mass"]["values"]) <= extremes.KNOTS
    expected = (rankdata(mass) - 0.5) / len(mass)
    found = extremes.ranked(values, learnt)["mass"]
    np.testing.assert_allclose(found, expected, atol=2 / extremes.KNOTS)
    assert found[0] == pytest.approx(expected[0], abs=1e-9)


def test_of_many_columns_of_ranks_ten_are_told_in_full():
    rng = np.random.default_rng(7)
    columns = {f"c{i}": heavy(rng) for i in range(12)}
    graph = made_of(False, *frames(**columns), numbers=[*columns])
    assert sum("is the rank of each number" in note for note in graph.notes) == 10
    assert "2 more columns of ranks, since numbers are extreme" in graph.notes
    assert features.marked_columns(graph.recipe) == []
