"""Rows that given bounds clip are counted for a twentieth of the loss, and a note names them."""

import json
import re

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
import sql_udfs
from tests.command_line import command

BOUNDS = (-2, 60)
DATA = {"x": [float(i % 97) - 5 for i in range(9700)], "g": ["a", "b"] * 4850}
HUGE = {"epsilon": 1e9}
NOTE = "clipped: 3.09 % [3.09, 3.09] below -2, 32 % [32, 32] above 60"
ASKED = [dfp.mean, dfp.sum, dfp.var, dfp.std]


def doors(folder, bounds):
    """Yield what a mean within bounds says at every door."""
    frame, terms = pl.DataFrame(DATA), {"bounds": bounds, **HUGE}
    ends = [str(end) for end in bounds]
    yield "pandas", pd.DataFrame(DATA).dp.mean("x", **terms).note
    yield "series", pd.Series(DATA["x"]).dp.mean(**terms).note
    yield "polars", frame.lazy().dp.mean("x", **terms).note
    relation = duckdb.connect().from_arrow(frame.to_arrow())
    yield "duckdb", dfp.frame(relation).mean("x", **terms).note
    dfp.statistics(frame, folder / "part.parquet", dfp.mean("x", bounds))
    yield "files", dfp.merge(folder / "part.parquet", **HUGE)["x"].note
    call = f"dp_mean_interval(x, {', '.join(ends)})"
    connection = duckdb.connect()
    connection.register("t", frame.to_arrow())
    sql_udfs.register(connection, **HUGE)
    yield "registered", connection.sql(f"SELECT {call} FROM t").fetchall()[0][0]["note"]
    yield "dfp.sql", dfp.sql(f"SELECT {call} AS a FROM t", t=frame, **HUGE)["a"][0]["note"]
    frame.write_parquet(folder / "rows.parquet")
    words = ["mean", folder / "rows.parquet", "x", "--bounds", *ends, "--epsilon", "1e9"]
    ran = command(*map(str, words), "--output", str(folder / "out.json"))
    assert ran.exit_code == 0, ran.stderr
    yield "command", json.loads((folder / "out.json").read_text())[0]["note"]


def test_every_door_says_the_same(tmp_path):
    """Rows below, within and above are the same exact counts in all engines."""
    for door, note in doors(tmp_path, BOUNDS):
        assert note == NOTE, door


def test_an_absent_note_is_null_at_every_door(tmp_path):
    """Where nothing is clipped the note is None in Python and null in SQL and JSON."""
    for door, note in doors(tmp_path, (-5, 91)):
        assert note is None, door


def test_it_can_be_left_out(tmp_path):
    """`clipping=False`: no note, no column for it, and all of the loss for the answer."""
    frame = pl.DataFrame(DATA)
    for ask in ASKED:
        quiet, with_note = (
            frame.dp.agg(a=ask("x", BOUNDS, clipping=has_note)) for has_note in (False, True)
        )
        assert quiet["a"].note is None
        assert with_note["a"].mechanism.scale * 19 == quiet["a"].mechanism.scale * 20
    by_group = frame.dp.group_by("g", keys=["a"]).mean("x", BOUNDS, clipping=False)
    assert by_group.columns == ["g", "x", "low", "high", "count"]
    frame.write_parquet(tmp_path / "rows.parquet")
    words = ["mean", str(tmp_path / "rows.parquet"), "x", "--bounds", "-2", "60", "--no-clipping"]
    ran = command(*words, "--epsilon", "1e9")
    assert ran.exit_code == 0
    assert "clipped" not in ran.stdout
    for wrong in (0, None, "no"):
        with pytest.raises(dfp.errors.InvalidQuestionError, match="True or False"):
            frame.dp.mean("x", BOUNDS, clipping=wrong)


@pytest.mark.parametrize("kind", ["ratio", "cov", "corr", "slope", "intercept", "r_squared"])
def test_pairs_say_what_the_bounds_of_both_columns_clip(kind, tmp_path):
    """A column that is clipped has a note at every door, for half of a twentieth of the loss."""
    frame = pl.DataFrame(DATA).with_columns(y=pl.lit(1.0))
    is_line = kind in {"slope", "intercept", "r_squared"}
    ask = getattr(dfp, kind)
    question = ask("y", "x", (2, 3), BOUNDS) if is_line else ask("x", "y", BOUNDS, (2, 3))
    columns = {"x": "x", "y": "y", "clipping": False}
    note = f"x: {NOTE}; y: clipped: 100 % [100, 100] below 2"
    for rows in (frame, frame.to_pandas(), duckdb.from_arrow(frame.to_arrow())):
        assert dfp.frame(rows).agg(r=question, **HUGE)["r"].note == note
    dfp.statistics(frame, tmp_path / "part.parquet", r=question)
    assert dfp.merge(tmp_path / "part.parquet", **HUGE)["r"].note == note
    connection = duckdb.connect()
    connection.register("t", frame.to_arrow())
    sql_udfs.register(connection, **HUGE)
    places = "y, x, 2, 3, -2, 60" if is_line else "x, y, -2, 60, 2, 3"
    call = f"SELECT dp_{kind}_interval({places}) AS r FROM t"
    assert connection.sql(call).fetchall()[0][0]["note"] == note
    assert dfp.sql(call, t=frame, **HUGE)["r"][0]["note"] == note
    by_group = frame.dp.group_by("g", keys=["a", "b"]).agg(r=question, **HUGE)
    assert by_group["note"].str.contains("below -2 in 2 of 2 groups.*; y: clipped").all()
    wide = ask(**columns | {"clipping": True}, x_bounds=(-5, 91), y_bounds=(0, 3))
    assert frame.dp.agg(r=wide, **HUGE)["r"].note is None
    quiet = frame.dp.agg(r=ask(**columns, x_bounds=BOUNDS, y_bounds=(2, 3)))["r"]
    with_note = frame.dp.agg(r=question)["r"]
    assert with_note.mechanism.scale * 19 == pytest.approx(quiet.mechanism.scale * 20)
    assert quiet.note is None


def test_a_regression_says_what_the_bounds_of_its_columns_clip():
    """Each column that is clipped has a note beside every coefficient, by group too."""
    frame = pl.DataFrame(DATA).with_columns(y=pl.lit(1.0))
    bounds = {"x": BOUNDS, "y": (2, 3)}
    coefficients = frame.dp.regression("y", ["x"], bounds, **HUGE)
    assert set(coefficients["note"]) == {f"y: clipped: 100 % [100, 100] below 2; x: {NOTE}"}
    by_group = frame.dp.group_by("g", keys=["a", "b"]).regression("y", ["x"], bounds, **HUGE)
    assert by_group["x_note"].str.contains("x: clipped: .* below -2 in 2 of 2 groups").all()
    quiet = frame.dp.regression("y", ["x"], bounds, clipping=False, **HUGE)
    assert quiet.columns == ["term", "coefficient", "low", "high"]


@pytest.mark.parametrize("kind", ["mean", "var", "corr", "ratio", "intercept", "regression"])
def test_found_bounds_pay_for_no_count_of_clipped_rows(kind):
    """Where bounds are found, answers have the noise that they have without such counts."""
    columns = {"mean": ["x"], "var": ["x"], "regression": ["x", ["y"]]}.get(kind, ["x", "y"])
    frame = pl.DataFrame({"x": [1.0], "y": [1.0]})
    scales = [
        getattr(frame.dp.explain, kind)(*columns, clipping=clipping, epsilon=1).answers[0].scale
        for clipping in (True, False)
    ]
    assert scales[0] == scales[1]


def test_a_statement_pays_for_notes_with_intervals_or_without():
    """A mean has nineteen twentieths of the loss; beside its interval it is the same draw."""
    frame = pl.DataFrame(DATA)
    plain, noted = (
        dfp.explain(f"SELECT {call}(x, -2, 60) FROM t", t=frame, epsilon=1).answers[0].scale
        for call in ("dp_mean", "dp_mean_interval")
    )
    quiet = frame.dp.explain.mean("x", (-2, 60), clipping=False, epsilon=1).answers[0].scale
    assert plain == noted == pytest.approx(quiet * 20 / 19)
    both = "SELECT dp_mean(x, -2, 60) AS m, dp_mean_interval(x, -2, 60) AS i FROM t"
    row = dfp.sql(both, t=frame, epsilon=1).row(0)
    assert row[0] == row[1]["value"]


@pytest.mark.parametrize("door", ["frame", "statement", "ends"])
def test_groups_share_one_line(door):
    """Groups that clip have the range of their shares and their number; without, no group has it.

    Where few groups stand out by themselves, the line counts all groups together.
    """
    rows = [(g, 70.0 if i < 10 * g else 5.0) for g in range(4) for i in range(1000)]
    frame = pl.DataFrame(rows, schema=["g", "x"], orient="row")

    def note(frame, epsilon):
        terms = {"keys": frame["g"].unique().sort().to_list(), "epsilon": epsilon}
        if door == "frame":
            return frame.dp.group_by("g", keys=terms.pop("keys")).mean("x", (0, 60), **terms)[
                "note"
            ]
        if door == "ends":
            query = "SELECT g, dp_mean(x, 0, 60) AS a FROM t GROUP BY g"
            return dfp.sql(query, t=frame, intervals=True, **terms)["a_note"]
        query = "SELECT g, dp_mean_interval(x, 0, 60) AS a FROM t GROUP BY g"
        return dfp.sql(query, t=frame, **terms)["a"].struct.field("note")

    line = "clipped: 1 % to 3 % above 60 in 3 of 4 groups"
    assert note(frame, 1e9).to_list() == [None, line, line, line]
    many = pl.concat(frame.with_columns(g=pl.col("g") + 4 * i) for i in range(100))
    (pooled,) = set(note(many, 1))  # 6,000 clipped rows: 11 deviations of their noise
    assert re.search(r"1\.\d+ % \[.*\] above 60 in (all groups|the others) together$", pooled)


def test_shares_that_noise_leaves_open_are_no_numbers():
    """A share whose interval is wider than 50 points is called unknown: of frames and of groups.

    Groups with clear shares beside such ones keep theirs. Each line is there in over a third of
    the draws, so that 40 draws lack one with probability below 1e-7.
    """
    sizes = {"a": 400, "b": 60_000, "c": 90_000}
    rows = [(g, 70.0 if i % 2 else 5.0) for g, size in sizes.items() for i in range(size)]
    frame = pl.DataFrame(rows, schema=["g", "x"], orient="row")
    small, groups = frame.head(220).dp, frame.dp.group_by("g", keys=[*sizes])
    notes = [small.mean("x", (0, 60)).note or "" for _ in range(40)]
    shares = [share for note in notes for share in re.findall(r"\[(\S+), (\S+)\]", note)]
    assert all(float(high) - float(low) <= 50 for low, high in shares)
    assert "clipped: an unknown share above 60" in notes
    lines = {note for _ in range(40) for note in groups.mean("x", (0, 60))["note"]}
    clear = r"clipped: (49|50)\S* % to 5\S* % above 60 in 2 of 3 groups"
    assert any(
        re.fullmatch(rf"{clear}, an unknown share above 60 in 1 of 3 groups", line)
        for line in lines
    )


def test_a_mean_leaves_no_room_for_false_notes():
    """Functions that note each group by itself claim nothing that the group's mean rules out.

    A group of ten rows has less room than the noise of their counts reaches: no note in 2,000
    groups, though 2 % of them have larger counts. False alarms: below 1e-12 by the noise of rooms.
    """
    connection = duckdb.connect()
    sql_udfs.register(connection)
    connection.execute("CREATE TABLE t AS SELECT i // 10 AS g, 1.0 AS x FROM range(20000) AS r(i)")
    query = "SELECT dp_mean_interval(x, 0, 2, 1.0)['note'] FROM t GROUP BY g"
    notes = {note or "" for (note,) in connection.sql(query).fetchall()}
    assert not any("clipped" in note for note in notes)


def test_values_at_the_bounds_are_not_clipped():
    """Neither are those beyond them by less than a step of the grid; infinite ones are."""
    edges = [0.0, 1.0, 1 + 2.0**-40, -(2.0**-40)] * 500
    for bounds in ((0, 1), (-(2.0**60), 1), (2.0**60, 2.0**60 + 2048)):
        values = edges if bounds[0] <= 0 else list(bounds) * 500
        assert pl.DataFrame({"x": values}).dp.mean("x", bounds, **HUGE).note is None
    frame = pl.DataFrame({"x": [-np.inf, np.inf, 0.5, np.nan, None] * 100})
    note = frame.dp.mean("x", (0, 1), **HUGE).note
    assert note == "clipped: 33.3 % [33.3, 33.3] below 0, 33.3 % [33.3, 33.3] above 1"


@pytest.mark.parametrize("bound", [2**53, 2**53 - 1])
def test_integers_at_the_largest_bounds(bound):
    """Bounds of integer columns may be as large as they could be without the counts."""
    frame = pl.DataFrame({"x": [bound, -bound] * 500})
    assert frame.dp.mean("x", (-bound, bound), **HUGE).note is None


def test_units_count_as_much_as_their_rows():
    """A unit of many rows counts as a part of each: shares stay what they are."""
    rows = 6000
    frame = pl.DataFrame(
        {"u": [i // 10 for i in range(rows)], "x": [float(i % 10) for i in range(rows)]}
    )
    note = frame.dp(unit="u", max_rows=3).mean("x", (2, 8), **HUGE).note
    assert note.startswith("clipped: 20 % [20, 20] below 2, 10 % [10, 10] above 8; ")


BILLION = (-1e9, 1e9)
"""Bounds whose grid has steps of 2, so that 49.5 counts as 50."""

SUMS = {
    "alone": {"a": dfp.sum("x", BILLION)},
    "beside a mean": {"a": dfp.sum("x", BILLION), "b": dfp.mean("x", BILLION)},
    "beside a variance": {"a": dfp.sum("x", BILLION), "b": dfp.var("x", BILLION)},
}


@pytest.mark.parametrize("loss", [{"epsilon": 1e9}, {"rho": 1e17}], ids=["epsilon", "rho"])
@pytest.mark.parametrize("keys", ["whole", "public", "secret"])
@pytest.mark.parametrize("questions", SUMS)
def test_intervals_of_sums_hold_what_a_grid_rounds(questions, keys, loss):
    """The interval of a sum holds the sum of the values, however little noise there is.

    Rounding moves the sum by half of the room for it. Noise is larger than the other half with a
    probability below 1e-20, so that none of 60 releases misses.
    """
    rows = pl.DataFrame({"g": ["a", "b"] * 500, "x": [49.5] * 1000})
    private = {
        "whole": rows.dp,
        "public": rows.dp.group_by("g", keys=["a", "b"]),
        "secret": rows.dp.group_by("g"),
    }[keys]
    terms = {**loss, **({"delta": 1e-6} if keys == "secret" else {})}
    sums = 1000 * 49.5 if keys == "whole" else 500 * 49.5
    for _ in range(60 if questions == "alone" else 2):
        answer = private.agg(**SUMS[questions], **terms)
        if keys == "whole":
            ends = [answer["a"].interval()]
        else:
            names = ["low", "high"] if questions == "alone" else ["a_low", "a_high"]
            ends = answer.select(names).rows()
            assert len(ends) == 2
        assert all(low <= sums <= high for low, high in ends)


def test_room_for_rounding_is_that_of_the_counted_rows():
    """The interval of a sum of no rows has the room for rounding that noise of the count needs."""
    none = pl.DataFrame(schema={"x": pl.Float64}).dp.sum("x", BILLION, epsilon=1e9)
    low, high = none.interval()
    assert high - low < 100
