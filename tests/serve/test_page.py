"""The page in a real browser."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gssc.deploy import DeployedModel, write_predictions

webdriver = pytest.importorskip("selenium.webdriver")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver")

CSV = "id,a,b,c\nn0,1,2,3\nn1,4,5.5,-6\nn2,0,0,0\n"
X = np.array([[1, 2, 3], [4, 5.5, -6], [0, 0, 0]], dtype=np.float32)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1000,1100",
)
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, downloads: Path) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def wait(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < deadline, "the page did not get there"
        time.sleep(0.02)
    return found


class Page:
    """The page as a person sees it."""

    def __init__(self, browser: Any, client: Any, path: str = "/"):
        self.browser = browser
        browser.get_log("browser")
        browser.get(f"http://127.0.0.1:{client.port}{path}")

    def at(self, name: str) -> Any:
        return self.browser.find_element("id", name)

    def text(self, name: str) -> str:
        return self.at(name).text if self.at(name).is_displayed() else ""

    def cells(self, table: str) -> list[list[str]]:
        rows = self.at(table).find_elements("tag name", "tr")
        return [[cell.text for cell in row.find_elements("css selector", "td, th")] for row in rows]

    def choose(self, path: Path) -> None:
        wait(lambda: self.at("drop").is_displayed())
        self.at("file").send_keys(str(path))

    def complaints(self) -> list[str]:
        """Messages of the browser about the page: scripts that failed, things that were blocked."""
        return [entry["message"] for entry in self.browser.get_log("browser")]


def downloaded(path: Path) -> bytes:
    wait(lambda: path.exists() and path.stat().st_size)  # it is there, and then it is filled
    return path.read_bytes()


def test_a_table_is_chosen_shown_and_downloaded(browser, client, small, tmp_path: Path, downloads: Path) -> None:
    (tmp_path / "pets.csv").write_text(CSV)
    page = Page(browser, client)
    card = wait(lambda: page.text("card"))
    for fact in ("2: cat, dog", "3, by position", "3 → 4 → 2, relu", "pets", "m1"):
        assert fact in card
    page.browser.find_element("css selector", "#card-more summary").click()
    assert "Model card: pets" in wait(lambda: page.text("card-text"))
    page.choose(tmp_path / "pets.csv")
    assert wait(lambda: page.text("result-title")) == "pets.csv: 3 rows"
    probabilities = small.predict_proba(X)
    shown = page.cells("predictions")
    assert shown[0] == ["id", "prediction", "cat", "dog"]
    names = [small.class_names[number] for number in probabilities.argmax(axis=1)]
    assert shown[1:] == [
        [f"n{number}", names[number], *(f"{value:.3f}" for value in row)] for number, row in enumerate(probabilities)
    ]
    counts = {row[0]: row[1] for row in page.cells("summary")[1:]}
    assert counts == {name: str(names.count(name)) for name in ("cat", "dog")}
    for suffix in ("csv", "parquet"):
        page.at(f"download-{suffix}").click()
        found = downloaded(downloads / f"pets-predictions.{suffix}")
        expected = tmp_path / f"expected.{suffix}"
        write_predictions(expected, small, probabilities, np.array(["n0", "n1", "n2"]))
        assert found == expected.read_bytes() if suffix == "csv" else found[:4] == b"PAR1"
    assert page.complaints() == []


def test_a_table_is_dropped(browser, client) -> None:
    page = Page(browser, client)
    wait(lambda: page.text("drop"))
    drop = """
        const data = new DataTransfer();
        data.items.add(new File([arguments[0]], "dropped.csv"));
        document.getElementById("drop").dispatchEvent(
            new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    """
    browser.execute_script(drop, "1,2,3\n")
    assert wait(lambda: page.text("result-title")) == "dropped.csv: 1 row"
    assert [row[0] for row in page.cells("predictions")] == ["row", "0"]
    assert page.complaints() == []


def test_errors_are_shown_and_can_be_fixed(browser, client, tmp_path: Path) -> None:
    page = Page(browser, client)
    for name, content, message in (
        ("bad.csv", "a,b,c\n1,2,x\n", "bad.csv:2: column 'c' is 'x' where a number belongs; fix or drop the row"),
        ("bad.xlsx", "?", "bad.xlsx is neither .csv, .tsv nor .parquet."),
        ("big.csv", "1,2,3\n" * 200_000, "big.csv is too large for this server."),
    ):
        (tmp_path / name).write_text(content)
        page.choose(tmp_path / name)
        wait(lambda message=message: page.text("error") == message)
        assert not page.at("result").is_displayed()
    (tmp_path / "good.csv").write_text(CSV)
    page.choose(tmp_path / "good.csv")
    wait(lambda: page.text("result-title"))
    assert page.text("error") == ""


def test_a_table_with_decimal_commas(browser, client, tmp_path: Path) -> None:
    page = Page(browser, client)
    (tmp_path / "comma.csv").write_text("a;b;c\n1,5;2;3\n")
    page.choose(tmp_path / "comma.csv")
    assert "'1,5'" in wait(lambda: page.text("error"))
    page.at("comma").click()
    assert wait(lambda: page.text("result-title")) == "comma.csv: 1 row"
    assert page.text("error") == ""
    assert [line for line in page.complaints() if "422" not in line] == []  # of the table read with points


def test_names_are_text_and_not_html(browser, live) -> None:
    names = ["<img src=x onerror=alert(1)>", "<b>"]
    client = live(DeployedModel([(np.eye(2), np.zeros(2))], names, metadata={"<i>": "<script>"}))
    page = Page(browser, client)
    assert names[0] in wait(lambda: page.text("card"))
    browser.execute_script('classify(new File(["id,a,b\\n<u>,1,0\\n"], "<s>.csv"))')
    assert wait(lambda: page.text("result-title")) == "<s>.csv: 1 row"
    assert page.cells("predictions")[1][:2] == ["<u>", names[0]]
    assert page.complaints() == []


def test_the_page_asks_for_the_token(browser, live, model: DeployedModel) -> None:
    client = live(model, token=TOKEN)
    page = Page(browser, client)
    for attempt, expected in (("not the token", "error"), (TOKEN, "card")):
        wait(lambda: page.text("ask-token"))
        page.at("token").clear()
        page.at("token").send_keys(attempt)
        page.at("token-form").find_element("tag name", "button").click()
        wait(lambda expected=expected: page.text(expected))
    assert page.text("ask-token") == page.text("error") == ""
    assert TOKEN not in page.browser.page_source


def test_docs_need_nothing_from_elsewhere(browser, client) -> None:
    page = Page(browser, client, "/docs")
    shown = wait(lambda: page.text("operations"))
    for operation in ("POST /predict", "POST /predict/file", "GET /model", "GET /health", "GET /metrics"):
        assert operation in shown
    assert '{"rows":[[0,0,1]]}' in shown
    assert page.complaints() == []


def test_molecules_are_read_from_a_csv_predicted_drawn_and_downloaded(
    browser, start_process, tmp_path: Path, downloads: Path, oxygen_model
) -> None:
    oxygen_model.save(tmp_path)
    (tmp_path / "mine.csv").write_text('name,structure\n"acid, acetic",CC(=O)O\nnone,\nmethanol,CO\nbad,=C1CC(\n')
    page = Page(browser, start_process(tmp_path).client)
    assert "oxygen" in wait(lambda: page.text("model"))
    page.at("file").send_keys(str(tmp_path / "mine.csv"))
    wait(lambda: page.at("column").is_displayed())
    page.at("column").send_keys("structure")
    wait(lambda: page.at("smiles").get_attribute("value") == "CC(=O)O\n\nCO\n=C1CC(")
    page.at("go").click()
    assert wait(lambda: page.text("result-title")) == "2 molecules, 2 lines without a valid molecule"
    shown = page.cells("predictions")
    half = "0.622"  # the logistic function of one half, the share of oxygen
    assert shown[0] == ["", "SMILES", "probability of oxygen"]
    assert [shown[1][1:], shown[3][1:]] == [["CC(=O)O", half], ["CO", half]]
    assert shown[2][2] == "the SMILES is empty"
    assert "not a SMILES" in shown[4][2]
    drawn = "return [...document.querySelectorAll('img')].filter(image => image.naturalWidth).map(image => image.alt)"
    wait(lambda: len(browser.execute_script(drawn)) == 2)
    assert set(browser.execute_script(drawn)) == {"structure of CC(=O)O", "structure of CO"}
    page.at("download").click()
    lines = downloaded(downloads / "predictions.csv").decode().splitlines()
    assert lines[0] == "row,smiles,probability_oxygen,reason"
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2", "3", "4"]
    assert lines[2] == "2,,,the SMILES is empty"
    assert lines[4].startswith("4,'=C1CC(,,'=C1CC(' is not a SMILES")  # no formula for a spreadsheet
    (tmp_path / "header.csv").write_text("smiles\n")
    page.at("file").send_keys(str(tmp_path / "header.csv"))
    assert wait(lambda: page.text("error")) == "header.csv has no rows below its header."
    page.at("column").send_keys("name")  # of the table before it, which is kept
    wait(lambda: page.at("smiles").get_attribute("value") == "acid, acetic\nnone\nmethanol\nbad")
    page.at("smiles").clear()
    page.at("go").click()
    assert wait(lambda: page.text("error")) == "Enter at least one SMILES."
    for name, text, title in (
        ("column.csv", "smiles\nCO\n\nC\n\n", "2 molecules, 1 line without a valid molecule"),
        ("marks.csv", "name;smiles\na;CO\n;\nb;\n", "1 molecule, 2 lines without a valid molecule"),
        ("tabs.tsv", "name\tsmiles\n\na, b\tCO\n", "1 molecule"),
    ):
        (tmp_path / name).write_text(text)
        before = page.at("smiles").get_attribute("value")
        page.at("file").send_keys(str(tmp_path / name))
        wait(lambda before=before: page.at("smiles").get_attribute("value") != before)
        page.at("go").click()
        wait(lambda title=title: page.text("result-title") == title)
    assert page.complaints() == []
