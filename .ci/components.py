"""Software bill of materials of a release, with licences and known vulnerabilities.

Installs the locked requirements of a server with a door and a console, writes them as CycloneDX and prints a table. The
vulnerabilities come from pip-audit; if it skips every component, no database could be reached, and the stage says so
loudly. pip uses its configured index.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from environments import CACHE, ROOT, NotInstalledError, locked, prepare

LOCK = ROOT / "requirements.lock"
TOOLS_LOCK = ROOT / ".ci/sbom.lock"
FAILED = 1


def install_tools() -> Path:
    """Return the interpreter of an environment that holds the tools alone. Raises NotInstalledError."""
    return prepare(CACHE / "sbom", locked(TOOLS_LOCK))


def components(tools: Path, folder: Path) -> list[dict[str, Any]]:
    """Write ``sbom.json`` into a folder; gives its components. Raises NotInstalledError and CalledProcessError."""
    print(f"... {LOCK.name}", flush=True)
    python = prepare(CACHE / "components", locked(LOCK))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sbom.json"
    told = (
        "--pyproject",
        ROOT / "pyproject.toml",
        "--mc-type",
        "application",
        "--output-reproducible",
        "--validate",
    )
    subprocess.run([tools, "-m", "cyclonedx_py", "environment", *told, "-o", path, python], check=True)
    print(f"{path}: what requirements.lock installs, in the form of CycloneDX")
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["components"]
    return found


def licences(component: dict[str, Any]) -> str:
    """The licences of a component, as its authors name them; empty when they name none."""
    told = (
        each.get("expression") or each["license"].get("id") or each["license"]["name"]
        for each in component.get("licenses", ())
    )
    return ", ".join(sorted({text.partition("\n")[0][:60] for text in told}))


def vulnerable(tools: Path) -> tuple[list[str], bool]:
    """The known vulnerabilities of what the lock pins, a line each, and whether any database answered."""
    asked = ("-r", LOCK, "--require-hashes", "--disable-pip", "--format=json", "--progress-spinner=off")
    done = subprocess.run([tools, "-m", "pip_audit", *asked], check=False, capture_output=True, text=True)
    try:
        listed = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [], False
    found = [
        f"{each['name']} {each['version']}: {one['id']}, mended in {', '.join(one['fix_versions']) or 'no version'}"
        for each in listed
        for one in each.get("vulns", ())
    ]
    return found, any("skip_reason" not in each for each in listed)


def main(folder: Path) -> int:
    """Write and print everything; the exit status."""
    try:
        tools = install_tools()
        listed = components(tools, folder)
    except NotInstalledError as error:
        print(f"components: {error}", file=sys.stderr)
        return FAILED
    for each in sorted(listed, key=lambda one: str(one["name"]).lower()):
        print(f"    {each['name']:<28} {each['version']:<12} {licences(each) or 'NAMES NO LICENCE'}")
    found, answered = vulnerable(tools)
    for line in found:
        print(f"VULNERABLE  {line}")
    if not answered:
        print("SKIPPED: no database of vulnerabilities answers here, so none was looked up")
    elif not found:
        print("no vulnerability is known in any of them")
    unnamed = [each["name"] for each in listed if not licences(each)]
    return FAILED if found or unnamed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else CACHE / "release"))
