"""Files that do not go together, and questions that do not add up, are refused by name."""

import os
import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from tests.partial.secret_files import ASKED, FRAME, lab_merge, require_refusal, rewritten

UNIT = {"unit": "u", "max_rows": 1, "max_groups": 1}


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    ("usual", "other", "words"),
    [
        ({}, {"m": dfp.mean("x", (0, 4000))}, "questions, or their bounds"),
        ({}, {"m": dfp.sum("x", (0, 5000))}, "questions, or their bounds"),
        ({}, {"by": "u"}, "group columns"),
        ({}, {"keys": ["a"]}, "kind of keys"),
        ({}, UNIT, "unit, or its limits"),
        (UNIT, {**UNIT, "max_rows": 2}, "unit, or its limits"),
        ({"keys": ["a", "b"]}, {"keys": ["a", "c"]}, "public keys"),
    ],
)
def test_files_that_differ_are_named_with_the_term(make_file, usual, other, words):
    """Files made with other arguments are not added up: the message names file and term."""
    paths = [make_file(name, **usual) for name in ("one.parquet", "two.parquet")]
    paths.append(make_file("three.parquet", **other))
    require_refusal(paths, "three.parquet", "one.parquet", words)


def test_no_file_counts_twice(make_file, tmp_path):
    """A file that is named twice is refused, and so is its copy under another name."""
    path = make_file("one.parquet")
    shutil.copy(path, tmp_path / "copy.parquet")
    os.link(path, tmp_path / "link.parquet")
    for other in (path, tmp_path / "copy.parquet", tmp_path / "link.parquet"):
        require_refusal([path, other], "is named twice, or another of the files holds its rows")


@pytest.mark.parametrize("options", [{}, {"keys": ["a", "b"]}])
def test_a_file_that_is_swapped_after_its_check_is_refused(
    make_file, tmp_path, monkeypatch, options
):
    """The file that is added up is the one that was compared with the others."""
    first, second = make_file("one.parquet", **options), make_file("two.parquet", **options)
    opened, read = [], pq.ParquetFile

    def swapping(source, *arguments, **named):
        opened.append(source)
        if len(opened) == 3:  # both were compared
            shutil.copy(first, tmp_path / "copy.parquet")
            (tmp_path / "copy.parquet").replace(second)
        return read(source, *arguments, **named)

    monkeypatch.setattr(pq, "ParquetFile", swapping)
    require_refusal([first, second], "two.parquet", "replaced")


def test_the_limit_of_rows_holds_over_all_files(make_file, tmp_path):
    """Rows of a group below 2**33 in each file, and not in all: refused, as in one pass."""
    arguments = {"m": dfp.mean("x", (0, 1)), "by": "g", "v": ASKED["m"], "q": ASKED["m"]}
    paths = [make_file(f"{k}.parquet", **arguments) for k in range(2)]

    def full(index, columns):
        if index == 0:
            rows = np.full_like(columns["group"], 2**33 - 1)
            columns.update({"sum_0_0": rows, "sum_0_1": rows * 2**29})

    filled = [rewritten(p, tmp_path / f"full{k}.parquet", change=full) for k, p in enumerate(paths)]
    assert lab_merge(filled[0]).num_rows
    with pytest.raises(dfp.errors.TooManyRowsError) as caught:
        dfp.merge(filled, delta=1e-3)
    assert str(2**34) not in str(caught.value)


ARGUMENTS = [
    ({"epsilon": 1}, dfp.errors.InvalidQuestionError, "dfp.merge(paths, epsilon=1)"),
    ({"rho": 1}, dfp.errors.InvalidQuestionError, "rho was given"),
    ({"bounds": (0, 1)}, dfp.errors.InvalidQuestionError, "mapping"),
    ({"by": ["g", "g"]}, dfp.errors.InvalidQuestionError, "different columns"),
    ({"by": "g", "unit": "u", "max_rows": 1}, dfp.errors.InvalidUnitError, "max_groups"),
    ({"unit": "u"}, dfp.errors.InvalidUnitError, "max_rows"),
    ({"max_rows": 3}, dfp.errors.InvalidUnitError, "no unit was named"),
    ({"by": "nowhere"}, dfp.MissingColumnError, "nowhere"),
    ({"low": dfp.count(), "by": "low"}, dfp.errors.InvalidQuestionError, "low"),
]


@pytest.mark.parametrize(("arguments", "kind", "words"), ARGUMENTS)
def test_arguments_are_checked(tmp_path, arguments, kind, words):
    """A question that can't be asked is refused as in a release, and no file is made."""
    with pytest.raises(kind) as caught:
        dfp.statistics(FRAME, tmp_path / "x.parquet", dfp.mean("x", (0, 1)), **arguments)
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_question_is_refused(tmp_path):
    """Questions are named by what makes them, one at least."""
    with pytest.raises(dfp.errors.InvalidQuestionError, match="agg takes questions"):
        dfp.statistics(FRAME, tmp_path / "x.parquet", "x")
    with pytest.raises(dfp.errors.InvalidQuestionError, match="no question"):
        dfp.statistics(FRAME, tmp_path / "x.parquet")


def test_labels_are_text_or_whole_numbers(tmp_path):
    """Other labels have no name that every frame could have."""
    frame = pd.DataFrame({1: [1.0, 2.0], (1, 2): [1.0, 2.0]})
    path = dfp.statistics(frame, tmp_path / "one.parquet", dfp.count(1))
    assert list(dfp.merge(path)) == ["1"]
    with pytest.raises(dfp.errors.StatisticsFileError, match="a tuple"):
        dfp.statistics(frame, tmp_path / "two.parquet", dfp.count((1, 2)))
