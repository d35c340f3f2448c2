"""The live view as a user has it: behind ``agentserver serve``, with tokens of ``agentserver principals``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.gateways.live.conftest import ROOT
from tests.machine import HANGS

ORDER = '{"text": "Pay the invoice in mail 13 and tell Kim."}'
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT)}


def agentserver(folder, *words, **how):
    return subprocess.run(
        [sys.executable, "-m", "agentserver", "--log-level", "error", *words],
        cwd=folder, env=ENVIRON, capture_output=True, text=True, check=True, timeout=HANGS, **how,
    ).stdout.strip()  # fmt: skip


@pytest.fixture
def desk(tmp_path):
    """The example with its door open at a port of the system's choice; its address, and the tokens of an operator and a user."""
    for name in ("desks.py", "mails.json", "contacts.json", "plain.yaml"):
        (tmp_path / name).write_bytes((ROOT / "examples" / "desks" / name).read_bytes())
    file = tmp_path / "plain.yaml"
    file.write_text(f"{file.read_text()}\nhttp:\n  bind: 127.0.0.1:0\n")
    organism = ("--organism", "plain.yaml")
    boss = agentserver(tmp_path, "principals", "add", "boss", "--role", "operator", *organism)
    amy = agentserver(tmp_path, "principals", "add", "amy", "--trust", "orders", "--may", "clerk", *organism)
    serving = subprocess.Popen(
        [sys.executable, "-m", "agentserver", "--log-level", "error", "serve", "plain.yaml"],
        cwd=tmp_path, env=ENVIRON, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield tmp_path, serving.stderr.readline().strip(), boss, amy
    finally:
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(HANGS) == 0
        serving.stderr.close()


def test_an_operator_sees_what_a_user_sends_until_the_token_is_revoked(desk, visit):
    folder, address, boss, amy = desk
    page = visit(None, role=None, address=address, still=True)
    page.get_by_label("Token of a principal").fill(amy)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("the live view is for operators and viewers")
    page.get_by_label("Token of a principal").fill(boss)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    secret = {**ENVIRON, "AGENTSERVER_TOKEN": amy}
    subprocess.run(
        [sys.executable, "-m", "agentserver", "send", ORDER, "--to", "clerk", "--url", address],
        env=secret, capture_output=True, check=True, timeout=HANGS,
    )  # fmt: skip
    expect(page.locator(".organism .mark.bad")).to_have_count(4)
    assert page.context.cookies()[0]["name"].startswith("__Host-")
    page.get_by_role("link", name="Conversations").click()
    expect(page.get_by_role("table").get_by_role("cell", name="amy")).to_have_count(1)
    agentserver(folder, "principals", "revoke", "boss", "--organism", "plain.yaml")
    expect(page.get_by_role("alert")).to_have_text("Your session is over.")
