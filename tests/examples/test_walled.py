"""The example that runs a model's Python: each hostile piece ends as ``internal`` or ``timeout``, and the next one runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentserver.contract import SystemError
from agentserver.testing import organism
from agentserver.worker.wall.raising import list_missing
from tests.machine import HANGS

LACKS = list_missing()
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(LACKS) and not os.environ.get("CI"), reason=f"no wall here: {'; '.join(LACKS)}"),
]
ROOT = Path(__file__).resolve().parents[2] / "examples" / "walled"

HOSTILE = {
    "it reads": "print(open('/etc/passwd').read())",
    "it connects": "import socket; socket.create_connection(('127.0.0.1', 22))",
    "it forks": "import os\nwhile True: os.fork()",
    "it starts a program": "import subprocess; subprocess.run(['id'])",
    "it loops": "while True: pass",
    "it hoards": "x = bytearray(2**33)",
    "it ends the process": "import os; os._exit(0)",
}


async def wait_for_answer(bed, code):
    """What comes of it. On a busy machine a start may take longer than a call may: the next call has the worker."""
    while isinstance(got := await bed.ask(code, "python"), SystemError):
        assert got.code == "timeout", got
    return got


async def test_a_models_python_is_run_and_cannot_get_out():
    async with organism(ROOT / "organism.yaml", timeout=HANGS) as bed:
        words = __import__("words")
        for code in HOSTILE.values():
            got = await bed.ask(words.Code(code), "python")
            assert isinstance(got, SystemError), (code, got)
            assert got.code in ("internal", "timeout"), (code, got)
            assert await wait_for_answer(bed, words.Code("print(sum(range(10)))")) == words.Output("45\n")
