"""Pages in a real browser: they fit the screen, report no error and load nothing."""

import json
import shutil

import polars as pl
import pytest

import dfprivacy as dfp

webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium: extra `browser`")
from selenium.webdriver.chrome.service import Service  # noqa: E402 after the skip
from selenium.webdriver.common.by import By  # noqa: E402 the same

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium and chromedriver"),
]


@pytest.fixture(scope="module")
def browser():
    """Start a browser without a window, which keeps a log of its console and its network."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Write the report of a ledger with 250 charges, one of them with a hostile note."""
    folder = tmp_path_factory.mktemp("report")
    ledger = dfp.Ledger(folder / "budget.db", epsilon=2000, timeout=60)
    frame = pl.DataFrame({"carrier": ["AA"], "delay": [1.0]})
    for number in range(250):
        note = "<script>document.title = 'taken'</script>" if number == 3 else f"run {number}"
        dataset, epsilon = ("alpha", "beta", "gamma")[number % 3], (number % 7 + 1) / 2
        private = frame.dp(ledger=ledger, dataset=dataset, note=note, epsilon=epsilon)
        if number % 2:
            private.count()
        else:
            private.group_by("carrier", keys=["AA"]).mean("delay", (0, 60))
    return ledger.report(folder / "report.html").as_uri()


def open_page(browser, address, width=1280, height=900):
    """Open a page in a screen of some size, and forget what was logged before."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(address)
    return browser


def list_requests(browser):
    """Return the addresses that were asked for since the page was opened."""
    logged = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return {
        entry["params"]["request"]["url"]
        for entry in logged
        if entry["method"] == "Network.requestWillBeSent"
    }


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits(browser, page, width):
    """Nothing stands out at the side, on a desk or on a telephone."""
    open_page(browser, page, width)
    assert browser.execute_script("return innerWidth") == width
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_loaded_and_nothing_fails(browser, page, width):
    """One file is read, the console stays empty, and a note is no script."""
    open_page(browser, page, width)
    assert {url for url in list_requests(browser) if not url.startswith("data:")} == {page}
    assert browser.get_log("browser") == []
    assert browser.title == "Privacy ledger budget.db"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_saved_chart_is_drawn(browser, tmp_path, width):
    """The HTML of a chart is one file, without an error, as wide as the screen."""
    frame = pl.DataFrame({"g": ["a", "</script><script>document.title = 'taken'</script>"] * 500})
    released = frame.dp.group_by("g").count(delta=1e-6)
    address = dfp.save_plot(dfp.plot(released), tmp_path / "chart.html").as_uri()
    open_page(browser, address, width)
    assert browser.find_elements(By.CSS_SELECTOR, "svg")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert {url for url in list_requests(browser) if url.startswith(("http", "file"))} == {address}
    assert browser.get_log("browser") == []
    assert browser.title == "count by g"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("colors", ["white; color: #111", "#111; color: #ddd"])
def test_a_notebook_shows_charts_and_tables(browser, tmp_path, width, colors):
    """Views in a notebook draw themselves without a request, fit, and take the page's ink."""
    pytest.importorskip("vl_convert")
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 12, 30), "1w", eager=True)
    frame = pl.DataFrame({"week": days}).join(pl.DataFrame({"i": range(50)}), how="cross")
    released = frame.dp.group_by("week").count(delta=1e-6)
    shown = dfp.plot(released)._repr_mimebundle_()["text/html"] + dfp.show(released)._repr_html_()
    page = tmp_path / "notebook.html"
    page.write_text(
        f"<!doctype html><meta name=viewport content='width=device-width'><title>n</title>"
        f"<link rel=icon href='data:,'><body style='background: {colors}'>{shown}"
    )
    open_page(browser, page.as_uri(), width)
    loaded = {url for url in list_requests(browser) if not url.startswith("data:")}
    assert loaded == {page.as_uri()}
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    ink = "return getComputedStyle(arguments[0]).fill"
    title = browser.find_element(By.CSS_SELECTOR, "svg .role-title-text text")
    assert browser.execute_script(ink, title) == browser.execute_script(
        "return getComputedStyle(document.body).color"
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_a_description_fits(browser, tmp_path, width):
    """Its page stands on a desk and on a telephone, and loads nothing."""
    frame = pl.DataFrame({"a_column_with_a_long_name": [1.0] * 900, "city": ["Rome"] * 900})
    description = frame.dp.describe(epsilon=100, delta=1e-6)
    address = dfp.show(description).save(tmp_path / "described.html").as_uri()
    open_page(browser, address, width)
    assert {url for url in list_requests(browser) if not url.startswith("data:")} == {address}
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.get_log("browser") == []
