"""The organism that hop.py and scale.py measure, as YAML of any number of listeners, and its server.

Owns the set-up of a benchmark's server: through ``load``, ``build`` and ``open``, as a user would.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentserver.assembly import build
from agentserver.config import load
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, Sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.assembly import Server
    from agentserver.config import Organism

HERE = Path(__file__).parent
PLENTY = 1 << 40
"""A budget that no measurement exhausts."""

BUDGETS = ("hops", "messages", "queue", "principal", "conversation")
"""What the names of such limits begin with."""

_LISTENER = """
  - {{name: {name}, description: Measured., peers: {peers}, payload_class: shop.{payload}, handler: shop.{handler}}}"""
_UNDECLARED = """
provenance: {mode: audit}"""
_PAUSES = """
  - {name: reader, description: Measured., peers: [page, pay], payload_class: shop.Order, handler: shop.read}
  - {name: page, description: A stranger's words., payload_class: shop.Order, handler: shop.page, trust: source}
  - {name: pay, description: Has consequences., payload_class: shop.Order, handler: shop.echo, trust: sink}"""
_AUDIT = """
provenance: {{mode: audit, relays: [{names}]}}"""
_UNTRUSTED = """
  - {{name: page, description: A stranger's words., payload_class: shop.{payload}, handler: shop.echo, trust: source}}
  - {{name: mailer, description: Has consequences., payload_class: shop.{payload}, handler: shop.echo, trust: sink}}"""


def text(payload: str, provenance: str = "off", *, more: int = 0) -> str:
    """Write the YAML.

    Args:
        payload: the class of the payload.
        provenance: ``off``; ``audit`` or ``dirty``, each listener declared; ``undeclared``, nothing declared; or
            ``pauses``, with a relay that reads a source and calls a sink.
        more: further listeners, which are not measured.
    """
    chain = [(f"step{number}", f"step{number}", f"[step{number + 1}]") for number in range(9)]
    rows = [
        ("ask", "ask", "[answer]"),
        ("answer", "answer", "[ask]"),
        ("spread", "spread", "[worker]"),
        ("worker", "echo", "[]"),
        ("echo", "echo", "[]"),
        ("many", "open_many", "[worker]"),
        ("ask_new", "ask_new", "[answer_new]"),
        ("answer_new", "answer_new", "[ask_new]"),
        ("stay", "stay", "[]"),
        *chain,
        ("step9", "step9", "[]"),
        *((f"beside{number}", "echo", "[]") for number in range(more)),
    ]
    audit = provenance in {"audit", "dirty"}
    rows += [("ask_dirty", "ask_dirty", "[page, answer]")] if audit else []
    listeners = "".join(
        _LISTENER.format(name=name, payload=payload, handler=handler, peers=peers)
        for name, handler, peers in rows
    )
    if provenance == "undeclared":
        return f"name: bench{_UNDECLARED}\njournal: none\nlisteners:{listeners}\n"
    if provenance == "pauses":
        return f"name: bench\nprovenance: {{mode: enforce, relays: [reader]}}\njournal: none\nlisteners:{_PAUSES}\n"
    untrusted = _UNTRUSTED.format(payload=payload) if audit else ""
    declared = _AUDIT.format(names=", ".join(name for name, *_ in rows)) if audit else ""
    return f"name: bench{declared}\njournal: none\nlisteners:{listeners}{untrusted}\n"


@contextmanager
def organism(payload: str, provenance: str = "off", *, more: int = 0) -> Iterator[Organism]:
    """Load the organism from a folder of its own, with budgets that suffice; the arguments are those of ``text``."""
    sys.path.insert(0, str(HERE))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "organism.yaml"
        path.write_text(text(payload, provenance, more=more), "utf-8")
        loaded = load(path, environ={}, project=HERE)
        budgets: dict[str, Any] = {
            each.name: PLENTY for each in fields(loaded.limits) if each.name.startswith(BUDGETS)
        }
        limits = replace(loaded.limits, **budgets, drain=0.01)
        yield replace(loaded, limits=limits)


def server(organism: Organism, journal: Path | None = None) -> Server:
    """A server with its trace book, on the memory engine or on a journal."""
    return build(
        organism, engine=None if journal is None else SqliteEngine(JournalOptions(journal, Sync.NORMAL))
    )
