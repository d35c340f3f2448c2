"""The MCP client against a server of the older protocol, in an environment of its own.

The environment below .cache has mcp before 2, which cannot be installed together with the project's version, and a
server that needs it. pip uses its configured index.
"""

from __future__ import annotations

import os
import subprocess
import sys

from environments import CACHE, ROOT, NotInstalledError, prepare

WANTED = ("mcp==1.30.0", "mcp-server-sqlite==2025.4.25")
CHOSEN = "AGENTSERVER_OLD_MCP"
"""Names the interpreter of the environment to the test; without it, the test is a skip."""


def main() -> int:
    """Install, and run the test."""
    try:
        python = prepare(CACHE / "mcp-old", WANTED)
    except NotInstalledError as error:
        print(f"old mcp: not installed: {error}")
        return 1
    test = [sys.executable, "-m", "pytest", "-q", "-n0", "tests/mcp/client/test_old.py"]
    return subprocess.run(test, cwd=ROOT, env=os.environ | {CHOSEN: str(python)}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
