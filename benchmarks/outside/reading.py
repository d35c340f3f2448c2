"""What a script takes out of an output, as a model would by reading it."""

from __future__ import annotations

import re
from typing import Any


def header(message: Any, name: str) -> str:
    """A header of a message; empty without one."""
    entries = message["payload"]["headers"]
    return next((str(entry["value"]) for entry in entries if entry["name"].lower() == name.lower()), "")


def body(message: Any) -> str:
    """The text of a message."""
    payload = message["payload"]
    part = payload["parts"][0] if "parts" in payload else payload
    return str(part["body"]["data"])


def attachment(message: Any, name: str) -> str:
    """The id of the attachment whose filename holds a text."""
    parts = message["payload"].get("parts", ())
    return next(str(part["body"]["attachmentId"]) for part in parts if name in part["filename"])


def address(found: Any, name: str = "") -> str:
    """The address of the first contact, or of the one whose name holds a text."""
    people = [entry["person"] for entry in found["results"]]
    chosen = next(each for each in people if name in each["names"][0]["displayName"])
    return str(chosen["emailAddresses"][0]["value"])


def ref(snapshot: str, name: str) -> str:
    """The reference of the element whose name holds a text."""
    found = re.search(rf'"[^"\n]*{re.escape(name)}[^"\n]*"[^\n]*?\[ref=(e\d+)\]', snapshot)
    if found is None:
        raise LookupError(f"{name} is not in the snapshot")
    return found[1]


def url(snapshot: str, name: str) -> str:
    """The address behind the link whose name holds a text."""
    found = re.search(rf'link "[^"\n]*{re.escape(name)}[^"\n]*"[^\n]*\n\s*- /url: (\S+)', snapshot)
    if found is None:
        raise LookupError(f"{name} is not in the snapshot")
    return found[1]


def match(pattern: str, text: str) -> str:
    """The first group of a pattern in a text."""
    found = re.search(pattern, text)
    if found is None:
        raise LookupError(f"{pattern} is not in the text")
    return found[1]
