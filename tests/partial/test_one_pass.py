"""Files of statistics that are added up are those of one pass over all rows, bit for bit."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.partial.merging import files_of
from dfprivacy.partial.tables import ExactTables
from dfprivacy.releasing import measure
from dfprivacy.statistics.split import split
from dfprivacy.terms import keys_of
from dfprivacy.unit import unit_of

GROUPS = {
    "whole": {},
    "secret": {"by": "g"},
    "two secret": {"by": ["h", "g"]},
    "public": {"by": "g", "keys": ["zz", "a", None, "b"]},
    "two public": {"by": ["g", "h"], "keys": [("a", 0), (None, 1), ("b", 7)]},
}
MIXED = ("pandas", "polars", "duckdb", "parquet", "record batches", "polars lazy", "arrow")


def split_up(rows, parts):
    """Deal rows out; every third part stays empty where there are many."""
    taking = [k for k in range(parts) if parts < 4 or k % 3 != 1]
    sizes = [len(rows) * (k + 1) // len(taking) for k in range(len(taking))]
    dealt = dict(zip(taking, itertools.pairwise([0, *sizes]), strict=True))
    return [rows[slice(*dealt[k])] if k in dealt else [] for k in range(parts)]


def files(lab, engines, folder, parts, names, **given):
    """Write a file a part, each by another engine."""
    asked = given.pop("asked", lab.lean)
    makers = itertools.cycle(names)
    return [
        dfp.statistics(
            engines[next(makers)](lab.table(own)), folder / f"{k}.parquet", **asked, **given
        )
        for k, own in enumerate(parts)
    ]


def directly(lab, frame, by=(), keys=None, unit=None, **limits):
    """Return the exact tables of one pass, without any file."""
    labels = [by] if isinstance(by, str) else by
    parts = split(lab.lean, grouped=bool(labels))
    public = keys_of(keys, labels) if labels else None
    whole = unit_of(unit, limits.get("max_rows"), limits.get("max_groups"))
    measured = measure(frame, labels, public, parts, unit=whole)[1]
    return ExactTables.of(measured, measured[0].keys if labels else pa.table({}))


def same(left, right):
    assert left.groups == right.groups
    assert left.keys.to_pylist() == right.keys.to_pylist()
    assert left.sums.keys() == right.sums.keys()
    for name, values in left.sums.items():
        assert np.array_equal(values, right.sums[name]), name
    assert len(left.bins) == len(right.bins)
    for mine, yours in zip(left.bins, right.bins, strict=True):
        assert (mine.groups, mine.binning) == (yours.groups, yours.binning)
        for name in ("group", "bins", "rows"):
            assert np.array_equal(getattr(mine, name), getattr(yours, name)), name
        assert [m.tobytes() for m in mine.moments] == [m.tobytes() for m in yours.moments]


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("group", GROUPS)
def test_sums_of_files_are_one_pass(lab, engines, tmp_path, group, parts):
    """However rows are dealt out, and whatever engine counts each part: the same exact tables."""
    data = lab.rows(240)
    made = files(lab, engines, tmp_path, split_up(data, parts), MIXED, **GROUPS[group])
    together = files_of(made).tables()
    same(together, directly(lab, lab.table(data), **GROUPS[group]))


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("group", ["whole", "secret"])
def test_every_engine_writes_the_same_tables(lab, engines, tmp_path, group, name):
    """A file of one part holds the tables of a pass over its rows, whoever makes it."""
    data = lab.rows(60)
    made = files(lab, engines, tmp_path, [data], [name], **GROUPS[group])
    same(files_of(made[0]).tables(), directly(lab, lab.table(data), **GROUPS[group]))


def test_no_rows_at_all(lab, engines, tmp_path):
    """Files without rows are added up to the tables of a frame without rows."""
    for group, given in GROUPS.items():
        folder = tmp_path / group
        folder.mkdir()
        made = files(lab, engines, folder, [[], [], []], ["arrow", "pandas"], **given)
        together = files_of(made).tables()
        same(together, directly(lab, lab.table([]), **given))


def released(frame, questions, by=(), keys=None, **terms):
    private = dfp.frame(frame)
    if not by:
        return private.agg(**questions, **terms)
    labels = [by] if isinstance(by, str) else by
    return private.group_by(*labels, keys=keys).agg(**questions, **terms)


@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"rho": 0.5}])
@pytest.mark.parametrize("group", ["whole", "two secret", "public"])
def test_with_the_same_noise_the_release_is_the_same(lab, engines, tmp_path, replayed, group, loss):
    """With the same random bytes, merging files releases what the whole frame releases."""
    data = lab.rows(400)
    made = files(lab, engines, tmp_path, split_up(data, 3), ["arrow"], **GROUPS[group])
    delta = {"delta": 0.3} if "keys" not in GROUPS[group] else {}
    terms = {**loss, **delta, "interval": 0.9}
    whole = lab.table(data)
    one = replayed(lambda: released(whole, lab.lean, **GROUPS[group], **terms))
    several = replayed(lambda: dfp.merge(made, **terms))
    assert lab.shown(several) == lab.shown(one)


NAMES = [
    "n", "c", "m", "shifted", "independent", "s", "v", "d", "free mean", "free sum", "free var",
    "subset", "dick", "inverse", "median", "other median", "q", "qs", "center", "bounded center",
    "dick center",
]  # fmt: skip


def test_every_question_is_asked(lab):
    """The questions tested one by one are all there are."""
    assert list(lab.asked) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("group", ["whole", "secret"])
def test_every_question_alone(lab, engines, tmp_path, replayed, group, name):
    """Each question by itself is merged to the release of the whole frame, mixed engines or not."""
    data, asked = lab.rows(150), {name: lab.asked[name]}
    given = GROUPS[group]
    names = ["arrow", "polars", "pandas"]
    made = files(lab, engines, tmp_path, split_up(data, 3), names, asked=asked, **given)
    terms = {"epsilon": 2, **({"delta": 0.3} if given else {})}
    one = replayed(lambda: released(lab.table(data), asked, **given, **terms))
    several = replayed(lambda: dfp.merge(made, **terms))
    assert lab.shown(several) == lab.shown(one)


BY_USER = {
    "whole": {"unit": "u", "max_rows": 2},
    "secret": {"by": "g", "unit": "u", "max_rows": 2, "max_groups": 2},
    "public": {"by": "g", "keys": ["a", "b"], "unit": "u", "max_rows": 3},
}


@pytest.mark.parametrize("group", BY_USER)
def test_units_that_lie_in_one_file_each(lab, engines, tmp_path, replayed, group):
    """With parts_per_unit=1 and users in one file each, the release is that of the whole frame."""
    data, given = lab.rows(400), BY_USER[group]
    parts = [[row for row in data if (row["u"] or 0) % 3 == k] for k in range(3)]
    made = files(lab, engines, tmp_path, parts, ["arrow"], **given)
    whole = lab.table(data)
    same(files_of(made).tables(), directly(lab, whole, **given))
    unit = {name: given[name] for name in ("unit", "max_rows", "max_groups") if name in given}
    asked = {name: lab.asked[name] for name in ("n", "m", "v", "free mean", "median", "q")}
    again = files(lab, engines, _new(tmp_path), parts, ["arrow"], asked=asked, **given)
    delta = {"delta": 0.4} if group == "secret" else {}
    private = dfp.frame(whole)(**unit)
    by = private.group_by("g", keys=given.get("keys")) if "by" in given else private
    one = replayed(lambda: by.agg(**asked, epsilon=9, **delta))
    several = replayed(lambda: dfp.merge(again, epsilon=9, **delta, parts_per_unit=1))
    assert lab.shown(several) == lab.shown(one)


def _new(folder):
    (folder / "again").mkdir()
    return folder / "again"
