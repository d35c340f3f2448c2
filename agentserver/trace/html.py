"""Renders records as one self-contained page: no script, font or request. Pure.

Everything in it is a text node or an attribute that the serialiser escapes; nothing from a message is parsed as
markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lxml import etree

from agentserver.characters.printing import escape_unseen
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.trace.text import detail_lines, line, read_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.wording import DetailWording

STYLE = (
    "body{font:14px/1.5 monospace;margin:2em;background:#fff;color:#222}"
    "div{white-space:pre-wrap;overflow-wrap:anywhere}details{margin-left:12em}"
    ".refused,.failed,.withdrawn{color:#b00}.approved{color:#070}"
    ".dropped,.discarded,.retried,.repaired,.ended,.asked,.flagged{color:#850}"
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(title: str, records: Sequence[AuditRecord], wording: DetailWording = WORDING) -> str:
    """Render the records of one conversation as an HTML page with collapsible messages."""
    root = etree.Element("html", lang="en")
    head = etree.SubElement(root, "head")
    etree.SubElement(head, "meta", charset="utf-8")
    # A second line of defence: a browser may load and run nothing here.
    etree.SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": POLICY})
    etree.SubElement(head, "title").text = escape_unseen(title)
    etree.SubElement(head, "style").text = STYLE
    body = etree.SubElement(root, "body")
    etree.SubElement(body, "h1").text = escape_unseen(title)
    for hop in read_trace(records):
        row = etree.SubElement(body, "div", {"class": str(Event(hop.record.event))})
        row.text = "\n".join(
            "".join(escape_unseen(text) for _, text in each)
            for each in (line(hop, wording), *detail_lines(hop, wording=wording))
        )
        if hop.record.message:
            unfold = etree.SubElement(body, "details")
            etree.SubElement(unfold, "summary").text = "message"
            text = hop.record.message.decode("utf-8", "surrogateescape")
            etree.SubElement(unfold, "div").text = "\n".join(map(escape_unseen, text.split("\n")))
    return etree.tostring(root, method="html", encoding="unicode", doctype="<!DOCTYPE html>")
