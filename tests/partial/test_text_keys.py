"""Text without a UTF-8 form as a group key of a file: NULL, each by itself."""

import pandas as pd
import pytest

import dfprivacy as dfp

ODD = "\ud800"
TEXT = pd.StringDtype("python")
WORDS = ["a", "b", "?", ODD]


def category(texts):
    codes = [-1 if text is None else WORDS.index(text) for text in texts]
    dtype = pd.CategoricalDtype(pd.Index(WORDS, dtype=TEXT))
    return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype))


KINDS = {
    "text": lambda texts: pd.Series(texts, dtype=TEXT),
    "categories": category,
}


def groups(path, texts, kind, keys=None):
    frame = pd.DataFrame({"k": KINDS[kind](texts), "u": range(len(texts))})
    for unit in (None, "u"):
        path.unlink(missing_ok=True)
        limits = {} if unit is None else {"unit": unit, "max_rows": 1, "max_groups": 1}
        dfp.statistics(frame, path, dfp.count(), by="k", keys=keys, **limits)
        table = dfp.merge([path], epsilon=1e6, delta=None if keys else 0.01)
        yield dict(zip(*(column.to_pylist() for column in table.columns[:2]), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_one_text_without_utf8_fails_no_file(kind, tmp_path):
    """One more row moves no group but that of NULL; every file is written."""
    texts = ["a", "b", "?", None] * 50
    path = tmp_path / "x.parquet"
    usual = {"a": 50, "b": 50, "?": 50, None: 50}
    assert [*groups(path, texts, kind)] == [usual] * 2
    assert [*groups(path, [*texts, ODD], kind)] == [usual | {None: 51}] * 2
    public_keys = ["a", "c"]
    assert [*groups(path, [*texts, ODD], kind, public_keys)] == [{"a": 50, "c": 0}] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_frame_is_left_as_it_is(kind, tmp_path):
    """The caller's frame holds its text afterwards."""
    frame = pd.DataFrame({"k": KINDS[kind](["a", ODD])})
    dfp.statistics(frame, tmp_path / "x.parquet", dfp.count(), by="k")
    assert frame["k"].tolist() == ["a", ODD]


def test_a_unit_without_utf8_that_is_a_key_too_has_no_rows(tmp_path):
    """A column that is unit and key has neither where its text can't be kept."""
    frame = pd.DataFrame({"k": KINDS["text"](["a"] * 30 + [ODD] * 20 + ["?"])})
    path, keys = tmp_path / "x", ["?", "a", None]
    dfp.statistics(frame, path, dfp.count(), by="k", keys=keys, unit="k", max_rows=40)
    assert dfp.merge([path], epsilon=1e6).column(1).to_pylist() == [1, 30, 0]
