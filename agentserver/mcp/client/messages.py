"""Messages of a foreign server, bounded and validated before the library sees them.

A refused answer is replaced by an error for the same request. The library would validate only after parsing, with an
error for each bad item.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson, count_json

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMITS: Final = JsonLimits(bytes=1 << 24)
"""The limits of an answer."""
UNASKED: Final = JsonLimits(bytes=1 << 18, values=1000)
"""The limits of a server's own requests and notifications."""
PENDING: Final = 4096
"""Requests whose answers are waited for at once; the oldest were cancelled long ago."""
UNREADABLE: Final = -32019
"""The error code of an answer that cannot be read; of those that the protocol leaves to implementations."""

INTERNAL: Final = -32603
"""The error code of an answer that is beyond its limits, with a text for its caller."""

UNTRUSTED: Final = "untrustedContentHint"
"""Annotation of a tool whose answers may hold a stranger's words. The library drops what it does not know."""

_ID: Final = rb'"id"\s*+:\s*+(?:(?P<number>\d{1,18})|"(?P<text>[\w.:-]{1,64})")\s*+'
_FIRST: Final = re.compile(rb'\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?+' + _ID + rb"[,}]")
_LAST: Final = re.compile(_ID + rb'(?:,\s*+"jsonrpc"\s*+:\s*+"2\.0"\s*+)?+\}\s*+$')
"""The id of a message that is not parsed: as its first member or its last, which no value inside of it can be."""
_TAIL: Final = 200


class OverLimitError(Exception):
    """A message beyond its limits that answers no known request."""


class MessageForms:
    """The forms of messages and of results, which take a moment to be made. Imports the SDK."""

    def __init__(self) -> None:
        import mcp_types as types

        self.message: ForeignModel[Any] = ForeignModel(types.JSONRPCMessage, by_name=False)
        self.results: Mapping[str, ForeignModel[Any]] = {
            method: ForeignModel(kind, by_name=False)
            for method, kind in (
                ("initialize", types.InitializeResult),
                ("server/discover", types.DiscoverResult),
                ("tools/list", types.ListToolsResult),
                ("tools/call", types.CallToolResult | types.InputRequiredResult),
            )
        }


class ServerMessages:
    """The messages of one server, one by one.

    Args:
        forms: of messages and results.
    """

    def __init__(self, forms: MessageForms) -> None:
        self._forms = forms
        self._requests: dict[int | str, str] = {}

    def ask(self, key: int | str, method: str) -> None:
        """Note a request that is about to be sent: an answer is to come."""
        self._requests[key] = method
        if len(self._requests) > PENDING:
            del self._requests[next(iter(self._requests))]

    def read(self, data: bytes) -> Any:
        """Parse a message; an invalid answer becomes an error with the reason.

        Returns None for a request or notification over its limit. Raises ValueError for a malformed message,
        OverLimitError for one over the limits.
        """
        refused = count_json(data, LIMITS)
        message = refused or self._forms.message.read(data, LIMITS)
        if isinstance(message, RefusedJson):
            return self._refuse(data, message, too_large=refused is not None)
        if hasattr(message, "method"):
            return message if count_json(data, UNASKED) is None else None
        return self._check(message) if hasattr(message, "result") else message

    def _refuse(self, data: bytes, reason: RefusedJson, *, too_large: bool) -> Any:
        """Build the error that replaces an answer that was not parsed."""
        key = _find_request(data)
        if key is not None and self._requests.pop(key, ""):
            return build_error(key, INTERNAL if too_large else UNREADABLE, f"the answer {reason.rule}")
        raise OverLimitError(str(reason)) if too_large else ValueError(str(reason))

    def _check(self, answer: Any) -> Any:
        """Validate an answer against the result type of its request; replace an invalid one with an error."""
        form = self._forms.results.get(method := self._requests.pop(answer.id, ""))
        if method == "tools/list":
            _keep_hints(answer.result)
        found = None if form is None else form.fit(answer.result)
        return build_error(answer.id, UNREADABLE, str(found)) if isinstance(found, RefusedJson) else answer


def _keep_hints(result: Any) -> None:
    """Copy the hint that the library does not know to the metadata of each tool, which it passes on."""
    tools = result.get("tools") if isinstance(result, dict) else None
    for each in tools if isinstance(tools, list) else ():
        stated = each.get("annotations") if isinstance(each, dict) else None
        hint = stated.get(UNTRUSTED) if isinstance(stated, dict) else None
        if isinstance(hint, bool) and isinstance(each.get("_meta", {}), dict):
            each["_meta"] = {**each.get("_meta", {}), UNTRUSTED: hint}


def build_error(key: int | str, code: int, text: str) -> Any:
    """Build an error as the answer to a request."""
    from mcp_types import ErrorData, JSONRPCError

    return JSONRPCError(jsonrpc="2.0", id=key, error=ErrorData(code=code, message=text))


def _find_request(data: bytes) -> int | str | None:
    """Find the id of the request that a message answers, without parsing it; None for an unknown one."""
    found = _FIRST.match(data[:_TAIL]) or _LAST.search(data[-_TAIL:])
    if found is None:
        return None
    return int(found["number"]) if found["number"] is not None else found["text"].decode()
