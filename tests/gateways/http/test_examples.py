"""The examples of docs/http.md are requests to a real server, and get the answers shown there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.gateways.http.desk import desk

pytestmark = pytest.mark.anyio
PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text("utf-8")
EXAMPLES = re.findall(
    r"```http\n(.*?)```\n\nIt is answered (\d+)(?:[^`]*?```json\n(.*?)```)?", PAGE, re.DOTALL
)
VOLATILE = {"conversation", "request", "place", "title"}


def shape(value):
    """A value without what differs from one time to the next."""
    return {name: each for name, each in value.items() if name not in VOLATILE}


async def test_each_example_is_answered_as_documented():
    async with desk() as door, door.client() as ada:
        conversation = ""
        for request, status, body in EXAMPLES:
            head, _, content = request.partition("\n\n")
            first, *lines = head.strip().split("\n")
            method, path = first.split(" ")
            headers = dict(line.split(": ", 1) for line in lines)
            answer = await ada.request(
                method,
                path.replace("{conversation}", conversation),
                headers=headers,
                content=content.encode(),
            )
            assert answer.status_code == int(status), answer.text
            if body:
                told = answer.json()
                assert told.keys() == json.loads(body).keys()
                assert shape(told) == shape(json.loads(body))
                conversation = told.get("conversation", conversation)
        assert len(EXAMPLES) == 4
