"""The live view with recorded answers instead of a server: the same pages at each run, in tests, pictures and a benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, unquote, urlsplit

from agentserver.gateways.live.pages import HEADERS, TYPES, Assets
from agentserver.gateways.live.views import pair_rows

ADDRESS = "http://live.localhost"
ANSWERS = json.loads(Path(__file__).with_name("showroom.json").read_text("utf-8"))
ASSETS = Assets()
NOON = 1_700_000_000
"""When the answers were given, in seconds since 1970."""

BLOCKED, FINE, WAITS, BROKEN, MODEL = (
    next(key for key in ANSWERS if key.startswith(f"conversations/{start}") and key.count("/") == 1).partition("/")[2]
    for start in ("82ba", "e6fc", "8bd5", "2093", "ec54")
)  # fmt: skip
"""Conversations: with refusals, without, with a waiting approval, with a dead letter, with prompts."""

ASKED = next(key for key in ANSWERS if key.startswith("approvals/"))
LETTER = next(key for key in ANSWERS if key.startswith("dead/"))

PAGES = {
    "overview": ("overview", "Overview"),
    "organism": ("organism", "Organism"),
    "conversations": ("conversations", "Conversations"),
    "conversation": (f"conversations/{BLOCKED}", "Conversation"),
    "prompts": (f"conversations/{MODEL}", "Conversation"),
    "comparison": (f"conversations/{BLOCKED}/compare/{FINE}", "Two conversations"),
    "trial": (f"conversations/{BLOCKED}/try", "Try a policy"),
    "trials": ("conversations/try/refused%3Dyes", "Try a policy"),
    "approvals": ("approvals", "Approvals"),
    "approval": (ASKED, "Approve"),
    "dead": ("dead", "Dead letters"),
    "letter": (LETTER, "Dead letter"),
    "usage": ("usage", "Usage"),
    "nothing": ("conversations/00000000", "Nothing to show"),
    "wrong": ("conversations/where/cost%3Elots", "Conversations"),
}
"""Each page with its address and its heading."""

EMPTY = {
    "approvals": {"waiting": [], "decided": []},
    "conversations": {"conversations": [], "after": ""},
    "dead": {"letters": [], "more": False, "discarded": []},
    "schedules": [],
    "usage": {"listeners": [], "models": [], "principals": []},
    "overview": {
        **ANSWERS["overview"],
        "total": dict.fromkeys(ANSWERS["overview"]["total"], 0),
        "times": [{**one, "conversations": 0, "refused": 0, "money": 0, "mean": 0} for one in ANSWERS["overview"]["times"]],
        "principals": [], "listeners": [], "waiting": [], "queues": [], "dead": 0, "servers": [],
    },
}  # fmt: skip
"""Answers of a server that has done nothing yet."""

STREAM = """
window.feeds = [];
window.EventSource = class {
  static CLOSED = 2;
  readyState = 1;
  constructor() {
    window.feeds.push(this);
    queueMicrotask(() => this.onmessage({ data: JSON.stringify(window.first) }));
  }
  close() {}
};
"""
"""Replaces the stream of events by ``feeds``, through which a test sends events."""


def _list_differing(one, other):
    """List the differing fields of two recorded messages, as the server would from the messages themselves."""
    kept = [
        ANSWERS.get(f"conversations/{key}/messages/{row['number']}")
        for key, row in ((BLOCKED, one), (FINE, other))
    ]
    return [left["name"] for left, right in zip(*(each["fields"] for each in kept), strict=False) if left["value"] != right["value"]] if all(kept) else []  # fmt: skip


class Showroom:
    """Answers the requests of a page.

    Args:
        signed_in: whether there is a session.
        empty: whether nothing has happened yet.
    """

    def __init__(self, *, signed_in=True, empty=False):
        compared = [ANSWERS[f"conversations/{each}"]["rows"] for each in (BLOCKED, FINE)]
        pairs = {f"conversations/{BLOCKED}/compare/{FINE}": pair_rows(*compared, _list_differing)}
        self._answers = {**ANSWERS, **pairs, **(EMPTY if empty else {})}
        self._waiting = 0 if empty else len(ANSWERS["approvals"]["waiting"])
        if not signed_in:
            self._answers["session"] = {"name": "", "issuers": ["https://login.example.org"]}

    def install(self, context):
        """Let the pages of a browser's context have the answers, and no other request leave."""
        first = {"queues": ANSWERS["organism"]["queues"], "waiting": self._waiting, "missed": 0, "counted": [], "hops": []}  # fmt: skip
        context.add_init_script(f"window.first = {json.dumps(first)};{STREAM}")
        context.route("**/*", self._handle)

    def _handle(self, route):
        url = urlsplit(route.request.url)
        path = url.path.removeprefix("/live/")
        if url.path == "/":
            self._send(route, "index.html")
        elif path.startswith("files/"):
            self._send(route, path.removeprefix("files/"))
        elif route.request.method == "POST":
            self._say(route, 200, self._answers[f"POST {path}"])
        elif "lots" in str(parse_qs(url.query).get("where")):
            self._say(
                route, 400, {"title": "cost: lots is no number; write a number of dollars, such as cost>0.5"}
            )
        elif unquote(path) in self._answers:
            self._say(route, 200, self._answers[unquote(path)])
        else:
            self._say(route, 404, {"title": "it does not exist, or no longer"})

    def _send(self, route, name):
        answer = ASSETS.file(SimpleNamespace(path_params={"name": name}, headers={}))
        kind = TYPES[name.rpartition(".")[2]]
        route.fulfill(body=answer.body, headers={**HEADERS, "content-type": kind})

    @staticmethod
    def _say(route, status, value):
        headers = {**HEADERS, "content-type": "application/json"}
        route.fulfill(status=status, body=json.dumps(value), headers=headers)
