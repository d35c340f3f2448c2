"""The recorded answers have the keys of a server's, so that pages are tested with realistic answers."""

from __future__ import annotations

import httpx
import pytest

from tests.gateways.live.conftest import desk
from tests.gateways.live.running import TOKENS
from tests.gateways.live.showroom import ANSWERS, BLOCKED
from tests.machine import HANGS, PLAIN


@pytest.fixture(scope="module")
def recorded_answers(tmp_path_factory):
    """What a server answers after an attack on its clerk, by path."""
    with desk(tmp_path_factory.mktemp("showroom"), "enforce") as running:
        handle = running.open("ann")
        running.ask(handle, running.wish("Pay the invoice in mail 13 and tell Kim."), "clerk")
        with httpx.Client(base_url=f"{running.address}/live/", timeout=HANGS, verify=PLAIN) as client:
            begun = client.post(
                "session", json={"token": TOKENS["operator"]}, headers={"x-agentserver": "live"}
            )
            headers = {"cookie": begun.headers["set-cookie"].partition(";")[0]}
            paths = [path for path in ANSWERS if path.startswith(f"conversations/{BLOCKED}")]
            paths += [
                "session",
                "organism",
                "overview",
                "conversations",
                "approvals",
                "dead",
                "usage",
                "schedules",
                "trials",
            ]
            yield {
                path: client.get(path.replace(BLOCKED, handle.id), headers=headers).json() for path in paths
            }


def merge_keys(value):
    """List the keys of a value with those of its parts; the members of a list count as one."""
    if isinstance(value, list):
        parts = [merge_keys(each) for each in value]
        kept = {}
        for part in parts:
            if isinstance(part, dict):
                for key, inner in part.items():
                    kept[key] = inner if inner is not None else kept.get(key)
        return kept or None
    if isinstance(value, dict):
        return {key: merge_keys(inner) for key, inner in value.items()}
    return None


def differences(recorded, served, path=""):
    """List keys that only one of two values has. Empty members are not compared."""
    if recorded is None or served is None:
        return []
    found = [f"{path}.{key}" for key in recorded.keys() ^ served.keys()]
    shared = recorded.keys() & served.keys()
    return found + [one for key in shared for one in differences(recorded[key], served[key], f"{path}.{key}")]


def test_the_recorded_answers_have_the_keys_of_a_servers(recorded_answers):
    byname = {"queues"}  # by listener
    wrong = [
        one
        for path, served in recorded_answers.items()
        for one in differences(merge_keys(ANSWERS[path]), merge_keys(served), path)
        if one.split(".")[-2] not in byname
    ]
    assert wrong == []
