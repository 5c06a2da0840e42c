"""Charts of releases: what is in them is what was released, and what they cost stands over them."""

import datetime as dt
import re
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

BARS = "95 % intervals, without sampling error and clipping by given bounds."


def find(spec, name):
    """Yield every value under a name, anywhere in a specification."""
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key == name:
                yield value
            yield from find(value, name)
    elif isinstance(spec, list):
        for value in spec:
            yield from find(value, name)


def read_rows(chart):
    """Return the rows of data in a chart."""
    spec = chart.to_dict()
    inline = [row for data in find(spec, "data") for row in data.get("values", ())]
    return inline + [row for rows in spec.get("datasets", {}).values() for row in rows]


def subtitle(chart):
    return chart.to_dict()["title"]["subtitle"]


def axis_titles(chart):
    return {x["title"] for x in find(chart.to_dict(), "x") if "title" in x}


def test_an_estimate(numbers):
    """A number is drawn with its interval, its cost, the level and the meaning of the bar."""
    estimate = numbers["estimate"]
    chart = estimate.plot(measured_in="minutes")
    (row,) = read_rows(chart)
    bar = {"label": "delay", "value": float(estimate), "low": estimate.low, "high": estimate.high}
    assert row.items() >= bar.items()
    assert subtitle(chart) == ["epsilon=0.5", BARS]
    assert axis_titles(chart) == {"delay (minutes)"}
    assert subtitle(numbers["gaussian"].plot()) == ["rho=0.5", BARS.replace("95", "90")]


def test_quantiles(flights):
    """A list of numbers stands on one axis; what was chosen has no bars."""
    quantiles = flights.dp.quantiles("delay", [0.25, 0.5, 0.75], epsilon=1)
    chart = dfp.plot(quantiles)
    assert [row["value"] for row in read_rows(chart)] == [float(quantile) for quantile in quantiles]
    assert [row["label"] for row in read_rows(chart)] == ["delay_0.25", "delay_0.5", "delay_0.75"]
    assert subtitle(chart) == ["epsilon=1 for all 3"]


def test_several_questions_have_axes_of_their_own(sums):
    """A dict of numbers: one axis a number, units by name or for all but counts."""
    chart = dfp.plot(sums, measured_in="minutes")
    assert len(chart.to_dict()["vconcat"]) == 3
    assert len(axis_titles(chart)) == 3
    named = dfp.plot(sums, measured_in={"m": "minutes"})
    assert "m (minutes)" in axis_titles(named)


def test_groups(means):
    """A frame by group: one dot and bar a group, with count; the order is that of the frame."""
    chart = dfp.plot(means, measured_in="minutes")
    expected = means.select("delay", "low", "high", "count").rows()
    assert [
        tuple(row[k] for k in ("value", "low", "high", "count")) for row in read_rows(chart)
    ] == (expected)
    assert subtitle(chart) == [
        "mean('delay', bounds=(0.0, 60.0)) by 'carrier'",
        "epsilon=2, delta=1e-06",
        BARS,
        "Groups with a noisy count below 10 are not shown.",
    ]
    domains = [d for d in find(chart.to_dict(), "domain") if isinstance(d, list)]
    assert domains[0][1:] == ["AA", "UA"]


def test_groups_by_value(means):
    """sort="value" puts the largest first."""
    values = [row["value"] for row in read_rows(dfp.plot(means, sort="value"))]
    assert values == sorted(means["delay"].to_list(), reverse=True)
    with pytest.raises(dfp.errors.InvalidQuestionError):
        dfp.plot(means, sort="name")


def test_many_groups_are_cut_and_say_so():
    """Forty groups are drawn, and a line says how many more there are."""
    frame = pl.DataFrame({"g": list(range(300)) * 4, "x": [1.0] * 1200})
    released = frame.dp.group_by("g", keys=range(300)).mean("x", (0, 2))
    chart = dfp.plot(released, sort="value")
    assert len(read_rows(chart)) == 40
    assert "Shows 40 of 300 groups, the largest first." in subtitle(chart)


def test_several_answers(flights):
    """Answers stand side by side; one of them can be chosen by its name."""
    released = flights.dp.group_by("carrier", keys=["AA", "UA"]).agg(
        dfp.mean("delay", (0, 60)), n=dfp.count(), m=dfp.median("delay"), epsilon=3
    )
    assert len(dfp.plot(released).to_dict()["hconcat"]) == 3
    assert axis_titles(dfp.plot(released, answer="m")) == {"m"}
    with pytest.raises(dfp.MissingColumnError):
        dfp.plot(released, answer="x")
    with pytest.raises(dfp.errors.InvalidQuestionError):
        dfp.plot(released, answer="carrier")


def test_a_copy_without_intervals_has_to_name_its_answer(flights):
    """Where names don't tell the answer, it has to be named."""
    released = flights.dp.group_by("carrier", keys=["AA", "UA"]).median("delay", epsilon=1)
    assert len(read_rows(dfp.plot(released))) == 2
    with pytest.raises(dfp.errors.InvalidQuestionError, match="recognized as an answer"):
        dfp.plot(released.with_columns(pl.col("delay") + 1.0), public=True)
    assert len(read_rows(dfp.plot(released.head(1), answer="delay", public=True))) == 1


def test_unknown_groups_are_counted_and_not_drawn():
    """Groups without an answer leave their line empty, and the caption counts them."""
    frame = pl.DataFrame({"g": ["a", "b"] * 3, "x": [1.0] * 6})
    released = frame.dp.group_by("g", keys=["a", "b"]).inverse_quantile("x", 0.01, epsilon=0.01)
    chart = dfp.plot(released)
    assert read_rows(chart) == []
    assert "Without an answer, because values are too few: 2." in subtitle(chart)


@pytest.mark.parametrize("form", [pl.DataFrame, pd.DataFrame])
def test_null_of_an_expression_is_no_missing_answer(form):
    """The first month has no month before it, and all months have answers; NaN is none."""
    rows = form({"m": [0, 1, 2] * 900})
    query = "SELECT m, dp_count(*) AS n FROM t GROUP BY m"
    query = f"WITH a AS ({query}) SELECT m, n, n - lag(n) OVER (ORDER BY m) AS c FROM a"
    released = dfp.sql(query, t=rows, keys=[0, 1, 2])
    assert "Without an answer" not in repr(dfp.show(released))
    assert "Without an answer" not in str(subtitle(dfp.plot(released)))
    small_frame = form({"m": [0, 1], "x": [1.0, 2.0]})
    released = dfp.sql("SELECT m, dp_mean(x) AS x FROM t GROUP BY m", t=small_frame, keys=[0, 1])
    assert "because values are too few: 2." in repr(dfp.show(released))


def test_histograms(flights, histogram):
    """Whole and by group: every bin with its noisy count and its bar."""
    ungrouped = flights.dp.histogram("delay", [0, 20, 40, 60], epsilon=1)
    for released in (ungrouped, histogram):
        chart = dfp.plot(released, measured_in="minutes")
        bars = [(r["lower"], r["upper"], r["count"], r["low"], r["high"]) for r in read_rows(chart)]
        assert bars == released.select("lower", "upper", "count", "low", "high").rows()
        assert axis_titles(chart) == {"delay (minutes)"}
        assert BARS in subtitle(chart)
    assert dfp.plot(histogram).to_dict()["facet"]["sort"] == ["<\u2060/script><b>", "AA", "UA"]
    assert dfp.plot(histogram).to_dict()["title"]["text"] == "histogram of delay by carrier"


@pytest.mark.parametrize("bins", [[0, 20, 40, 60], [0, 1, 20, 60]])
def test_the_area_of_a_bar_of_a_histogram_is_its_count(flights, bins):
    """Bars of unequal width are as high as their count by width, and so are their intervals."""
    chart = dfp.plot(flights.dp.histogram("delay", bins, epsilon=1))
    is_even = bins[1] == 20
    for row in read_rows(chart):
        width = 1 if is_even else row["upper"] - row["lower"]
        for end in ("count", "low", "high"):
            assert row[f"{end}_height"] == row[end] / width
    bars, rules = (layer["encoding"]["y"] for layer in chart.to_dict()["layer"])
    assert (bars["field"], rules["field"]) == ("count_height", "low_height")
    assert bars["title"] == f"noisy count (values){'' if is_even else ' / width of bin'}"


def test_vectors(vector):
    """A mean of vectors has one dot a coordinate, named by its column."""
    chart = vector.plot()
    assert [row["label"] for row in read_rows(chart)] == ["x", "<i>"]
    assert [row["value"] for row in read_rows(chart)] == list(vector)
    assert "rho=0.5" in subtitle(chart)[0]


@pytest.mark.battery
def test_long_vectors():
    """Many coordinates are a line with a band, and 2,000 at most."""
    frame = pl.DataFrame(
        {"e": np.ones((20, 2050))}, schema={"e": pl.Array(pl.Float64, 2050)}
    )  # fmt: skip
    chart = frame.dp.mean_vector("e", rho=0.5, radius=60).plot()
    assert len(read_rows(chart)) == 2000
    assert subtitle(chart)[1] == BARS
    assert "Shows 2,000 of 2,050 coordinates." in subtitle(chart)


def test_vectors_by_group(flights):
    """Coordinates by group are shown by six; a frame of whole vectors is refused."""
    frame = flights.with_columns(*(pl.col("x").alias(f"x{i}") for i in range(8)))
    names = [f"x{i}" for i in range(8)]
    keyed = frame.dp.group_by("carrier", keys=["AA"])
    chart = dfp.plot(keyed.mean_vector(names, rho=0.5, radius=10))
    assert "Shows 6 of 8 answers." in subtitle(chart)
    vectors = frame.select("carrier", v=pl.concat_arr(names)).dp.group_by("carrier", keys=["AA"])
    with pytest.raises(dfp.errors.InvalidQuestionError, match="vector for each group"):
        dfp.plot(vectors.mean_vector("v", rho=0.5, radius=10))


def test_text_can_not_leave_a_script(means, histogram, numbers):
    """Keys and names can't end the script that altair writes a chart into."""
    for chart in (dfp.plot(means), dfp.plot(histogram), numbers["hostile"].plot()):
        assert "</" not in chart.to_json()


def test_the_theme_is_readable(means):
    """No text is smaller than 11, and no chart relies on red against green."""
    theme = dfp.plot(means).to_dict()["config"]
    sizes = [
        value
        for name in ("fontSize", "labelFontSize", "titleFontSize", "subtitleFontSize")
        for value in find(theme, name)
    ]
    assert min(sizes) >= 11
    assert theme["range"]["category"][:2] == ["#0072B2", "#D55E00"]


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_extra(monkeypatch, tmp_path, numbers, missing):
    """Without its library a picture is refused, with what to install; views still work."""
    chart = numbers["estimate"].plot()
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(dfp.errors.PictureError, match=r"pip install 'dfprivacy\[plot\]'"):
        dfp.save_plot(chart if missing == "vl_convert" else numbers["estimate"].plot(), "x.png")
    assert repr(dfp.show(numbers["estimate"]))


def test_saved_files_hold_the_chart(tmp_path, means):
    """PNG, SVG and HTML are written, with the numbers and words that belong there."""
    chart = dfp.plot(means, measured_in="minutes")
    png, svg, page = (dfp.save_plot(chart, tmp_path / f"c.{end}") for end in ("png", "svg", "html"))
    assert dfp.save_plot(means, tmp_path / "release.svg").read_text().count("<svg") == 1
    head = png.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(head[16:20], "big") > 900
    text = svg.read_text()
    for words in ("delay (minutes)", "epsilon=2, delta=1e-06", "UA", BARS):
        assert f">{words}<" in text
    assert "<b>" not in text
    assert ">epsilon=2, delta=1e-06<" in page.read_text()


def test_files_that_can_not_be_written(tmp_path, means):
    """Another ending, a folder that is not there and what is no release: nothing is written."""
    chart, rows = dfp.plot(means), pl.DataFrame({"city": ["a"], "x": [1.0]})
    for shown, path in ((chart, "c.pdf"), (means, "c"), (chart, "none/c.svg"), (rows, "c.svg")):
        with pytest.raises((dfp.errors.PictureError, dfp.errors.InvalidQuestionError)):
            dfp.save_plot(shown, tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_draws_charts_without_the_network(means, read_html):
    """A chart shows itself as SVG: no script, no address, names escaped, the page's own ink."""
    shown = dfp.plot(means)._repr_mimebundle_()["text/html"]
    read = read_html(shown)
    assert "script" not in read.tags
    assert {"svg", "path"} <= set(read.tags)
    assert not re.search(r"(?:src|href)=|url\(|cdn", shown)
    assert "currentColor" in shown
    assert "<b>" not in shown
    again = dfp.plot(means).properties(width=200)
    assert "text/html" in again._repr_mimebundle_()


def test_a_chosen_renderer_draws(means):
    """Whoever has chosen a renderer of altair gets its drawing."""
    altair = pytest.importorskip("altair")
    with altair.renderers.enable("mimetype"):
        assert "text/html" not in dfp.plot(means)._repr_mimebundle_()


def weeks(**columns):
    days = pl.date_range(dt.date(2024, 1, 1), dt.date(2024, 12, 30), "1w", eager=True)
    return pl.DataFrame({"week": days}).join(pl.DataFrame(columns), how="cross")


@pytest.mark.parametrize("form", ["dates", "text", "pandas periods", "pandas dates"])
def test_times_are_a_line_with_a_band(form):
    """Weeks of a year are a line over time with the band of their intervals: all of them."""
    frame = weeks(i=range(50)).with_columns(x=pl.col("i") + 0.5)
    if form == "text":
        frame = frame.with_columns(pl.col("week").cast(pl.String))
    if form.startswith("pandas"):
        frame = frame.to_pandas()
        frame["week"] = frame.week.dt.to_period("W") if "periods" in form else frame.week.dt.date
    released = dfp.frame(frame).group_by("week").mean("x", (0, 60), epsilon=5, delta=1e-6)
    spec = dfp.plot(released, measured_in="minutes").to_dict()
    marks = [layer["mark"]["type"] for layer in spec["layer"]]
    assert marks == ["area", "line"]
    assert spec["layer"][1]["encoding"]["x"]["type"] == "temporal"
    rows = read_rows(dfp.plot(released))
    assert len(rows) == 53
    assert (rows[0]["place"], rows[-1]["place"]) == ("2024-01-01T00:00:00", "2024-12-30T00:00:00")
    assert not any("Shows" in line for line in spec["title"]["subtitle"])


@pytest.mark.parametrize("name", ["week", "dep_month"])
def test_whole_numbers_of_periods_are_a_line(name):
    """Whole numbers under the name of a period are a line along an axis of numbers."""
    weeks = list(range(1, 13))
    frame = pl.DataFrame({name: weeks * 100, "x": [1.0] * 1200})
    released = frame.dp.group_by(name, keys=weeks).count(epsilon=1)
    spec = dfp.plot(released).to_dict()
    marks = [layer["mark"]["type"] for layer in spec["layer"]]
    assert marks == ["area", "line"]
    assert spec["layer"][1]["encoding"]["x"]["type"] == "quantitative"
    assert sorted(row["place"] for row in read_rows(dfp.plot(released))) == weeks
    other = dfp.plot(released.rename({name: "gate"}), public=True).to_dict()
    assert "rule" in [layer["mark"]["type"] for layer in other["layer"]]


def test_a_comparison_names_what_it_leaves_out():
    """A group with nothing before it is in no chart of differences, and the caption names it."""
    frame = pl.DataFrame({"month": ["2024-01", "2024-02", "2024-03"] * 100})
    released = frame.dp.group_by("month", keys=["2024-01", "2024-02", "2024-03"]).count(epsilon=1)
    chart = dfp.plot(dfp.released(released).diff())
    assert len(read_rows(chart)) == 2
    lines = chart.to_dict()["title"]["subtitle"]
    assert "Nothing to compare with: 2024-01" in lines
    assert not any("Shows" in line for line in lines)


def test_times_by_group_are_a_line_each():
    """A second key is one line each, in a color of its own."""
    frame = weeks(g=["a", "b"] * 50)
    released = frame.dp.group_by("g", "week").count(epsilon=5, delta=1e-6)
    assert {row["line"] for row in read_rows(dfp.plot(released))} == {"a", "b"}


def test_times_sorted_by_value_are_dots():
    """Whoever asks for the largest first gets them."""
    released = weeks(i=range(50)).dp.group_by("week").count(epsilon=5, delta=1e-6)
    chart = dfp.plot(released, sort="value")
    assert read_rows(chart)[0]["value"] == released["count"].max()
    assert "Shows 40 of 53 groups, the largest first." in subtitle(chart)


def test_a_tiny_group_does_not_stretch_the_axis():
    """A group of very noisy mean leaves the axis to others, is drawn at its edge, is counted."""
    sizes = {"a": 4000, "b": 4000, "c": 4000, "tiny": 2}
    frame = pl.DataFrame(
        {"g": [key for key, size in sizes.items() for _ in range(size)], "x": 10.0}
    )
    released = frame.dp.group_by("g", keys=list(sizes)).mean("x", (0, 60), epsilon=0.5)
    chart = dfp.plot(released)
    low, high = chart.to_dict()["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert high - low < 2
    assert "Beyond the axis, because the noise is far larger: tiny." in subtitle(chart)
    assert len(read_rows(chart)) == 4


def test_what_is_compared_stands_in_the_title():
    """A chart of compared answers is called what they are: no count, but its change."""
    release = pl.DataFrame({"month": [1, 2] * 500}).dp.group_by("month", keys=[1, 2]).count()
    title = dfp.plot(dfp.released(release).change()).to_dict()["title"]["text"]
    assert title == "change of count by month"


def starts_at_zero(chart):
    """Return for each answer on an axis if that starts at 0."""
    axes = [axis for name in "xy" for axis in find(chart.to_dict(), name) if "title" in axis]
    scales = {axis["title"]: axis["scale"] for axis in axes if axis["type"] == "quantitative"}
    return {title: scale["zero"] for title, scale in scales.items() if title != "week"}


def test_axes_of_amounts_start_at_zero():
    """Counts, and sums of what is not negative, are compared from 0: half of it looks like half.

    Other answers and differences of amounts have the axis that shows them best.
    """
    frame = pl.DataFrame({"k": ["a", "b"] * 500, "week": [1, 2, 3, 4] * 250, "x": 2.0})
    groups = frame.dp.group_by("k", keys=["a", "b"])
    sums = {"sum": dfp.sum("x", (0, 3)), "net": dfp.sum("x", (-1, 3))}
    kinds = groups.agg(n=dfp.count(), mean=dfp.mean("x", (0, 3)), u=dfp.nunique("x"), **sums)
    zero = {"n": True, "u": True, "sum": True, "mean": False, "net": False}
    assert starts_at_zero(dfp.plot(kinds)) == zero
    counts = groups.count(epsilon=1)
    lines = frame.dp.group_by("week", keys=[1, 2, 3, 4]).count(epsilon=1)
    table = frame.dp.crosstab("k", "week", keys={"k": ["a", "b"], "week": [1, 2, 3, 4]})
    for released in (counts, lines, frame.dp.value_counts("k", keys=["a", "b"]), table):
        assert starts_at_zero(dfp.plot(released)) == {"count": True}
    assert starts_at_zero(dfp.plot([frame.dp.count(), frame.dp.count("x")])) == {"value": True}
    query = "SELECT k, dp_count(*) AS n, dp_mean(x, 0, 3) AS m FROM t GROUP BY k"
    shown = dfp.plot(dfp.sql(query, t=frame, delta=1e-6))
    assert starts_at_zero(shown) == {"n": True, "m": False}
    assert starts_at_zero(dfp.plot(dfp.released(lines).diff())) == {"difference of count": False}


def test_axes_name_what_is_shown():
    """Compared answers are called so on the axis, with a unit where they still have it."""
    frame = pl.DataFrame({"month": [1, 2] * 500, "x": 1.0})
    means = dfp.released(frame.dp.group_by("month", keys=[1, 2]).mean("x", (0, 2), epsilon=1))
    titles = {
        "difference of x (minutes)": means.diff(1),
        "change of x": means.change(1),
        "ratio of x": means.ratio_to(1),
    }
    for title, compared in titles.items():
        assert axis_titles(dfp.plot(compared, measured_in="minutes")) == {title}
        assert ("minutes" in repr(dfp.show(compared, measured_in="minutes"))) == ("(" in title)


def test_the_legend_of_lines_names_their_keys():
    """Several lines have a legend under the name of the keys that tell them apart."""
    released = weeks(g=["a", "b"] * 50).dp.group_by("g", "week").count(epsilon=5, delta=1e-6)
    colors = [color for color in find(dfp.plot(released).to_dict(), "color") if "field" in color]
    assert {color["title"] for color in colors} == {"g"}
