"""The pages are run: Python blocks, gssc commands and links of README.md and docs/*.md.

Blocks of a page share a folder and a namespace and run in order. A comment right before a block changes that:

    <!-- skip: reason -->   not run; for make, pip, real datasets and your own files only
    <!-- server -->         sent to a running server by tests/serve/test_page_of_docs.py
    <!-- data: cora -->     run on its own, where GSSC_DATA_ROOT has this dataset
    <!-- file: nodes.csv -->  saved under this name, for the commands that follow
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from gssc.cli.main import main
from gssc.config import DEFAULT_MODEL, PAIR_MODEL, ContrastConfig, sections
from gssc.data import DATASETS
from gssc.learner.learner import LearnerTraining
from gssc.learner.settings import Config
from gssc.sparsify.registry import every_setting

SECTIONS = {
    DEFAULT_MODEL: sections(Config, DEFAULT_MODEL),
    PAIR_MODEL: {**sections(ContrastConfig, PAIR_MODEL), "sparsifier": every_setting()},
}
ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\S*)[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!-- (?P<kind>skip|data|file|server)(?:: (?P<value>.+?))? -->\s*\Z")
# Names of files that look like settings.
FILES_NOT_SETTINGS = {"model.json", "model.safetensors", "model.onnx", "train.npy"}
SHELL = ("console", "bash", "sh", "shell")
# What a block may hold that is not run: installing, containers, hours of training, a server, and files that only its
# reader has.
NOT_RUN = re.compile(
    r"make |pip |docker |torchrun |\.venv/|"
    r"gssc (train|bench) .*(cora|citeseer|my_graph|bbbp)|gssc serve |gssc predict runs/mine|"
    r"gssc (export|audit|plot) runs/cora|gssc data import --nodes nodes.csv "
)


@dataclass
class Block:
    """A fenced block of a page, and what the comment before it says."""

    page: Path
    line: int
    language: str
    body: str
    kind: str | None
    value: str | None

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self) -> list[list[str]]:
        """The arguments of each gssc command, with continued lines joined and comments cut."""
        lines = self.body.replace("\\\n", " ").splitlines()
        parsed = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
        return [words for words in parsed if words]

    def run(self, namespace: dict[str, object]) -> None:
        if self.kind == "file":
            assert self.value is not None
            Path(self.value).write_text(self.body, encoding="utf-8")
        elif self.language == "python":
            # Line numbers of a failure are those of the page.
            exec(compile("\n" * self.line + self.body, str(self.page), "exec"), namespace)
        else:
            for words in self.commands():
                assert words[0] == "gssc", f"{self.where}: only gssc commands are run; add <!-- skip: reason -->"
                assert main(words[1:]) == 0, f"{self.where}: {shlex.join(words)}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        comment = COMMENT.search(text[: match.start()].rstrip("\n"))
        kind, value = (comment["kind"], comment["value"]) if comment else (None, None)
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match["language"], match["body"], kind, value))
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
RUNNABLE = [b for b in BLOCKS if b.language in ("python", *SHELL) or b.kind == "file"]
ON_DATA = [block for block in RUNNABLE if block.kind == "data"]
SKIPPED = [block for block in RUNNABLE if block.kind == "skip"]


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(autouse=True)
def _short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train the default learner for one round and without trees, where the pages use the defaults."""
    whole = LearnerTraining.__init__

    def short(self: LearnerTraining, graph, config: Config, *more, **named) -> None:
        whole(self, graph, config.shortened(2), *more, **named)

    monkeypatch.setattr(LearnerTraining, "__init__", short)


# PyTorch Geometric, which a page imports, still compiles its helpers the old way.
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is:DeprecationWarning")
@pytest.mark.parametrize("page", [p for p in PAGES if any(b.page == p for b in RUNNABLE)], ids=lambda p: p.name)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSSC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GSSC_DATA_ROOT", raising=False)
    namespace: dict[str, object] = {"__name__": "page"}
    monkeypatch.syspath_prepend(tmp_path)  # puts back whatever a page adds to the path
    before = {name: sys.modules.pop(name) for name in ("predict",) if name in sys.modules}
    try:
        for block in RUNNABLE:
            if block.page == page and block.kind in (None, "file"):
                block.run(namespace)
    finally:
        # A page imports the predict.py it exported; benchmarks have a module of that name too.
        sys.modules.pop("predict", None)
        sys.modules.update(before)


@pytest.mark.parametrize("block", ON_DATA, ids=lambda block: block.where)
def test_block_on_real_data_runs(block: Block) -> None:
    root = os.environ.get("GSSC_DATA_ROOT")
    if not root or not (Path(root) / str(block.value)).is_dir():
        pytest.skip(f"needs {block.value} in GSSC_DATA_ROOT")
    block.run({"__name__": "page"})


@pytest.mark.parametrize("block", SKIPPED, ids=lambda block: block.where)
def test_blocks_that_are_not_run_are_few_and_say_why(block: Block) -> None:
    assert block.language in SHELL
    assert block.value
    for line in block.body.replace("\\\n", " ").splitlines():
        assert NOT_RUN.match(line), f"{block.where} could be run: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name} links to {target}"
        assert linked.is_relative_to(ROOT), f"{page.name} links out of the repository: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{page.name} links to {target}, but {linked.name} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_named_exists(page: Path) -> None:
    kinds = [item for sections_of in SECTIONS.values() for item in sections_of.items()]
    known = {f"{name}.{option.name}" for name, kind in kinds for option in fields(kind)}
    names = "|".join({name for name, _ in kinds})
    named = re.findall(rf"`((?:{names})\.[a-z_]+)`", page.read_text(encoding="utf-8"))
    assert set(named) - FILES_NOT_SETTINGS <= known


def test_every_choice_beside_a_setting_exists() -> None:
    """Prose such as "`model.mix_by` = `off`" names values that the setting takes."""
    tables = load_tables()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for setting, value in re.findall(r"`(\w+\.\w+)`\s+=\s+`(\w+)`", text):
            section, option = setting.split(".")
            shown = [tables.settings(f"{model}:{section}") for model in SECTIONS if section in SECTIONS[model]]
            rows = [line for table in shown for line in table.splitlines() if line.startswith(f"| `{setting}`")]
            allowed = " ".join(row.split(" | ")[2] for row in rows)
            assert f"`{value}`" in allowed, f"{page.name}: {option} does not take {value}"


def test_settings_page_has_every_section_and_every_option_a_meaning() -> None:
    tables = load_tables()
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for model, kinds in SECTIONS.items():
        for section, kind in kinds.items():
            if (model, section) == (PAIR_MODEL, "data"):  # the same for both
                continue
            assert f"{{gssc-table}} settings {model}:{section}\n" in page
            rows = tables.settings(f"{model}:{section}").splitlines()[2:]
            assert len(rows) == len(fields(kind))
            assert all(row.rsplit(" | ", 1)[1].strip(" |") for row in rows)


def test_generated_tables_name_every_dataset_and_what_presets_change() -> None:
    tables = load_tables()
    listed = tables.datasets()
    assert all(f"| `{name}` |" in listed for name in DATASETS)
    assert "`model.mix_at`" in tables.presets()
    assert len({line.count(" | ") for line in tables.presets().splitlines()}) == 1
    protocols = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    assert [name for name in DATASETS if f"`{name}`" not in protocols] == []


def test_module_map_names_every_module() -> None:
    tree = next(
        block.body for block in blocks_of(ROOT / "docs" / "architecture.md") if block.body.startswith("src/gssc/")
    )
    items = [item for item in (ROOT / "src" / "gssc").iterdir() if not item.name.startswith(("_", "."))]
    names = {f"{item.name}/" if item.is_dir() else item.name for item in items if item.suffix in ("", ".py")}
    assert [name for name in sorted(names - {"py.typed"}) if name not in tree] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def load_tables():
    spec = importlib.util.spec_from_file_location("docs_tables", ROOT / "docs" / "_ext" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_first_page_shows_what_its_example_prints() -> None:
    example, shown = blocks_of(ROOT / "docs" / "index.md")[:2]
    done = subprocess.run([sys.executable, "-c", example.body], capture_output=True, text=True, check=True)
    (printed, told), (wanted, told_before) = (
        re.split(r"(?<=\d)(?=%)", text, maxsplit=1) for text in (done.stdout, shown.body)
    )
    assert told == told_before
    assert abs(int(printed) - int(wanted)) <= 1  # another version of a library may predict a few images otherwise
