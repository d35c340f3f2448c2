"""AgentDojo without a model, in its own environment, since the tests need none of its requirements.

Defines the environment and the short form; benchmarks/agentdojo defines the measurements.
"""

from __future__ import annotations

import subprocess
import sys

from environments import AGENTDOJO_LOCK, CACHE, ROOT, NotInstalledError, locked, prepare

SHORT = ("--suite=banking", "--only=general policy", "--require", "80", "3")
"""One suite under the declared policy, held to less utility than the whole has, because it is a small part of it."""
VARIED = ("--variation=all", "--only=none", "--quick", "--require", "100", "100")
"""Every variation without a defence, which must change neither utility nor attacks."""


def main(argv: list[str]) -> int:
    """Run the benchmark with its own arguments; ``--short`` selects the form that CI runs."""
    print("... agentdojo, agent-sleuth", flush=True)
    try:
        python = prepare(CACHE / "agentdojo", locked(AGENTDOJO_LOCK))
    except NotInstalledError as error:
        print(error, file=sys.stderr)
        return 1
    for asked in (SHORT, VARIED) if argv == ["--short"] else (argv,):
        done = subprocess.run([python, "-m", "benchmarks.agentdojo.run", *asked], cwd=ROOT, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
