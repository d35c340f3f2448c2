"""Every reader of foreign JSON meets every bomb of the corpus, and refuses it at a cost that is counted.

The readers are the modules of the package that import the one reader: a new one without a driver here fails.
"""

from __future__ import annotations

import ast
import re
import tracemalloc
from functools import partial
from pathlib import Path

import click
import pytest

import agentserver
from agentserver.cli import memory, send
from agentserver.client import values as client_values
from agentserver.client.errors import ProtocolError
from agentserver.foreign_json.reading import RefusedJson
from agentserver.gateways import agui, inbox
from agentserver.gateways.http import chats, forms, streams
from agentserver.gateways.http.parts import ProblemAnswer
from agentserver.gateways.principals import document, identity
from agentserver.handoff import audit, requests
from agentserver.handoff.edge.heads import FileHeadStore
from agentserver.handoff.managed.agents import SessionCursor
from agentserver.history import export, files
from agentserver.hygiene.json import tree
from agentserver.hygiene.objections import Objection
from agentserver.llm import completer
from agentserver.llm.agent import loop
from agentserver.payload.foreign import lock, mapping
from agentserver.payload.json import values
from agentserver.payload.json.values import JsonRefusal
from agentserver.ports.hooks import Inbox
from agentserver.worker.frames import HEAD, FrameCodec, FrameError, FrameReader
from tests.foreign_json.bombs import PLAIN, aim_bombs

ROOT = Path(__file__).parents[2]
ROOM = 30_000_000
"""Memory that a reader may use in addition to a few copies of the text."""


def refuses(read, data):
    """Whether a reader refuses a text, by an exception of its own or by a value."""
    try:
        found = read(data)
    except (ValueError, ProblemAnswer, ProtocolError, click.exceptions.Exit):
        return True
    return found is None or found is False or isinstance(found, RefusedJson | JsonRefusal | Objection)


def file_of_inbox(data):
    """Read the JSON of a file in an inbox."""
    file = inbox.InboxFile("a.json", inbox.FileVersion(1, len(data), 0), "key", data)
    try:
        return inbox.read_value(Inbox("orders", "in", "clerk", "order"), file)
    except inbox.RefusedFileError:
        return None


def read_frame(data):
    reader = FrameReader(1 << 22)
    reader.feed(len(data).to_bytes(HEAD, "big") + data)
    return reader.take_frame()


def framed_or_spoken(data):
    """Read a frame of a local and of a remote worker; raise only where both refuse it."""
    if refuses(read_frame, data) and refuses(FrameCodec(1 << 22).read_spoken, data):
        raise FrameError


def to_foreign_json(data):
    return mapping.to_foreign(mapping.AS_TEXT, data.decode("utf-8", "surrogateescape"))


def of_file(make, data):
    """Read a note of a handoff's edge. ``make`` gives the note for a folder."""
    note = make()
    note.path.write_bytes(data)
    return note.read()


FRAME = b'{"kind":"returned","call":1,"said":%s}'
RUN = b'{"threadId":"t","runId":"r","messages":[{"id":"1","role":"assistant","toolCalls":%s}],"tools":[],"context":[],"state":{}}'
PRINCIPALS = b'{"form":1,"principals":%s}'
LOCK = b'{"format":1,"server":"s","protocol":"p","tools":%s}'


def read_message(data):
    """Read the message of ``agentserver send`` in a context, as a refusal needs it."""
    with click.Context(click.Command("send")):
        return send._read_message(data.decode("utf-8", "surrogateescape"))


READERS = {
    "agentserver/hygiene/json/tree.py": (tree.read_json_schema, b"%s"),
    "agentserver/payload/json/values.py": (values.read_json, b"%s"),
    "agentserver/payload/foreign/lock.py": (lock.read_lock, LOCK),
    "agentserver/payload/foreign/mapping.py": (to_foreign_json, b"%s"),
    "agentserver/gateways/http/forms.py": (
        lambda data: forms.decode_message(None, forms.JSON, data, None, None, None),
        b"%s",
    ),
    "agentserver/gateways/http/chats.py": (
        chats.read_chat,
        b'{"model":"m","messages":[{"role":"user","content":%s}]}',
    ),
    "agentserver/gateways/http/streams.py": (streams._parse_confirmation, b'{"taken":%s}'),
    "agentserver/gateways/agui.py": (partial(agui.read, decides=True), RUN),
    "agentserver/gateways/principals/document.py": (document.read, PRINCIPALS),
    "agentserver/gateways/principals/identity.py": (identity.read_keys, b'{"keys":%s}'),
    "agentserver/client/values.py": (client_values.read_object, b"[%s]"),
    "agentserver/worker/frames.py": (framed_or_spoken, FRAME),
    "agentserver/handoff/requests.py": (
        lambda data: requests.decode(data.decode("utf-8", "surrogateescape")),
        b"%s",
    ),
    "agentserver/handoff/audit.py": (
        lambda data: audit.parse_seal(data.decode("utf-8", "surrogateescape")),
        b"%s",
    ),
    "agentserver/llm/completer.py": (
        lambda data: completer.decode_value(None, data.decode("utf-8", "surrogateescape")),
        b"%s",
    ),
    "agentserver/llm/agent/loop.py": (
        lambda data: loop._is_object(data.decode("utf-8", "surrogateescape")),
        b"[%s]",
    ),
    "agentserver/gateways/inbox.py": (file_of_inbox, b"%s"),
    "agentserver/cli/send.py": (read_message, b"[%s]"),
    "agentserver/cli/memory.py": (memory.read_note, b'{"agentserver-note":1,"spans":%s}'),
    "agentserver/history/files.py": (lambda data: [*files.read_conversations(data)], b'{"resourceSpans":%s}'),
}
"""A driver of each reader, and the text that a bomb is put into."""

NOTES = {
    "agentserver/handoff/managed/agents.py": lambda folder: SessionCursor("s", folder),
    "agentserver/handoff/edge/heads.py": lambda folder: FileHeadStore(folder / "audit.jsonl"),
}
"""Readers of auxiliary files: they belong to this user, but anybody may have damaged them."""

ELSEWHERE = {
    "agentserver/gateways/http/operators.py": "tests/hostile/attack_bodies.py, over HTTP",
    "agentserver/gateways/live/routes.py": "tests/hostile/attack_bodies.py, over HTTP",
    "agentserver/handoff/validation/worker.py": "answers of a process of its own, of at most 500 characters",
    "agentserver/mcp/client/messages.py": "tests/mcp/client/test_messages.py",
    "agentserver/mcp/client/transport.py": "tests/hostile/attack_mcp.py; reads what this server has written",
    "agentserver/llm/providers.py": "tests/llm/test_bounded.py",
    "agentserver/worker/remote_host.py": "problems of the server that a worker has asked, of at most 10 kB",
    "agentserver/cli/effects.py": "an argument of the operator's own command line",
    "agentserver/effects.py": "answers of effects, which this server has written and bounds",
    "agentserver/flow/results.py": "values of a flow's log, which this server has written and limits.storage bounds",
    "agentserver/cli/conversations.py": "lines of a server of the same user; the figures of one moment",
    "agentserver/history/otel.py": "tests/history/test_otel.py: texts of attributes",
    "agentserver/history/export.py": "below: a file of the user's that may be large",
}


def importers():
    """The modules that read foreign JSON."""
    names = {
        ("agentserver.foreign_json.reading", each)
        for each in ("make_json_reader", "parse_json", "parse_json_or_raise", "count_json")
    }
    names |= {("agentserver.foreign_json.models", "ForeignModel"), ("agentserver.payload.json.values", "read_json"),
              ("agentserver.foreign_json", "reading"), ("agentserver.worker.frames", "read_frame")}  # fmt: skip
    sought = re.compile("|".join(rf"\b{name}\b" for _, name in names))
    for path in sorted(Path(agentserver.__file__).parent.rglob("*.py")):
        place, source = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        if place.startswith("agentserver/foreign_json/") or not sought.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and any(
                (node.module, each.name) in names for each in node.names
            ):
                yield place


def test_each_reader_has_a_driver():
    assert set(importers()) == {*READERS, *NOTES, *ELSEWHERE}


@pytest.mark.parametrize("path", READERS)
def test_a_reader_refuses_each_bomb_and_takes_little_memory(path):
    read, frame = READERS[path]
    bombs = {name: data for name, data in PLAIN.items() if frame == b"%s"} or aim_bombs(frame)
    refuses(read, b"[")  # what is imported and prepared on first use
    for name, data in bombs.items():
        tracemalloc.start()
        try:
            assert refuses(read, data), name
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 6 * len(data) + ROOM, name


@pytest.mark.parametrize("path", NOTES)
def test_a_note_that_is_a_bomb_is_no_note(path, tmp_path):
    for data in PLAIN.values():
        assert refuses(partial(of_file, partial(NOTES[path], tmp_path)), data)


def test_an_export_that_is_a_bomb_is_no_conversation():
    for data in PLAIN.values():
        assert refuses(export.load, data)
