"""Print the requirements of pyproject.toml at their lower bounds, one per line, for ``pip install -r``.

    python .ci/lowest.py serve export > lowest.txt

The core dependencies are always included; the arguments are extras. ``a>=1.2,<3`` becomes ``a==1.2``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import tomllib

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def lowest(extras: list[str]) -> Iterator[str]:
    """Yield every requirement of the core and of these extras, pinned to its lower bound."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    waiting = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    while waiting:
        requirement = waiting.pop(0)
        if own := re.fullmatch(r"gssc\[(.+)\]", requirement):
            waiting += [line for extra in own[1].split(",") for line in optional[extra]]
            continue
        pinned = re.sub(r">=\s*([^,;\s]+)[^;]*", r"==\1", requirement, count=1)
        if "==" not in pinned:
            raise SystemExit(f"{requirement!r} in pyproject.toml has no lower bound")
        yield pinned


if __name__ == "__main__":
    sys.stdout.write("\n".join(dict.fromkeys(lowest(sys.argv[1:]))) + "\n")
