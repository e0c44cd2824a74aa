"""Sphinx settings. Tables of settings, presets and datasets are made from the package, so they cannot go stale."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import tables  # noqa: E402

import gssc  # noqa: E402

project = "gssc"
author = "gssc contributors"
copyright = "gssc contributors, MIT licence"
version = release = gssc.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "_ext"]
html_static_path = ["_static"]
html_theme = "furo"
html_title = "gssc"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
# The files of results/ have levels of their own.
# Several classes have an attribute Settings, so that a bare "Settings" in a signature has more than one target.
suppress_warnings = ["myst.header", "ref.python"]
smartquotes = False

# Some docstrings mark code with single backticks, some with double ones.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
napoleon_numpy_docstring = False


class GeneratedTable(SphinxDirective):
    """``{gssc-table} KIND [ARGUMENT]`` puts a table of ``tables.py`` on the page."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list:
        """Read the table again at every build, as Markdown of the page it stands on."""
        self.env.note_reread()
        return self.parse_text_to_nodes(tables.KINDS[self.arguments[0]](*self.arguments[1:]))


class Results(SphinxDirective):
    """``{gssc-results}`` puts every file of the folder ``results`` on the page, each as a section."""

    def run(self) -> list:
        """Read whatever the folder holds at the time."""
        self.env.note_reread()
        texts = []
        for path in sorted((HERE.parent / "results").glob("*.md")):
            self.env.note_dependency(str(path))
            # Titles go down one level, below that of the page; a run of # within a block of code is none of ours.
            texts.append(re.sub(r"^(#+ )", r"#\1", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
        return self.parse_text_to_nodes("\n\n".join(texts), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directives known."""
    app.add_directive("gssc-table", GeneratedTable)
    app.add_directive("gssc-results", Results)
    return {"parallel_read_safe": True}
