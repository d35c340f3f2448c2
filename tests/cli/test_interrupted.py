"""Ctrl-C ends a verb at once, also while a database or a server accepts connections and never answers."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from tests.cli.conftest import environment
from tests.machine import HANGS

SOON = 10.0
"""Seconds on a loaded machine; a verb that waits for its connection takes 30 and more."""


@pytest.mark.parametrize(
    "words", [("conversations",), ("engine", "status"), ("send", "{}", "--url", "{url}")]
)
def test_ctrl_c_ends_a_verb_that_waits_for_a_peer_that_never_answers(tmp_path, words):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(HANGS)
        port = silent.getsockname()[1]
        (tmp_path / "organism.yaml").write_text(
            f"name: works\nengine: {{postgres: {{url: 'postgresql://u@127.0.0.1:{port}/db'}}}}\nlisteners: []\n"
        )
        with subprocess.Popen(
            [
                sys.executable,
                "-m",
                "agentserver",
                *(word.format(url=f"http://127.0.0.1:{port}") for word in words),
            ],
            cwd=tmp_path,
            env={**environment(), "AGENTSERVER_TOKEN": "token"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                silent.accept()
                process.send_signal(signal.SIGINT)
                assert process.wait(SOON) == 130
            finally:
                process.kill()
