"""Reports add up to the same whatever their order, files and format, and forged ones stay out."""

import itertools
import json
from functools import reduce
from operator import add

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp

VALUES = np.random.default_rng(5).normal(10.0, 2.0, 3000)


@pytest.fixture(params=[{"sigma": 2.0}, {"sigma_bounds": (1, 4)}], ids=["sides", "distances"])
def protocol(request):
    """Plan one round, so that all parts report."""
    return dfp.local.gaussian_mean(users=3000, epsilon=2, limit=64, rounds=1, **request.param)


@pytest.fixture
def reports(protocol):
    """Return the reports of all users."""
    return protocol.reports(VALUES)


def same_sums(first, second):
    """Check whether two aggregates have added up the same."""
    return all(
        np.array_equal(a.reports, b.reports) and np.allclose(a.sums, b.sums, rtol=1e-12)
        for a, b in zip(first.counts, second.counts, strict=True)
    )


def are_equal(first, second):
    """Check whether two aggregates agree on everything but the order of users."""
    return (
        first.rejected == second.rejected
        and first.reports == second.reports
        and same_sums(first, second)
    )


def test_every_frame_and_file_gives_the_same(protocol, reports, engine):
    """The sums do not depend on which frame, relation, reader or file holds the reports."""
    assert are_equal(protocol.aggregate(engine(reports)), protocol.aggregate(reports))


def test_order_and_files_do_not_matter(protocol, reports):
    """Any order and any split, merged in any order, gives the same."""
    aggregate = protocol.aggregate(reports)
    order = np.random.default_rng(1).permutation(len(reports))
    assert are_equal(protocol.aggregate(reports.take(order)), aggregate)
    pieces = [reports[:500], reports[500:501], reports[501:501], reports[501:]]
    for chosen in itertools.permutations(pieces):
        assert are_equal(protocol.aggregate(*chosen), aggregate)
        assert are_equal(reduce(add, map(protocol.aggregate, chosen)), aggregate)


def test_a_report_that_arrives_twice_counts_once(protocol, reports):
    """Equal reports of a user, in one file or in several, count once."""
    aggregate = protocol.aggregate(reports)
    assert are_equal(protocol.aggregate(reports, reports[:700]), aggregate)
    assert are_equal(aggregate + aggregate, aggregate)


def with_value(table, rows, change):
    """Return a table with the values of some rows changed."""
    values = table.column("value").to_numpy().copy()
    values[rows] = change(values[rows])
    return table.set_column(3, "value", pa.array(values))


def test_a_user_with_two_different_reports_counts_not_at_all(protocol, reports):
    """Whoever reports twice, with different reports, is barred: in any order, for good."""
    rows = np.arange(0, 90, 3)
    second = with_value(reports.take(rows), slice(None), lambda v: v ^ 1)
    honest = reports.take(np.setdiff1d(np.arange(3000), rows))
    expected = protocol.aggregate(honest)
    for tables in itertools.permutations([reports[:50], reports[50:], second]):
        aggregate = protocol.aggregate(*tables)
        assert aggregate.rejected["repeated"] == 30
        assert aggregate.reports == expected.reports
        step = reduce(add, map(protocol.aggregate, tables))
        assert are_equal(step, aggregate)
        assert are_equal(step + protocol.aggregate(reports), aggregate)


def test_forged_reports_are_counted_and_left_out(protocol, reports):
    """A row that is no report of this round is rejected, by reason, and changes no sum."""
    other = dfp.local.gaussian_mean(users=3000, epsilon=2, sigma=2.0, limit=64)
    fields = {name: reports.column(name).to_numpy() for name in reports.column_names}

    def forge(**changed):
        return pa.table({**{name: values[:7] for name, values in fields.items()}, **changed})

    bad = {
        "protocol": [other.reports(VALUES)[:7], forge(protocol=np.zeros(7, np.int64))],
        "user": [forge(user=np.full(7, 3000)), forge(user=np.full(7, -1))],
        "group": [
            forge(group=fields["group"][:7] + 1),
            forge(group=np.full(7, -1)),
            forge(user=(fields["user"][:7] + 1) % 3000, group=np.full(7, 10**6)),
        ],
        "value": [forge(value=np.full(7, 2**60)), forge(value=np.full(7, -(2**60)))],
        "malformed": [forge(value=pa.nulls(7, pa.int64())), forge(user=pa.nulls(7, pa.int64()))],
    }
    for reason, tables in bad.items():
        for table in tables:
            aggregate = protocol.aggregate(reports, table)
            assert aggregate.rejected[reason] == 7
            assert sum(aggregate.rejected.values()) == 7
            assert aggregate.reports == len(reports)
            assert same_sums(aggregate, protocol.aggregate(reports))


def test_a_forger_moves_a_sum_by_a_known_amount(protocol, reports):
    """The largest report that counts lies within 60 scales beyond the grid."""
    rows = np.argsort(reports.column("group").to_numpy())[-9:]
    for value in (2**40, -(2**40), 2**62):
        aggregate = protocol.aggregate(with_value(reports, rows, lambda _, v=value: v))
        assert aggregate.rejected["value"] == 9


def test_tables_without_the_columns_are_refused(protocol, reports):
    """Missing columns and columns of other types are typed errors."""
    with pytest.raises(dfp.MissingColumnError, match="group"):
        protocol.aggregate(reports.drop(["group"]))
    text = reports.set_column(3, "value", reports.column("value").cast(pa.string()))
    with pytest.raises(dfp.UnsupportedDtypeError, match="value"):
        protocol.aggregate(text)
    with pytest.raises(dfp.UnsupportedDtypeError, match="user"):
        protocol.aggregate(pl.DataFrame(reports).with_columns(pl.col("user").cast(pl.Float64)))
    with pytest.raises(dfp.errors.UnsupportedFrameError):
        protocol.aggregate(17)


def test_an_aggregate_survives_a_file(protocol, reports, tmp_path):
    """Written to Parquet and read back an aggregate is the same, and merges as before."""
    clash = with_value(reports[:5], slice(None), lambda v: v ^ 1)
    aggregate = protocol.aggregate(reports, clash)
    pa.parquet.write_table(aggregate.to_arrow(), tmp_path / "sums.parquet")
    back = dfp.local.Aggregate.from_arrow(pa.parquet.read_table(tmp_path / "sums.parquet"))
    assert are_equal(back, aggregate)
    assert are_equal(back + protocol.aggregate(reports), aggregate)
    with pytest.raises(dfp.errors.InvalidProtocolError, match="no aggregate"):
        dfp.local.Aggregate.from_arrow(reports)


def test_a_changed_aggregate_is_refused(protocol, reports):
    """A table whose rows are no reports of different users, or which lost a part, is not read."""
    arrow_table = protocol.aggregate(reports).to_arrow()
    metadata, other = arrow_table.schema.metadata, pa.array([99] * len(arrow_table))
    changed = {
        "twice": pa.concat_tables([arrow_table, arrow_table]),
        "groups": arrow_table.set_column(1, "group", other),
        "users": arrow_table.set_column(0, "user", pa.array([5000] * len(arrow_table))),
        "missing": arrow_table.set_column(2, "value", pa.nulls(len(arrow_table), pa.int64())),
        "columns": arrow_table.select(["user", "value"]),
    }
    for name in metadata:
        left = {key: text for key, text in metadata.items() if key != name}
        changed[f"without {name}"] = arrow_table.replace_schema_metadata(left)
        for text in (b"{", b"3", b'["a"]'):
            changed[f"{text} as {name}"] = arrow_table.replace_schema_metadata(
                {**metadata, name: text}
            )
    barred = str(arrow_table["user"][:1].to_pylist()).encode()
    changed["barred"] = arrow_table.replace_schema_metadata(
        {**metadata, b"dfprivacy.barred": barred}
    )
    changed["half a user"] = arrow_table.replace_schema_metadata(
        {**metadata, b"dfprivacy.barred": b"[5.5]"}
    )
    for count in (-1, "1", 0.5, None):
        counts = dict.fromkeys(("malformed", "protocol", "user", "group", "value"), count)
        changed[f"{count} rejected"] = arrow_table.replace_schema_metadata(
            {**metadata, b"dfprivacy.rejected": json.dumps(counts)}
        )
    for table in changed.values():
        with pytest.raises(dfp.errors.InvalidProtocolError):
            dfp.local.Aggregate.from_arrow(table)


def test_aggregates_of_other_rounds_do_not_add_up(protocol, reports):
    """Two protocols' aggregates are never mixed."""
    other = dfp.local.gaussian_mean(users=3000, epsilon=1, sigma=2.0, limit=64)
    with pytest.raises(dfp.errors.InvalidProtocolError, match="another protocol"):
        protocol.aggregate(reports) + other.aggregate()


def test_nobody_at_all_is_an_answer_too(protocol):
    """Without reports the interval is all of the range, and nothing fails."""
    estimate = protocol.aggregate().estimate()
    assert (estimate.low, estimate.high, estimate.reports) == (-64, 64, 0)
    two = dfp.local.gaussian_mean(users=3000, epsilon=2, limit=64, sigma=2.0)
    assert two.aggregate().next_round().aggregate().estimate().high == 64
