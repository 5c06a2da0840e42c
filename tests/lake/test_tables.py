"""Delta and Iceberg tables are read at one snapshot, and their files never as plain Parquet."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from tests.command_line import command
from tests.lake.conftest import EXACT, VISITS


def count(frame, **terms):
    return float(dfp.frame(frame).count(epsilon=EXACT, **terms))


def test_deleted_rows_do_not_count(folder):
    """A path is read at the newest snapshot by every entry point."""
    assert count(folder) == count(str(folder)) == 40
    by_city = dfp.frame(folder).group_by("city", keys=["Oslo", "Rome"])
    assert by_city.count(epsilon=EXACT)["count"].to_pylist() == [20, 20]
    assert float(dfp.frame(folder).mean("x", (0, 4), epsilon=EXACT)) == pytest.approx(2)
    assert float(dfp.frame(folder).median("x", epsilon=EXACT)) == pytest.approx(2)
    secret = dfp.frame(folder).group_by("city").median("x", epsilon=EXACT, delta=0.1)
    assert secret["city"].to_pylist() == ["Oslo", "Rome"]
    users = dfp.frame(folder)(unit="user", max_rows=1).count(epsilon=EXACT)
    assert float(users) == 40


def test_sql_reads_the_snapshot(folder):
    """dfp.sql and dfp.connect count the rows of the newest snapshot, with conditions too."""
    query = "SELECT dp_count(*) AS n FROM visits WHERE city = 'Rome'"
    assert dfp.sql(query, visits=folder, epsilon=EXACT)["n"].to_pylist() == [20]
    with dfp.connect(folder, epsilon=EXACT) as connection:
        assert connection.cursor().execute(query).fetchall() == [(20,)]


def test_the_command_line_reads_the_snapshot(folder, tmp_path):
    """Commands count the rows of the newest snapshot, those with --where and --keys too."""
    output = tmp_path / "n.json"
    common = ["--epsilon", str(EXACT), "--output", str(output)]
    assert command("count", str(folder), "--where", "city = 'Rome'", *common).exit_code == 0
    assert "20" in output.read_text()
    words = ["count", str(folder), "--by", "city", "--keys", "Rome", *common]
    assert command(*words).exit_code == 0
    assert json.loads(output.read_text())[0]["count"] == 20


def test_descriptions_and_files_of_statistics_read_the_snapshot(folder, tmp_path):
    """`describe`, `dfp.statistics` and `dfp.suggest_limits` read the newest snapshot."""
    rows = dfp.frame(folder).describe(["x"], epsilon=EXACT)
    assert 40 in {round(value) for value in rows["count"].to_pylist() if value}
    path = dfp.statistics(folder, tmp_path / "n.parquet", n=dfp.count())
    assert float(dfp.merge([path], epsilon=EXACT)["n"]) == 40
    assert dfp.suggest_limits(folder, unit="user", epsilon=EXACT).max_rows == 1


def test_yaml_jobs_read_the_snapshot(folder, tmp_path):
    """The folder of a table is a source of `dfprivacy run`, alone or as a table of a query."""
    ledger = str(tmp_path / "b.db")
    assert command("ledger", "create", ledger, "--epsilon", "1e9", "--remember").exit_code == 0
    description = {
        "budget": {"ledger": "b.db", "dataset": "visits", "version": "1", "epsilon": EXACT},
        "releases": {
            "rows": {
                "source": {"folder": str(folder)},
                "where": "city = 'Rome'",
                "questions": {"n": {"count": "*"}},
                "outputs": ["rows.csv"],
            },
            "query": {
                "source": {"query": "SELECT dp_count(*) AS n FROM v", "tables": {"v": str(folder)}},
                "outputs": ["query.csv"],
            },
        },
    }
    (tmp_path / "release.yml").write_text(json.dumps(description))
    result = command("run", str(tmp_path / "release.yml"))
    assert result.exit_code == 0, result.output
    assert re.findall(r"\b20\b", (tmp_path / "rows.csv").read_text())
    assert (tmp_path / "query.csv").read_text().split() == ["n", "40"]


def test_a_frame_keeps_its_snapshot(folder, append):
    """A frame that was opened reads the same rows after others were added to the table."""
    frame = dfp.frame(folder)
    append()
    assert float(frame.count(epsilon=EXACT)) == 40
    assert count(folder) == 90


def test_the_version_of_a_release_is_the_snapshot(folder, append, tmp_path):
    """A ledger that remembers repeats an answer about one snapshot, and no answer about another."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=100, remember=True)
    terms = {"ledger": ledger, "dataset": "visits"}
    first = float(dfp.frame(folder)(**terms).count(epsilon=1))
    assert float(dfp.frame(folder)(**terms).count(epsilon=1)) == first
    with dfp.spending(ledger, dataset="visits"):
        assert float(dfp.frame(folder).count(epsilon=1)) == first
        query = "SELECT dp_count(*) AS n FROM v"
        by_query = dfp.sql(query, v=folder)["n"].to_pylist()
        assert dfp.sql(query, v=folder)["n"].to_pylist() == by_query
    assert ledger.remaining("visits").epsilon == 98
    append()
    dfp.frame(folder)(**terms).count(epsilon=1)
    assert ledger.remaining("visits").epsilon == 97
    dfp.frame(folder)(**terms, version="mine").count(epsilon=1)
    assert ledger.remaining("visits").epsilon == 96


def test_a_condition_is_no_part_of_the_version(folder, tmp_path):
    """Rows of a snapshot under two conditions are two frames, whose answers are not mixed up."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1e9, remember=True)
    with dfp.spending(ledger, dataset="visits"):
        for city, rows in (("Rome", 20), ("Oslo", 20), ("Bonn", 0)):
            query = f"SELECT dp_count(*) AS n FROM visits WHERE city = '{city}'"
            answer = dfp.sql(query, visits=folder, epsilon=EXACT)
            assert answer["n"].to_pylist() == [rows]


def test_a_ledger_that_forgets_takes_no_version(folder, tmp_path):
    """A snapshot is charged to a ledger that remembers nothing, as any frame is."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=10)
    frame = dfp.frame(folder)(ledger=ledger, dataset="visits")
    frame.count(epsilon=1)
    frame.count(epsilon=1)
    assert ledger.remaining("visits").epsilon == 8


def test_a_table_made_again_has_another_version(tmp_path):
    """A table that was dropped and created again is another table at the same number."""
    deltalake = pytest.importorskip("deltalake")
    versions = set()
    for name in ("first", "second"):
        deltalake.write_deltalake(tmp_path / name, VISITS)
        (tmp_path / name).rename(tmp_path / "visits")
        frame = dfp.frame(tmp_path / "visits")
        versions.add(frame._terms.snapshot)
        (tmp_path / "visits").rename(tmp_path / f"{name} before")
    assert len(versions) == 2


@pytest.mark.parametrize("named", ["{folder}/**/*.parquet", "{parent}/*.parquet", "{file}"])
def test_no_file_of_a_table_is_read_by_itself(folder, named):
    """A file or a glob inside of a table is refused by every entry point."""
    file = next(folder.rglob("*.parquet"))
    path = named.format(folder=folder, parent=file.parent, file=file)
    query = "SELECT dp_count(*) FROM v"
    for ask in (
        lambda: dfp.frame(path).count(),
        lambda: dfp.sql(query, v=path),
        lambda: dfp.statistics(path, folder.parent / "n.parquet", dfp.count()),
        lambda: dfp.frame(path).describe(["x"]),
    ):
        with pytest.raises(
            dfp.errors.UnsupportedFrameError, match=r"is the folder of a (Delta|Iceberg)"
        ):
            ask()
    assert command("count", path).exit_code != 0


def test_a_folder_of_tables_is_no_folder_of_files(folder):
    """A folder with tables below or above it is refused, and so are links to a table's files."""
    link = folder.parent / "links"
    link.mkdir()
    file = next(folder.rglob("*.parquet"))
    (link / "a.parquet").symlink_to(file)
    (folder / "below").mkdir()
    (folder / "below" / "a.parquet").write_bytes(file.read_bytes())
    for path in (folder.parent, link, link / "a.parquet", folder / "below"):
        with pytest.raises(dfp.errors.UnsupportedFrameError, match="is the folder of a"):
            dfp.frame(path).count()


def test_partitions_of_a_delta_table_have_their_declared_types(tmp_path):
    """Keys of directories have the types of the table's schema, and NULL is a key."""
    deltalake = pytest.importorskip("deltalake")
    keys = ["a", "é=1", "a%20b", None]
    table = pa.table({"k": keys * 5, "n": [1, 2, 3, None] * 5, "x": [1.0] * 20})
    deltalake.write_deltalake(tmp_path / "t", table, partition_by=["k", "n"])
    frame = dfp.frame(tmp_path / "t")
    by_text = frame.group_by("k", keys=keys).count(epsilon=EXACT)
    assert by_text["count"].to_pylist() == [5] * 4
    by_number = frame.group_by("n", keys=[1, 2, 3, None]).count(epsilon=EXACT)
    assert by_number["count"].to_pylist() == [5] * 4


def test_partitions_of_other_types_are_refused(tmp_path):
    """Types of which a directory's name may hold no readable value are refused by the schema."""
    deltalake = pytest.importorskip("deltalake")
    table = pa.table({"k": [b"a"] * 5, "x": [1.0] * 5})
    deltalake.write_deltalake(tmp_path / "t", table, partition_by=["k"])
    with pytest.raises(
        dfp.errors.UnsupportedFrameError, match="partitioned by 'k', which is declared"
    ):
        dfp.frame(tmp_path / "t")


def test_no_rows_and_one_row(tmp_path, catalog):
    """Tables without a row, or without a snapshot, answer as those with one row do."""
    deltalake = pytest.importorskip("deltalake")
    for rows in (0, 1):
        deltalake.write_deltalake(tmp_path / str(rows), VISITS.slice(0, rows))
        assert count(tmp_path / str(rows)) == rows
    catalog.create_table("shop.none", VISITS.schema)
    assert count(tmp_path / "shop" / "none") == 0


_DELETED = bytes.fromhex(
    "d1d33964"  # the format of an array of bitmaps
    "0100000000000000"  # their number
    "00000000"  # the high bits of the first
    "3a30000001000000"  # the format of a bitmap of one container
    "00000900"  # its high bits, and the number of its values less 1
    "10000000" + "".join(f"{position:02x}00" for position in range(10))  # where they begin
)
"""The positions 0 to 9 as the Delta protocol writes them."""
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data):
    """Return bytes as the text in which Delta logs hold a deletion vector."""
    words = [int.from_bytes(data[i : i + 4], "big") for i in range(0, len(data), 4)]
    return "".join(_Z85[word // 85**power % 85] for word in words for power in range(4, -1, -1))


def need_feature(folder, feature, *actions):
    """Commit to a Delta table that its readers need a feature, and some actions beside."""
    protocol = {
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": [feature], "writerFeatures": [feature],
    }  # fmt: skip
    lines = map(json.dumps, [{"protocol": protocol}, *actions])
    (folder / "_delta_log" / f"{1:020}.json").write_text("\n".join(lines))


def test_deletion_vectors_of_delta_are_respected(tmp_path):
    """A row that a deletion vector marks does not count."""
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "t"
    deltalake.write_deltalake(folder, VISITS)
    log = folder / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    (add,) = [action["add"] for action in actions if "add" in action]
    data = _DELETED + bytes(-len(_DELETED) % 4)
    vector = {"storageType": "i", "pathOrInlineDv": z85(data), "cardinality": 10}
    need_feature(
        folder,
        "deletionVectors",
        {"remove": {"path": add["path"], "deletionTimestamp": 0, "dataChange": True}},
        {"add": {**add, "deletionVector": {**vector, "sizeInBytes": len(_DELETED)}}},
    )
    assert count(folder) == 40
    assert float(dfp.frame(folder).min("user", epsilon=1e9)) >= 9


def test_unread_features_of_delta_are_refused(tmp_path):
    """A table that needs a feature of its reader that polars lacks is refused by that name."""
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "t", VISITS)
    need_feature(tmp_path / "t", "columnMapping")
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="columnMapping"):
        dfp.frame(tmp_path / "t")


def delete_by_file(table, monkeypatch, *, equality):
    """Commit a delete file to an Iceberg table: of positions, or of equal values."""
    manifest = pytest.importorskip("pyiceberg.manifest")
    record = pytest.importorskip("pyiceberg.typedef").Record()
    (task,) = table.scan().plan_files()
    location = f"{table.location()}/data/deletes.parquet"
    rows = {"file_path": [task.file.file_path] * 10, "pos": list(range(10))}
    ids = {"file_path": "2147483546", "pos": "2147483545"}
    if equality:
        rows, ids = {"user": list(range(10))}, {"user": "3"}
    deletes = pa.table(rows)
    fields = [
        field.with_metadata({"PARQUET:field_id": ids[field.name]}) for field in deletes.schema
    ]
    path = location.removeprefix("file://")
    pq.write_table(deletes.cast(pa.schema(fields)), path)
    kinds = manifest.DataFileContent
    file = manifest.DataFile.from_args(
        content=kinds.EQUALITY_DELETES if equality else kinds.POSITION_DELETES,
        file_path=location, file_format=manifest.FileFormat.PARQUET, partition=record,
        record_count=10, file_size_in_bytes=1000, column_sizes={}, value_counts={},
        null_value_counts={}, nan_value_counts={}, lower_bounds={}, upper_bounds={},
        equality_ids=[3] if equality else None,
    )  # fmt: skip
    file.spec_id = table.spec().spec_id
    content = manifest.ManifestContent.DELETES
    monkeypatch.setattr(manifest.ManifestWriterV2, "content", lambda _: content)
    monkeypatch.setattr(
        manifest.ManifestWriterV2, "_meta",
        property(lambda self: {**manifest.ManifestWriter._meta.fget(self), "content": "deletes"}),
    )  # fmt: skip
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        update.append_data_file(file)
    monkeypatch.undo()


def test_position_deletes_of_iceberg_are_respected(tmp_path, catalog, monkeypatch):
    """A row that a delete file names by its position does not count."""
    table = catalog.create_table("shop.visits", VISITS.schema)
    table.append(VISITS)
    delete_by_file(table, monkeypatch, equality=False)
    assert count(tmp_path / "shop" / "visits") == 40


def test_equality_deletes_of_iceberg_are_refused(tmp_path, catalog, monkeypatch):
    """A table with delete files of equal values is refused: its readers do not apply them."""
    table = catalog.create_table("shop.visits", VISITS.schema)
    table.append(VISITS)
    delete_by_file(table, monkeypatch, equality=True)
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="equality deletes"):
        dfp.frame(tmp_path / "shop" / "visits")


def test_a_metadata_file_names_its_snapshot(iceberg, catalog):
    """The path of a metadata file is read at its snapshot; of two newest files none is chosen."""
    newest = max((iceberg / "metadata").glob("*.metadata.json"))
    catalog.load_table("shop.visits").append(VISITS)
    assert count(newest) == 40
    assert count(iceberg) == 90
    last = max((iceberg / "metadata").glob("*.metadata.json"))
    (last.parent / f"{last.name[:5]}-other.metadata.json").write_bytes(last.read_bytes())
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="2 newest metadata files"):
        dfp.frame(iceberg)
    (iceberg / "metadata" / "version-hint.text").write_text(str(int(newest.name[:5])))
    assert count(iceberg) == 40


def test_a_broken_log_is_no_folder_of_files(folder):
    """A table whose log can't be read is refused, and not read as plain files."""
    for file in (*folder.glob("_delta_log/*"), *folder.glob("metadata/*.json")):
        file.write_text("{")
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="can't be opened"):
        dfp.frame(folder)
