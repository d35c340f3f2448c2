"""CPU of a start, in child processes, against the bare interpreter's in the same run.

Each row is one command: the least CPU seconds (user and system) of some runs, the median, the row less the bare
interpreter, and the aim. Bytecode is written by a first run that does not count, into a folder of the benchmark's own:
it is there in every installation, and where the environment forbids it, each run would compile all modules again. The
organisms of ``check`` have 200 listeners, each with a payload class and a handler of its own: without a pattern facet,
with one each whose parts are distinguished by the next character, and with one each that is searched for errors of
libxml2. ``run, the example`` is ``agentserver run`` on a copy of ``config/organism.yaml``, with provenance and a
journal, from its start to ``/quit``. The last lines give the cost of a pattern: the difference, divided by the
listeners.

    ./run bench startup
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _targets import record

LISTENERS = 200
AIMS = {
    "import agentserver": 0.1,
    "agentserver --help": 0.2,
    "check, no patterns": 0.8,
    "check, a pattern each": 0.8,
    "run, the example": 1.0,
}
ROOT = Path(__file__).parents[1]

HEAD = """from dataclasses import dataclass
from typing import Annotated
from agentserver import HandlerMetadata, HandlerResponse, Pattern, xmlify
"""
ROW = '''

@xmlify
@dataclass(frozen=True, slots=True)
class P{number}:
    """Measured.

    Args:
        name: its name.
        count: how many.
    """

    name: {kind}
    count: int


async def h{number}(payload: P{number}, metadata: HandlerMetadata) -> HandlerResponse | None:
    return None
'''
LISTENER = (
    "  - {{name: l{n}, description: Measured., payload_class: {m}.P{n}, handler: {m}.h{n}, peers: [l{p}]}}\n"
)


def organism(folder: Path, module: str, kind: str) -> Path:
    """Write the module and the YAML of an organism; gives the YAML's path."""
    code = HEAD + "".join(ROW.format(number=n, kind=kind.format(n=n + 1)) for n in range(LISTENERS))
    (folder / f"{module}.py").write_text(code, "utf-8")
    rows = "".join(LISTENER.format(n=n, m=module, p=(n + 1) % LISTENERS) for n in range(LISTENERS))
    path = folder / f"{module}.yaml"
    path.write_text(f"name: many\nlisteners:\n{rows}", "utf-8")
    return path


def seconds(argv: list[str], folder: Path) -> float:
    """CPU seconds of one process and of its children, with the bytecode that is kept in the folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, cwd=folder, env=kept, input=b"/quit\n", stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="agentserver-startup-") as name:
        folder = Path(name)
        plain = organism(folder, "plain", "str")
        patterned = organism(folder, "patterned", "Annotated[str, Pattern('[A-Z]{{2}}[0-9]{{{n}}}')]")
        searched = organism(folder, "searched", "Annotated[str, Pattern('[a-z]{{{n}}}(-[a-z]+)*')]")
        for part in ("config", "listeners", "examples"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("out", "__pycache__"))
        server = ["-m", "agentserver"]
        rows = {
            "bare interpreter": ["-c", "pass"],
            "import agentserver": ["-c", "import agentserver"],
            "import xmlify": ["-c", "from agentserver import xmlify"],
            "agentserver --help": [*server, "--help"],
            "check, no patterns": [*server, "check", str(plain)],
            "check, a pattern each": [*server, "check", str(patterned)],
            "check, searched ones": [*server, "check", str(searched)],
            "run, the example": [*server, "run"],
        }
        print(f"{'CPU seconds':<24}{'least':>8}{'median':>8}{'- bare':>8}{'aim':>6}")
        found: dict[str, float] = {}
        for label, args in rows.items():
            seconds([sys.executable, *args], folder)
            figures = [seconds([sys.executable, *args], folder) for _ in range(rounds)]
            aim = f"{AIMS[label]:.1f}" if label in AIMS else ""
            if label in AIMS:
                record(f"start, {label}, s of CPU", figures, AIMS[label])
            least, median = min(figures), statistics.median(figures)
            found[label] = least
            print(f"{label:<24}{least:>8.3f}{median:>8.3f}{least - found['bare interpreter']:>8.3f}{aim:>6}")
        for label in ("check, a pattern each", "check, searched ones"):
            each = (found[label] - found["check, no patterns"]) / LISTENERS
            print(f"{label}: {each * 1000:.2f} ms a pattern")


if __name__ == "__main__":
    main()
