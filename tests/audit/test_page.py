from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from gssc.audit import DuplicateGroup, Findings, Ranking, write_page
from gssc.audit.page import histogram, page
from gssc.graph import Graph

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def findings() -> Findings:
    """Five nodes, four edges, two labels, and names that would like to be HTML."""
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
    assert Elements(text).tags.count("script") == 1


def test_the_page_needs_nothing_from_anywhere(findings: Findings) -> None:
    text = page(findings)
    assert Elements(text).links == ["data:,"]
    assert not re.search(r"https?://|@import|url\(", text)


def test_the_worst_come_first_and_the_rest_is_counted(findings: Findings) -> None:
    text = page(findings, top=2)
    scores = re.findall(r'data-value="(0\.9|0\.8|0\.2|0\.1)"', text.split('id="labels"')[0].split("<tbody>")[1])
    assert scores[:3] == ["0.9", "0.8", "0.1"]  # the third is the evidence of the second row
    assert "2 more; --out audit.csv has them all" in text
    assert "second 2" in text, "the strongest feature by its name"
    assert 'data-value="nan">unknown' in text


def test_findings_without_anything(findings: Findings) -> None:
    none = Ranking.of(np.empty((0, 1), dtype=np.int64), np.empty(0), {})
    bare = Findings(findings.graph, findings.class_names, findings.edges, none, None, [], np.empty(0), np.empty(0))
    assert page(bare).count("<p>None.</p>") == 2


def test_the_histogram_counts_every_score() -> None:
    drawn = histogram(np.array([0, 0.04, 0.5, 1, 1]), "edges")
    assert [int(count) for count in re.findall(r"<title>(\d+) edges", drawn)] == [2, *[0] * 9, 1, *[0] * 8, 2]


def test_sorting_in_a_real_browser(findings: Findings, tmp_path: Path) -> None:
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if not (chromium and driver):
        pytest.skip("chromium and chromedriver are not installed")
    write_page(tmp_path / "audit.html", findings)
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    try:
        browser.get((tmp_path / "audit.html").as_uri())

        def column(number: int) -> list[str]:
            cells = browser.find_elements("css selector", f"#edges ~ .scroll td:nth-child({number})")
            return [cell.text for cell in cells][: len(findings.edges)]

        def click(name: str) -> None:
            browser.find_element("xpath", f"(//table)[1]//button[text()='{name}']").click()

        assert column(1) == ["1", "2", "3", "4"]
        click("score")
        assert column(4) == ["0.100", "0.200", "0.800", "0.900"]
        click("score")
        assert column(4) == ["0.900", "0.800", "0.200", "0.100"]
        click("keep probability")
        assert column(8) == ["0.250", "0.500", "0.750", "unknown"]
        click("keep probability")
        assert column(8) == ["0.750", "0.500", "0.250", "unknown"]
        click("node")
        assert column(2) == sorted(column(2), key=lambda name: (name[0].isalnum(), name))
        assert browser.get_log("browser") == []
        assert browser.title == f"Audit of {EVIL}"
    finally:
        browser.quit()
