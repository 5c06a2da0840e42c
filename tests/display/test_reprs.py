"""Releases in a notebook: HTML says what the plain text says, and nothing gets out of its place."""

import datetime as dt
import json
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import command
from tests.frame_types import FRAME_TYPES

KINDS = ["estimate", "gaussian", "choice", "hostile", "unknown", "vector"]


@pytest.mark.parametrize("kind", KINDS)
def test_html_has_the_facts_of_the_line(numbers, read_html, kind):
    """Every word of the plain line stands in the HTML, in its order."""
    words = iter(read_html(numbers[kind]._repr_html_()).words.replace(",", " ").split())
    for word in repr(numbers[kind]).replace(",", " ").split():
        assert word in words


@pytest.mark.parametrize(("level", "text"), [(0.95, "95%"), (0.999, "99.9%"), (0.29, "29%")])
def test_levels_are_told_as_they_are(flights, level, text):
    """No level of an interval is rounded to another one."""
    assert f"] at {text}, " in repr(flights.dp.count(interval=level))


def test_a_remembered_number(tmp_path, flights, read_html):
    """A remembered number says so in both forms."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1, remember=True)
    private = flights.dp(ledger=ledger, dataset="flights", version="1")
    again = [private.mean("delay", (0, 60), epsilon=0.5, clipping=False) for _ in range(2)][1]
    assert repr(again).endswith("epsilon=0.5, remembered")
    assert "epsilon=0.5, remembered" in read_html(again._repr_html_()).words


def test_html_takes_the_colors_around_it(numbers, means):
    """No color and no background is set, so that dark and light pages both work."""
    for html in (numbers["estimate"]._repr_html_(), dfp.show(means)._repr_html_()):
        assert "currentColor" in html
        assert "background" not in html
        assert not re.search(r"(?<!&)#|[^-]color:", html)


def test_no_markup_from_names_and_keys(numbers, means, vector, flights, read_html):
    """Names of columns and keys are text: the HTML has the tags of its own alone."""
    views = [numbers["hostile"], dfp.show(means), vector, flights.dp, flights.dp.group_by("<i>")]
    allowed_tags = {"div", "b", "span", "svg", "line", "circle", "br", "small", "code"}
    allowed_tags |= {"table", "thead", "tbody", "tr", "th", "td"}
    for view in views:
        html = view._repr_html_()
        assert "<i>" not in html
        assert "</script" not in html
        assert html.count("<b>") == len([tag for tag in read_html(html).tags if tag == "b"]) <= 1
        assert set(read_html(html).tags) <= allowed_tags


def test_private_frames_show_their_kind(flights, read_html):
    """A private frame shows what it is in both forms, and no row."""
    for private in (flights.dp, flights.dp.group_by("carrier"), flights.dp(epsilon=2)):
        assert read_html(private._repr_html_()).words == repr(private)


def cells(view):
    """Return the cells of a view, as its plain text has them."""
    lines = repr(view).splitlines()
    return [line.split() for line in lines]


@pytest.mark.parametrize("kind", ["means", "histogram", "sums"])
def test_a_view_is_the_same_in_both_forms(kind, request, read_html):
    """Every word of the plain table stands in the HTML table, in its order."""
    view = dfp.show(request.getfixturevalue(kind))
    words = read_html(view._repr_html_()).words.split()
    plain = [word for line in cells(view) for word in line]
    if kind == "sums":  # the HTML says the law of the noise too, and sets lines apart
        assert {word.strip(",") for word in plain} <= {word.strip(",") for word in words}
    else:
        assert [word for word in words if word in set(plain)] == plain


@pytest.mark.parametrize("engine", FRAME_TYPES)
def test_a_view_of_every_frame_type(flights, engine):
    """Released frames of every type are known with their cost and their keys."""
    private = dfp.Private(FRAME_TYPES[engine](flights.to_arrow()))
    arguments = {"bounds": (0, 60), "clipping": False, "epsilon": 2, "delta": 1e-6}
    released = private.group_by("carrier").mean("delay", **arguments)
    lines = repr(dfp.show(released)).splitlines()
    assert lines[0] == "mean('delay', bounds=(0.0, 60.0), clipping=False) by 'carrier'"
    assert lines[1].split() == ["carrier", "delay", "interval", "count"]
    assert lines[-3:] == [
        "epsilon=2, delta=1e-06",
        "95 % intervals, without sampling error and clipping by given bounds.",
        "Groups with a noisy count below 9 are not shown.",
    ]


def test_intervals_of_the_population_say_so(flights):
    """A number, a table and a comparison name the sampling error that their intervals include."""
    by = flights.dp(population=True).group_by("carrier", keys=["AA", "UA"]).count(epsilon=1)
    count = flights.dp.count(epsilon=1, population=True)
    assert "at 95% of the population, epsilon=1" in repr(count)
    for shown in (dfp.show(by), dfp.show(dfp.released(by).diff())):
        assert "95 % intervals of the population, without clipping" in repr(shown)
    assert "intervals of the population" in str(count.plot().to_dict()["title"])


def test_a_number_names_the_limits_of_users(flights):
    """Rows beyond limits are left out: the repr has the limits, given or found."""
    limited = flights.dp(unit="carrier", max_rows=2)
    assert repr(limited.count(epsilon=1)).endswith(", a unit with more than 2 rows counts as 2")
    by = limited.group_by("delay", keys=[1.0]).count(epsilon=1)
    assert "clipping by given bounds and rows beyond max_rows or without a unit." in repr(
        dfp.show(by)
    )
    assert "max_rows=" in repr(flights.dp(unit="carrier").count(epsilon=1))
    by_delay = flights.dp(unit="delay", max_rows=2, max_groups=1)
    keys = flights["carrier"].unique().to_list()
    groups = by_delay.group_by("carrier", keys=keys).count(epsilon=1)
    assert "rows beyond max_rows, beyond max_groups or without a unit." in repr(dfp.show(groups))
    assert "max_rows" not in repr(flights.dp.count(epsilon=1))


def test_shares_are_percentages(flights):
    """Shares by group, in tables of two columns, of a total and in SQL are shown in percent."""
    late = flights.with_columns(late=pl.col("delay") > 30, far=pl.col("delay") > 90)
    by = late.dp.group_by("carrier", keys=["AA", "UA"])
    shares = by.share("late", epsilon=2)
    table = late.dp.crosstab("carrier", "far", dfp.share("late"), delta=1e-6)
    query = "SELECT carrier, dp_share(late) AS part FROM late GROUP BY carrier"
    answers = dfp.sql(query, late=late, delta=1e-6)
    parts = dfp.released(by.count(epsilon=2)).ratio_to("total")
    for released in (shares, dfp.released(shares).diff(), table, answers, parts):
        assert re.search(r"[ \[]\d+(\.\d+)?%", repr(dfp.show(released)))
    assert (
        "%" not in repr(dfp.show(dfp.released(by.count(epsilon=2)).ratio_to("AA"))).split("at")[0]
    )
    assert '"format": "~%"' in json.dumps(dfp.plot(shares).to_dict())


SELECTIONS = {
    "sorted": lambda frame: frame.sort_values("delay", ascending=False),
    "filtered": lambda frame: frame[frame["carrier"] != "AA"],
    "first rows": lambda frame: frame.head(2),
    "columns": lambda frame: frame[["delay", "low", "high"]],
    "copied": lambda frame: frame.copy(),
    "pickled": lambda frame: pickle.loads(pickle.dumps(frame)),
}


@pytest.fixture(scope="module")
def pandas_means(flights):
    """Return means by group as a pandas frame."""
    groups = flights.to_pandas().dp.group_by("carrier")
    return groups.mean("delay", bounds=(0, 60), epsilon=2, delta=1e-6)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_selection_of_a_pandas_release_is_a_release(pandas_means, selection):
    """A pandas release that is sorted, filtered, copied or stored still says what it cost."""
    shown = repr(dfp.show(SELECTIONS[selection](pandas_means)))
    assert shown.startswith("mean('delay', bounds=(0.0, 60.0)) by 'carrier'")
    assert "\nepsilon=2, delta=1e-06\n95 % " in shown


CHANGES = {
    "assign": lambda frame: frame.assign(delay=frame["delay"] + 1),
    "one more column": lambda frame: frame.assign(name="x"),
    "rename": lambda frame: frame.rename(columns={"carrier": "airline"}),
    "another type": lambda frame: frame.astype({"carrier": object}),
    "concat": lambda frame: pd.concat([frame, frame.assign(delay=0.0)]),
    "rows twice": lambda frame: pd.concat([frame, frame]),
    "merge": lambda frame: frame.merge(pd.DataFrame({"carrier": ["UA"], "n": [1]})),
    "protected rows": lambda frame: pd.DataFrame({"carrier": ["UA"], "delay": [4711.0]}),
    "forged": lambda frame: _with_attributes(frame.assign(delay=4711.0), {"dfprivacy": "4711"}),
    "polars": pl.DataFrame,
    "arrow": lambda frame: pl.DataFrame(frame).to_arrow(),
}


def _with_attributes(frame, attributes):
    frame.attrs.update(attributes)
    return frame


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", [dfp.show, dfp.plot, dfp.released])
def test_a_changed_release_and_protected_rows_are_refused(pandas_means, change, reader):
    """A frame with other cells or columns than a release is refused, and no cell is quoted."""
    with pytest.raises(
        dfp.errors.InvalidQuestionError, match="not a release, or was changed"
    ) as raised:
        reader(CHANGES[change](pandas_means))
    assert "4711" not in str(raised.value)


@pytest.mark.parametrize("name", ["note", "delay_note"])
def test_a_saved_table_without_notes_reads_back(pandas_means, tmp_path, name):
    """A column of notes that is empty is no answer, of whatever type a file gives it back."""
    path = tmp_path / "means.csv"
    pandas_means.assign(note=np.nan).rename(columns={"note": name}).to_csv(path, index=False)
    shown = repr(dfp.show(pd.read_csv(path), public=True))
    assert shown.count("unknown") == 1  # the cost
    assert "Without an answer" not in shown


def test_answers_without_a_counterpart_are_not_said_to_lack_rows():
    """A key that is compared with one that the other group lacks has nothing to compare with."""
    rows = pl.DataFrame({"g": ["a"] * 600 + ["b"] * 300, "m": [1, 2] * 300 + [1] * 300})
    counts = dfp.released(rows.dp.group_by("g", "m").count(epsilon=1, delta=1e-6))
    shown = repr(dfp.show(counts.diff("b", along="g")))
    assert "Without an answer, or nothing to compare with: 1." in shown


IN_PLACE = {
    "pandas": [
        lambda frame: frame.insert(1, "true", 4711),
        lambda frame: frame.isetitem(1, frame["count"] * 2),
        lambda frame: frame.isetitem(1, frame["count"].to_list()[::-1]),
        lambda frame: frame.isetitem(2, frame["count"]),
        lambda frame: frame.isetitem(0, frame["k"].to_list()[::-1]),
        lambda frame: frame.loc.__setitem__((0, "count"), 4711),
        lambda frame: setattr(frame, "columns", ["k", "count", "high", "low"]),
    ],
    "polars": [
        lambda frame: frame.insert_column(1, pl.Series("true", [4711] * len(frame))),
        lambda frame: frame.replace_column(1, frame["count"] * 2),
        lambda frame: frame.replace_column(1, frame["count"].reverse()),
        lambda frame: frame.__setitem__((0, "count"), 4711),
        lambda frame: frame.extend(frame.with_columns(count=pl.col("count") + 1)),
    ],
}


@pytest.mark.parametrize("kind", IN_PLACE)
@pytest.mark.parametrize("groups", [40, 6000])
def test_a_release_that_was_changed_in_place_is_refused(kind, groups):
    """Rows that are shown are rows of the released table, in the columns that the frame has."""
    frame = FRAME_TYPES[kind](pl.DataFrame({"k": range(groups)}).to_arrow())
    for change in IN_PLACE[kind]:
        released = frame.dp.group_by("k", keys=range(groups)).count(epsilon=0.01)
        assert "epsilon=0.01" in repr(dfp.show(released))
        change(released)
        for reader in (dfp.show, dfp.plot, dfp.released):
            with pytest.raises(dfp.errors.InvalidQuestionError, match="or was changed since"):
                reader(released)


def test_a_changed_table_of_two_columns_is_refused():
    """A table by crosstab that was changed in place is refused; its long form is a copy."""
    frame = pd.DataFrame({"a": ["x", "y"] * 50, "b": ["u", "v"] * 50})
    table = frame.dp.crosstab("a", "b", keys={"a": ["x", "y"], "b": ["u", "v"]}, epsilon=1)
    shown = repr(dfp.show(table))
    long = dfp.released(table).long()
    long["high"] = 4711.0
    assert repr(dfp.show(table)) == shown
    table["u"] = 4711
    with pytest.raises(dfp.errors.InvalidQuestionError, match="or was changed since"):
        dfp.show(table)


def test_an_answer_by_name_does_not_draw_protected_rows(flights):
    """Naming a column of a protected frame does not draw it."""
    with pytest.raises(dfp.errors.InvalidQuestionError, match="not a release"):
        dfp.plot(flights, answer="delay")


def test_the_cost_of_a_public_frame_is_unknown(means):
    """A frame declared public is shown without a cost."""
    part = means.with_columns(pl.col("delay") + 1.0)
    assert "cost unknown" in repr(dfp.show(part, public=True))


@pytest.mark.parametrize("engine", ["polars", "pandas", "arrow", "duckdb"])
def test_results_of_sql_are_shown(flights, engine):
    """A result of dfp.sql is shown and drawn, with its keys, its answers and its cost."""
    query = "SELECT carrier, dp_mean(delay, 0, 60) AS m, dp_count(*) AS n FROM t GROUP BY carrier"
    release = dfp.sql(query, t=FRAME_TYPES[engine](flights.to_arrow()), epsilon=2, delta=1e-6)
    lines = repr(dfp.show(release)).splitlines()
    assert lines[1].split() == ["carrier", "m", "n"]
    assert lines[-2] == "epsilon=2, delta=1e-06"
    assert lines[-1] == "Groups with a noisy count below 15 are not shown."
    assert dfp.plot(release).to_dict()["title"]["text"] == "m, n by carrier"
    windows = f"WITH r AS ({query}) SELECT carrier, m, n, n / sum(n) OVER () AS part FROM r"
    windowed = dfp.sql(windows, t=flights, epsilon=2, delta=1e-6, intervals=True)
    head = repr(dfp.show(windowed)).splitlines()[1].split()
    assert head == ["carrier", "m", "interval", "n", "interval", "part"]


def test_numbers_have_the_digits_that_the_noise_leaves(flights):
    """Two digits of the interval's half-width decide; thousands are separated."""
    total = flights.dp.sum("delay", (0, 60), epsilon=1, clipping=False)
    number = re.fullmatch(r"delay ([\d,]+) \[([\d,]+), ([\d,]+)\] at 95%, epsilon=1", repr(total))
    assert number, repr(total)
    half = (total.high - total.low) / 2
    for text, value in zip(number.groups(), (total, total.low, total.high), strict=True):
        assert abs(float(text.replace(",", "")) - value) <= max(1, half / 10)
    mean = flights.dp.mean("delay", (0, 60), epsilon=1, clipping=False)
    decimals = {len(text.split(".")[1]) for text in re.findall(r"\d+\.\d+", repr(mean))}
    assert decimals <= {2, 3}
    assert len(decimals) == 1


def test_digits_keep_a_number_within_its_interval():
    """A number is shown no further from itself than its nearest end is, or a hundredth of it.

    The upper end of a deviation within found bounds is: values beyond the bounds may be large.
    """
    values = np.exp(np.random.default_rng(1).normal(4, 1.1, 20_000))
    for _ in range(20):
        spread = pl.DataFrame({"x": values}).dp.std("x", epsilon=0.05)
        shown = re.match(r"x ([\d,.]+) \[", repr(spread))
        room = max(spread - spread.low, spread / 100)
        assert abs(float(shown[1].replace(",", "")) - spread) <= room


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_saved_numbers_read_back(tmp_path, means, numbers, ending):
    """A file of numbers has those of the release and nothing else."""
    if ending == "xlsx":
        pytest.importorskip("openpyxl")
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "xlsx": pd.read_excel}[ending]
    for released in (means, numbers["estimate"]):
        table = read(dfp.show(released).save(tmp_path / f"release.{ending}"))
        expected = means["delay"].to_list() if released is means else [float(released)]
        assert table.iloc[:, 1].tolist() == pytest.approx(expected, rel=1e-14)


def test_every_key_and_answer_has_a_form_in_csv(tmp_path):
    """Durations and bytes are written as they are shown, in every CSV file and without a unit."""
    wait = dt.timedelta(seconds=90)
    rows = pl.DataFrame({"id": [b"a"] * 500, "g": ["b"] * 500, "wait": [wait] * 500})
    rows.write_parquet(tmp_path / "rows.parquet")
    grouped = rows.dp.group_by("id", keys=[b"a"]).median("wait", epsilon=9)
    numbers = rows.dp.agg(dfp.median("wait"), n=dfp.count(), epsilon=9)
    saved = [
        dfp.show(shown).save(tmp_path / "saved.csv").read_text() for shown in (grouped, numbers)
    ]
    words = ["median", tmp_path / "rows.parquet", "wait", "--by", "g", "--keys", "b"]
    ran = command(*words, "--epsilon", 9, "--output", tmp_path / "out.csv")
    assert ran.exit_code == 0, ran.output
    assert re.search(r"^b'a',0:01:[23]\d", saved[0], re.MULTILINE)
    assert re.search(r"^wait,0:01:[23]\d", saved[1], re.MULTILINE)
    assert re.search(r"^n,\d+\.0,", saved[1], re.MULTILINE)
    assert re.search(r"^b,0:01:[23]\d", (tmp_path / "out.csv").read_text(), re.MULTILINE)


@pytest.mark.parametrize("ending", ["html", "svg", "png"])
def test_a_release_is_saved_with_its_cost_and_the_date(tmp_path, means, numbers, ending):
    """Tables, numbers and their charts are files that say what they cost and the date."""
    if ending in {"svg", "png"}:
        pytest.importorskip("altair")
        pytest.importorskip("vl_convert")
    today = f"Written on {dt.datetime.now(dt.UTC).date()}."
    for released, cost in ((means, "epsilon=2, delta=1e-06"), (numbers["estimate"], "epsilon=0.5")):
        path = dfp.show(released, measured_in="minutes").save(tmp_path / f"release.{ending}")
        if ending == "png":
            assert path.read_bytes()[:4] == b"\x89PNG"
            continue
        text = path.read_text()
        assert cost in text
        assert today in text
        assert "</script><b>" not in text
    with pytest.raises(dfp.errors.PictureError):
        dfp.show(means).save(tmp_path / "release.pdf")


def test_long_frames_are_cut_and_say_so():
    """A hundred groups are shown, and the view says how many more there are."""
    frame = pl.DataFrame({"g": list(range(150)) * 4, "x": [1.0] * 600})
    view = dfp.show(frame.dp.group_by("g", keys=range(150)).mean("x", (0, 2)))
    assert repr(view).endswith("Shows 100 of 150 groups.")
    assert view._repr_html_().count("<tr>") == 101


def test_nulls_and_unknowns_are_named():
    """A NULL key is called NULL, an answer that is no number unknown."""
    frame = pd.DataFrame({"g": ["a", None] * 2, "x": [1.0, 2.0] * 2})
    released = frame.dp.group_by("g", keys=["a", None]).inverse_quantile("x", 0.01, epsilon=0.01)
    rows = cells(dfp.show(released))[2:4]
    assert [row[:2] for row in rows] == [["a", "unknown"], ["NULL", "unknown"]]


def test_keys_that_differ_are_shown_as_different():
    """Spaces around a key, a text without characters and the text NULL can be seen."""
    keys = ["a", "a ", " a", "", " ", "NULL", None]
    frame = pl.DataFrame({"k": keys * 50})
    lines = repr(dfp.show(frame.dp.group_by("k", keys=keys).count(epsilon=1))).splitlines()
    shown = [re.sub(r"\s+[-\d]+\s+\[.*", "", line) for line in lines[2:9]]
    assert shown == ["a", "'a '", "' a'", "''", "' '", "'NULL'", "NULL"]


def test_no_release_is_refused():
    """An object or a frame that is no release is refused by its type, and no value is quoted."""
    for wrong in (4711, ["4711"], pl.DataFrame({"secret": [4711]}), pd.DataFrame({"s": [4711]})):
        with pytest.raises(dfp.errors.InvalidQuestionError, match="is not a release") as raised:
            dfp.show(wrong)
        assert "4711" not in str(raised.value)


def test_an_interval_is_never_shown_narrower_than_it_is():
    """Ends are rounded outwards to the digits that are shown, in tables and in charts.

    Ends that have no more digits than that are shown as they are.
    """
    draws = np.random.default_rng(7)
    values = draws.normal(size=100) * 10.0 ** draws.integers(-6, 12, 100)
    below, above = abs(draws.normal(size=(2, 100)) * values) * draws.choice([0.01, 1, 9], 100)
    exact = [(0.5, 0.0, 1.0), (70.0, 10.0, 100.0), (3.0, 3.0, 3.0), (2.0, -np.inf, 9.0)]
    rows = [*exact, (-300.0, -622.3, 11.6)]
    rows += zip(values.tolist(), (values - below).tolist(), (values + above).tolist(), strict=True)
    for row in rows:
        frame = pl.DataFrame([row], schema=["mean", "low", "high"], orient="row")
        lines = repr(dfp.show(frame, public=True)).replace(",", "").splitlines()
        ends = [float(end) for end in re.findall(r"\[(.*) (.*)\]", lines[1])[0]]
        assert ends[0] <= row[1] <= row[2] <= ends[1]
        assert row not in exact or ends == [row[1], row[2]]
        if np.isfinite(row).all():
            chart = json.dumps(dfp.plot(frame, public=True).to_dict()).replace(",", "")
            (ends,) = re.findall(r'"interval": "(\S+) to (\S+)"', chart)
            assert float(ends[0]) <= row[1] <= row[2] <= float(ends[1])


def test_keys_of_a_table_that_differ_are_shown_as_different(tmp_path):
    """Rows and columns of a table show keys as groups do, told from totals; files have them bare.

    A key with a space at its end is another row than one without.
    """
    keys = ["DE", "DE ", "", "NULL", None, "All"]
    frame = pl.DataFrame({"a": keys * 50, "b": keys[::-1] * 50})
    table = frame.dp.crosstab("a", "b", keys={"a": keys, "b": keys}, margins=True, epsilon=1)
    view = dfp.show(table)
    labels = ["DE", "'DE '", "''", "'NULL'", "NULL", "'All'", "All"]
    head, *rows = repr(view).splitlines()[1:9]
    assert head.split() == ["a", "DE", "'DE", "'", "''", "'NULL'", "NULL", "'All'", "All"]
    assert [re.sub(r"(\s+-?[\d,]+){7}$", "", row) for row in rows] == labels
    assert pl.read_csv(view.save(tmp_path / "table.csv"))["a"].to_list()[:2] == ["DE", "DE "]
