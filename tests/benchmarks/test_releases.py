"""A part of the recorded releases, made again: `python -m benchmarks.releases --check` has all."""

import itertools

import pytest

from benchmarks.releases import Stream, differences, read_table, record_releases

pytestmark = pytest.mark.slow

TABLE = read_table()


def name_group(name):
    """Return the door of a case, and its setting or statistic."""
    return "/".join(name.split("/")[:2])


# The types of pandas columns depend on its version.
SAMPLE = {
    name: TABLE[name]
    for _, names in itertools.groupby(sorted(TABLE), name_group)
    for name in list(names)[3::12]
    if not name.startswith("pandas")
} | {name: TABLE[name] for name in TABLE if name.startswith(("polars/whole/", "merge/", "limits/"))}


def test_the_same_random_bytes_give_the_same_releases():
    """Releases with replayed random bytes are those that were recorded, to twelve digits."""
    releases = record_releases(SAMPLE)
    assert releases.keys() == SAMPLE.keys()
    assert not differences(releases, SAMPLE)


def test_a_release_that_differs_is_told():
    """One noisy count that is off by one is a difference; so is a case that is missing."""
    old = {"a": {"value": "0x1.8p+1"}, "b": [3]}
    assert not differences(old, old)
    assert len(differences({"a": {"value": "0x1.8000001p+1"}, "b": [4]}, old)) == 2
    assert len(differences({"a": old["a"]}, old)) == 1


def test_bytes_follow_from_the_name(monkeypatch):
    """A stream gives the same bytes however many are taken at a time, others for another name."""
    monkeypatch.setitem(globals(), "__name__", "dfprivacy.test")
    stream, parts = Stream("a"), Stream("a")
    data = stream(10_000)
    assert data == b"".join(parts(size) for size in (1, 4095, 0, 5000, 904))
    assert Stream("b")(10_000) != data
    stream.restart()
    assert stream(10_000) == data
