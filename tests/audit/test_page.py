from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gssc.audit import DuplicateGroup, Findings, Ranking, write_page
from gssc.audit.details import column_scale
from gssc.audit.page import histogram, page, page_data
from gssc.graph import Graph

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def findings() -> Findings:
    """Five nodes, four edges, two labels, and names that look like HTML."""
    graph = Graph(
        np.array([[1, 0], [1, 0], [0, 2], [0, 1], [0, 0]], dtype=np.float32),
        [[0, 0, 1, 2], [1, 2, 2, 3]],
        labels=[EVIL, EVIL, "b", "b", "b"],
        train=[0, 2],
        name=EVIL,
        node_ids=["a", EVIL, "c", "d10", "d9"],
        feature_names=[EVIL, "second"],
    )
    edges = Ranking.of(
        graph.edges.T,
        np.array([0.1, 0.9, 0.8, 0.2]),
        {"features": np.array([1.0, 0, 0.1, 0.9]), "keep_probability": np.array([0.5, np.nan, 0.25, 0.75])},
    )
    opinions = {"label": np.array([0, 1]), "suggested": np.array([1, 0]), "held_out": np.array([0.3, 0.9])}
    labels = Ranking.of(np.array([[0], [2]]), np.array([0.7, 0.3]), opinions)
    return Findings(
        graph=graph,
        class_names=graph.class_names or (),
        edges=edges,
        labels=labels,
        predicted=np.array([0, 0, 1, 1, 1]),
        duplicates=[DuplicateGroup(np.array([0, 1]), identical=True, conflicting=False, crosses_split=False)],
        isolated=np.array([4]),
        featureless=np.array([4]),
        notes=[EVIL],
    )


class Elements(HTMLParser):
    """Every tag and link of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]


def test_names_of_users_never_become_html(findings: Findings) -> None:
    text = page(findings)
    assert EVIL not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert Elements(text).tags.count("script") == 2, "the data and the code of the page"


def test_the_page_needs_nothing_from_anywhere(findings: Findings) -> None:
    text = page(findings)
    assert [link for link in Elements(text).links if not link.startswith("#")] == ["data:,"]
    assert not re.search(r"https?://|@import|url\(", text)


def test_the_worst_come_first_and_the_rest_is_counted(findings: Findings) -> None:
    text = page(findings, top=2)
    table = text.split('id="labels"')[0].split("<tbody>")[1]
    assert re.findall(r'class="bars score" data-value="([^"]+)"', table) == ["0.9", "0.8"]
    assert "2 more: gssc audit RUN --out audit.csv writes all" in text
    assert 'data-value="nan" title="trust in training: unknown"' in text


def test_details_of_an_edge(findings: Findings) -> None:
    data = page_data(findings, 4)
    worst = data["edges"][0]  # from a to c, which share the neighbour with the evil name
    assert [node["name"] for node in worst["nodes"]] == ["a", "c"]
    assert worst["nodes"][0] == {"name": "a", "edges": 2, "part": "training", "label": EVIL, "predicted": 0}
    assert worst["common"] == {"shown": [[EVIL, 0]], "total": 1}
    assert worst["around"] == [{"shown": [], "total": 0}, {"shown": [["d10", 1]], "total": 1}]
    assert [name for name, *_ in worst["features"]] == [EVIL, "second"]
    assert worst["features"][1][2] == (2.0, 1.75)  # (2 - 0.6) / 0.8


def test_labels_outside_training_and_validation_are_not_shown(findings: Findings) -> None:
    nodes = [node for edge in page_data(findings, 4)["edges"] for node in edge["nodes"]]
    assert {node["name"] for node in nodes if "label" in node} == {"a", "c"}


def test_findings_without_anything(findings: Findings) -> None:
    none = Ranking.of(np.empty((0, 1), dtype=np.int64), np.empty(0), {})
    bare = Findings(findings.graph, findings.class_names, findings.edges, none, None, [], np.empty(0), np.empty(0))
    assert page(bare).count("<p>None.</p>") == 2


def test_the_histogram_counts_every_score() -> None:
    drawn = histogram(np.array([0, 0.04, 0.5, 1, 1]), "edges")
    assert [int(count) for count in re.findall(r"<title>(\d+) edges", drawn)] == [2, *[0] * 9, 1, *[0] * 8, 2]


def test_columns_are_scaled_alike_whether_sparse_or_dense(findings: Findings) -> None:
    features = np.asarray(findings.graph.features)
    for given in (features, sp.csr_matrix(features)):
        mean, spread = column_scale(given)
        np.testing.assert_allclose(mean, [0.4, 0.6])
        np.testing.assert_allclose(spread, [np.sqrt(0.24), 0.8])


# In a real browser -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if not (chromium and driver):
        pytest.skip("chromium and chromedriver are not installed")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield browser
    browser.quit()


@pytest.fixture
def browser(chromium: Any, findings: Findings, tmp_path: Path) -> Iterator[Any]:
    """The page in a browser; at the end there must be no error in its console."""
    write_page(tmp_path / "audit.html", findings)
    chromium.get((tmp_path / "audit.html").as_uri())
    yield chromium
    assert chromium.get_log("browser") == []


def column(browser: Any, number: int) -> list[str]:
    cells = browser.find_elements("css selector", f"table[data-kind=edges] tr[data-row] td:nth-child({number})")
    return [cell.get_attribute("data-value") or cell.text for cell in cells if cell.is_displayed()]


def test_sorting(browser: Any, findings: Findings) -> None:
    def click(name: str) -> None:
        browser.find_element("xpath", f"//table[@data-kind='edges']//th/button[text()='{name}']").click()

    assert column(browser, 1) == ["1", "2", "3", "4"]
    click("score")
    assert column(browser, 5) == ["0.1", "0.2", "0.8", "0.9"]
    click("score")
    assert column(browser, 5) == ["0.9", "0.8", "0.2", "0.1"]
    for expected in (["0.25", "0.5", "0.75", "nan"], ["0.75", "0.5", "0.25", "nan"]):
        click("trust in training")
        assert column(browser, 7) == expected, "unknown comes last both ways"
    click("node")
    assert column(browser, 2) == sorted(column(browser, 2), key=lambda name: (name[0].isalnum(), name))
    assert browser.title == f"Audit of {EVIL}"


def test_a_row_opens_and_shows_both_ends(browser: Any) -> None:
    browser.set_window_size(1600, 900)
    heads = browser.find_elements("css selector", "table[data-kind=edges] thead th")
    widths = [head.size["width"] for head in heads]
    browser.find_element("css selector", "table[data-kind=edges] tr[data-row='0'] td:nth-child(3)").click()
    detail = browser.find_element("css selector", "tr.detail")
    after = [head.size["width"] for head in heads]
    assert after == pytest.approx(widths, abs=6), "columns keep their width, but for the scroll bar"
    assert [box.text.split("\n")[0] for box in detail.find_elements("css selector", ".nodes > div")] == ["a", "c"]
    assert "Less in common than usual" in detail.find_element("css selector", ".reason").text
    assert len(detail.find_elements("css selector", "circle")) == 4  # two ends, one common neighbour, one other
    assert len(detail.find_elements("css selector", "line.doubted")) == 1
    assert [cell.text for cell in detail.find_elements("css selector", ".panes td:first-child")] == [EVIL, "second"]
    browser.find_element("css selector", "table[data-kind=edges] tr[data-row='1'] .open").click()
    assert len(browser.find_elements("css selector", "tr.detail")) == 1, "one at a time"


def test_the_keyboard_is_enough(browser: Any) -> None:
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    browser.find_element("css selector", "table[data-kind=edges] .open").send_keys(keys.ARROW_DOWN)
    assert browser.switch_to.active_element.text.split()[0] == "2"
    browser.switch_to.active_element.send_keys(keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("aria-expanded") == "true"
    browser.switch_to.active_element.send_keys("x")
    assert [row.get_attribute("data-row") for row in browser.find_elements("css selector", "tr.wrong")] == ["1"]
    browser.switch_to.active_element.send_keys(keys.ESCAPE)
    assert browser.find_elements("css selector", "tr.detail") == []


def test_filter_and_download(browser: Any) -> None:
    browser.find_element("css selector", "[data-for=edges]").send_keys("D1")
    assert column(browser, 3) == ["d10"]
    browser.find_element("css selector", "table[data-kind=edges] tr[data-row='2'] .open").send_keys("x")
    text = browser.execute_script("return csvOf(document.querySelector('table[data-kind=edges]'))")
    (row,) = csv.DictReader(text.splitlines())
    assert (row["#"], row["node"], row["other"], row["score"], row["decision"]) == ("3", "c", "d10", "0.2", "wrong")
    cells = browser.execute_script("return ['=1+1', '-0.5', 'a,b', '-x'].map(cellOfCsv)")
    assert cells == ["'=1+1", "-0.5", '"a,b"', "'-x"], "a spreadsheet must not run a name"


@pytest.mark.parametrize(("scheme", "background"), [("light", "255, 255, 255"), ("dark", "22, 25, 29")])
def test_light_and_dark_on_a_phone(browser: Any, scheme: str, background: str) -> None:
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        browser.find_element("css selector", "table[data-kind=edges] .open").click()
        assert background in browser.find_element("css selector", "body").value_of_css_property("background-color")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390, "nothing sticks out"
        heights = browser.execute_script(
            "return [...document.querySelectorAll('table[data-kind] tr[data-row]')].map((row) => row.offsetHeight)"
        )
        assert max(heights) < 50, "rows of one line"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
