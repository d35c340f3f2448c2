"""``agentserver serve`` in a process of its own: it prints its address, ends at a signal, and names missing parts."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time

import pytest

from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.principals import Caller, Rate, Role, document, tokens
from tests.cli.served import ServedProcess, write
from tests.machine import HANGS


@pytest.fixture
def home(tmp_path):
    write(tmp_path, "http: {bind: '127.0.0.1:0'}")
    return tmp_path


@pytest.fixture
def token(home):
    caller = Caller(Principal("ada", Trust.ORDERS, None), Role.OPERATOR, Rate(1000, "s"), 20)
    return tokens.add(document.locate_principal_file(home / "out" / "journal.sqlite"), caller)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_and_ends_at_a_signal(home, token, number):
    with ServedProcess(home, token) as served:
        path = served.open()
        answer = served.client.post(f"{path}/messages?to=greeter", json={"name": "Ada"})
        assert answer.json()["value"] == {"text": "Hello, Ada"}
        assert 'listener="greeter"' in served.client.get("/metrics").text
        served.process.send_signal(number)
        assert served.process.wait(HANGS) == 0


def test_running_work_has_the_time_of_the_drain_and_its_stream_ends_with_the_reason(home, token):
    with ServedProcess(home, token) as served:
        path = served.open()
        asked = {"prefer": "respond-async"}
        served.client.post(f"{path}/messages?to=greeter", json={"name": "slow"}, headers=asked)
        with served.client.stream("GET", f"{path}/events") as stream:
            served.process.send_signal(signal.SIGTERM)
            assert '"reason":"stopping"' in stream.read().decode()
        assert served.process.wait(HANGS) == 0


def test_a_second_start_answers_a_retry_as_the_first_did(home, token):
    key = {"idempotency-key": "k-1"}
    with ServedProcess(home, token) as served:
        path = served.open()
        first = served.client.post(f"{path}/messages?to=greeter", json={"name": "Ada"}, headers=key).json()
        served.process.kill()
        served.process.wait(HANGS)
    with ServedProcess(home, token) as served:
        again = served.client.post(f"{path}/messages?to=greeter", json={"name": "Ada"}, headers=key).json()
    assert (again["request"], again["value"], again["place"]) == (
        first["request"],
        first["value"],
        first["place"],
    )


def test_a_revoked_token_soon_stops_working(home, token):
    with ServedProcess(home, token) as served:
        served.open()
        tokens.revoke(document.locate_principal_file(home / "out" / "journal.sqlite"), "ada")
        while served.client.post("/v1/conversations").status_code != 401:
            time.sleep(0.05)


def test_with_the_console_the_door_closes_with_it(home, token):
    with ServedProcess(home, token, "--console") as served:
        served.open()
        out, _ = served.process.communicate("@greeter Eva\n", timeout=HANGS)
        assert "Hello, Eva" in out
        assert served.process.returncode == 0


def run(home):
    command = [sys.executable, "-m", "agentserver", "serve", "organism.yaml"]
    return subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=HANGS, check=False)


def test_an_organism_without_the_key_has_no_door(home):
    write(home)
    done = run(home)
    assert done.returncode == 2
    assert "has no http:" in done.stderr
    assert "http: {}" in done.stderr


def test_an_address_that_is_taken_is_said(home):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        write(home, f"http: {{bind: '127.0.0.1:{port}'}}")
        done = run(home)
    assert done.returncode == 2
    assert f"http.bind: 127.0.0.1:{port}: Address already in use" in done.stderr


def test_a_certificate_that_cannot_be_used_is_said(home):
    tls = "tls: {certificate: c.pem, key: k.pem}"
    write(home, f"http: {{bind: '127.0.0.1:0', {tls}}}")
    done = run(home)
    assert done.returncode == 2
    assert "http.tls: cannot be used" in done.stderr
