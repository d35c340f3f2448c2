"""Writes agentserver/cli/scaffold/pins.json: what each extra of the server needs, each file by its hash.

The pins are those of requirements-dev.lock, with which the tests run. `agentserver init --deploy` takes from them what
a project needs, and so needs no index. A package with an extra, such as xsdata[cli], is an entry of its own.

python .ci/pins.py          # write it
python .ci/pins.py --check  # exit 1 when it is out of date
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import tomllib
from collections import defaultdict
from importlib.metadata import requires
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "agentserver" / "cli" / "scaffold" / "pins.json"
FRAMEWORKS = frozenset({"langchain", "langchain-core", "crewai", "google-adk", "openai-agents"})
"""Extras for programs of other frameworks, which use the library of provenance without a server."""
PIN = re.compile(r"^([A-Za-z0-9._-]+)==.*?(?=^\S)", re.DOTALL | re.MULTILINE)
TARGETS = tuple(itertools.product(("3.11", "3.12", "3.13"), ("x86_64", "aarch64")))

Needs = dict[str, list[str]]


def pins() -> dict[str, str]:
    """Read the pins of the tests with their hashes, by name; a name may have one for each interpreter."""
    text = (ROOT / "requirements-dev.lock").read_text("utf-8") + "#\n"
    found: dict[str, str] = defaultdict(str)
    for match in PIN.finditer(text):
        lines = match[0].splitlines(keepends=True)
        found[canonicalize_name(match[1])] += "".join(
            line for line in lines if not line.lstrip().startswith("#")
        )
    return found


def applies(requirement: Requirement, extra: str) -> bool:
    """Tell whether a requirement counts on any machine that is promised, for an extra of its package or for none."""
    if requirement.marker is None:
        return not extra
    for python, machine in TARGETS:
        environment: dict[str, str] = {
            **{key: str(value) for key, value in default_environment().items()},
            "python_version": python,
            "python_full_version": f"{python}.0",
            "platform_machine": machine,
        }
        alone, asked = (requirement.marker.evaluate({**environment, "extra": each}) for each in ("", extra))
        if asked and (not extra or not alone):
            return True
    return False


def entries(requirement: Requirement) -> list[str]:
    """Name the entries that a requirement asks for: the package, and the package with each extra."""
    name = canonicalize_name(requirement.name)
    return [name, *(f"{name}[{extra}]" for extra in sorted(requirement.extras))]


def list_requirements(wanted: list[str], known: dict[str, str], needs: Needs) -> list[str]:
    """Give the entries that requirements ask for, and put into ``needs`` those that each entry asks for itself."""
    first = {entry for each in wanted for entry in entries(Requirement(each))}
    waiting = [*first]
    while waiting:
        entry = waiting.pop()
        name, _, extra = entry.rstrip("]").partition("[")
        if entry in needs:
            continue
        inner = [each for each in map(Requirement, requires(name) or ()) if applies(each, extra)]
        asked = {below for each in inner for below in entries(each) if canonicalize_name(each.name) in known}
        needs[entry] = sorted(asked)
        waiting += asked
    return sorted(first)


def text() -> str:
    """Write the text of the file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    known, needs = pins(), Needs()
    extras = {"": list_requirements(project["dependencies"], known, needs)}
    for extra, wanted in sorted(project["optional-dependencies"].items()):
        if extra not in FRAMEWORKS | {"all"}:
            extras[extra] = list_requirements(wanted, known, needs)
    found = {
        "extras": extras,
        "locks": {name: known[name] for name in sorted({entry.partition("[")[0] for entry in needs})},
        "needs": dict(sorted(needs.items())),
    }
    return json.dumps(found, indent=1) + "\n"


def main() -> int:
    """Write the file, or compare it."""
    if "--check" not in sys.argv:
        PINS.write_text(text(), "utf-8")
        return 0
    if PINS.is_file() and PINS.read_text("utf-8") == text():
        return 0
    print("run python .ci/pins.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
