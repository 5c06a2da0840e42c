"""No page loads or runs anything, whatever texts it holds."""

import re

import polars as pl
import pytest

import dfprivacy as dfp

SCRIPT = "</td><script>taken</script>"


@pytest.fixture(params=["chart", "table", "ledger", "description"])
def page(request, tmp_path, means):
    """Return a page of each kind, with hostile names and values."""
    path = tmp_path / "page.html"
    if request.param == "chart":
        return dfp.save_plot(dfp.plot(means), path).read_text(encoding="utf-8")
    if request.param == "table":
        return dfp.show(means).to_html()
    if request.param == "ledger":
        ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=2)
        pl.DataFrame({SCRIPT: [1]}).dp(ledger=ledger, dataset=SCRIPT, note=SCRIPT).count(SCRIPT)
        return ledger.report(path).read_text(encoding="utf-8")
    frame = pl.DataFrame({"<b>k</b>": [1.0] * 4000, "city": ["Rome", SCRIPT] * 2000})
    return dfp.show(frame.dp.describe(epsilon=1e6, delta=1e-6)).save(path).read_text("utf-8")


def test_a_page_loads_nothing_and_runs_nothing(page, read_html):
    """There is no script and no address, and a policy that forbids a browser both."""
    read = read_html(page)
    assert "script" not in read.tags
    assert "<b>k" not in page
    loaded = page.replace("http://www.w3.org/", "")  # the name of SVG, which nothing loads
    assert not re.search(r"https?:|//[a-z]|url\((?!#)|@import|connect-src|script-src", loaded)
    assert not [value for name, value in read.attributes if name == "src"]
    assert {value for name, value in read.attributes if name == "href"} <= {"data:,"}
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    (policy,) = [v for n, v in read.attributes if n == "content" and "default-src" in v]
    assert policy.startswith("default-src 'none'; ")
