"""Files of statistics that are added up are those of one pass over all rows, bit for bit."""

import itertools

import pytest

import dfprivacy as dfp

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


def files(lab, engines, folder, parts, names, **options):
    """Write a file a part, each by another engine."""
    questions = options.pop("questions", lab.lean)
    makers = itertools.cycle(names)
    return [
        dfp.statistics(
            engines[next(makers)](lab.table(part)), folder / f"{k}.parquet", **questions, **options
        )
        for k, part in enumerate(parts)
    ]


def released(frame, questions, by=(), keys=None, **terms):
    private = dfp.frame(frame)
    if not by:
        return private.agg(**questions, **terms)
    labels = [by] if isinstance(by, str) else by
    return private.group_by(*labels, keys=keys).agg(**questions, **terms)


def build_terms(group, **loss):
    """Return terms of a release; a delta where keys are secret."""
    options = GROUPS[group]
    return {**loss, **({"delta": 0.3} if "by" in options and "keys" not in options else {})}


@pytest.mark.parametrize(
    ("group", "parts", "loss"),
    [
        ("whole", 3, {"epsilon": 1}), ("secret", 1, {"rho": 0.5}), ("secret", 5, {"epsilon": 1}),
        ("two secret", 2, {"rho": 0.5}), ("public", 3, {"epsilon": 1}),
        ("two public", 4, {"epsilon": 1}),
    ],
    ids=str,
)  # fmt: skip
def test_sums_of_files_are_one_pass(lab, engines, tmp_path, replayed, group, parts, loss):
    """However rows are dealt out, and whatever engine counts each part: the same exact tables.

    With the same random bytes, merging files releases what the whole frame releases.
    """
    data, options = lab.rows(240), GROUPS[group]
    paths = files(lab, engines, tmp_path, split_up(data, parts), MIXED, **options)
    terms = build_terms(group, **loss, interval=0.9)
    expected = replayed(lambda: released(lab.table(data), lab.lean, **options, **terms))
    merged = replayed(lambda: dfp.merge(paths, **terms))
    assert lab.shown(merged) == lab.shown(expected)


@pytest.mark.parametrize("name", MIXED)
def test_every_engine_writes_the_same_tables(lab, engines, tmp_path, replayed, name):
    """A file of one part holds the tables of a pass over its rows, whoever makes it."""
    data = lab.rows(60)
    paths = files(lab, engines, tmp_path, [data], [name], **GROUPS["secret"])
    terms = build_terms("secret", epsilon=9)
    expected = replayed(lambda: released(lab.table(data), lab.lean, **GROUPS["secret"], **terms))
    assert lab.shown(replayed(lambda: dfp.merge(paths, **terms))) == lab.shown(expected)


def test_no_rows_at_all(lab, engines, tmp_path, replayed):
    """Files without rows are added up to the tables of a frame without rows."""
    for group in ("whole", "two secret", "public"):
        options = GROUPS[group]
        (folder := tmp_path / group).mkdir()
        paths = files(lab, engines, folder, [[], [], []], ["arrow", "pandas"], **options)
        terms = build_terms(group, epsilon=9)
        expected = replayed(lambda: released(lab.table([]), lab.lean, **options, **terms))  # noqa: B023
        merged = replayed(lambda: dfp.merge(paths, **terms))  # noqa: B023 called here
        assert lab.shown(merged) == lab.shown(expected)


NAMES = [
    "n", "c", "m", "shifted", "independent", "s", "v", "d", "free mean", "free sum", "free var",
    "subset", "dick", "inverse", "median", "other median", "q", "qs", "center", "bounded center",
    "dick center",
]  # fmt: skip


def test_every_question_is_asked(lab):
    """The questions tested one by one are all there are."""
    assert list(lab.asked) == NAMES


@pytest.mark.parametrize(
    ("name", "group"), [(name, ["whole", "secret"][index % 2]) for index, name in enumerate(NAMES)]
)
def test_every_question_alone(lab, engines, tmp_path, replayed, group, name):
    """Each question by itself is merged to the release of the whole frame, mixed engines or not."""
    data, questions = lab.rows(150), {name: lab.asked[name]}
    options = GROUPS[group]
    names = ["arrow", "polars", "pandas"]
    paths = files(lab, engines, tmp_path, split_up(data, 3), names, questions=questions, **options)
    terms = {"epsilon": 2, **({"delta": 0.3} if options else {})}
    expected = replayed(lambda: released(lab.table(data), questions, **options, **terms))
    merged = replayed(lambda: dfp.merge(paths, **terms))
    assert lab.shown(merged) == lab.shown(expected)


BY_USER = {
    "whole": {"unit": "u", "max_rows": 2},
    "secret": {"by": "g", "unit": "u", "max_rows": 2, "max_groups": 2},
    "public": {"by": "g", "keys": ["a", "b"], "unit": "u", "max_rows": 3},
}


@pytest.mark.parametrize("group", BY_USER)
def test_units_that_lie_in_one_file_each(lab, engines, tmp_path, replayed, group):
    """With parts_per_unit=1 and users in one file each, the release is that of the whole frame."""
    data, options = lab.rows(400), BY_USER[group]
    parts = [[row for row in data if (row["u"] or 0) % 3 == k] for k in range(3)]
    table = lab.table(data)
    unit = {name: options[name] for name in ("unit", "max_rows", "max_groups") if name in options}
    questions = {name: lab.asked[name] for name in ("n", "m", "v", "free mean", "median", "q")}
    paths = files(lab, engines, tmp_path, parts, ["arrow"], questions=questions, **options)
    delta = {"delta": 0.4} if group == "secret" else {}
    private = dfp.frame(table)(**unit)
    by = private.group_by("g", keys=options.get("keys")) if "by" in options else private
    expected = replayed(lambda: by.agg(**questions, epsilon=9, **delta))
    merged = replayed(lambda: dfp.merge(paths, epsilon=9, **delta, parts_per_unit=1))
    assert lab.shown(merged) == lab.shown(expected)
