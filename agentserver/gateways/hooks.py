"""Events of other services, as a part of the door: signed, mapped to a payload, and taken once.

A sender is a principal of its own and a stranger: its text is untrusted. Each event has a conversation, which ends with
its request.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
from starlette.responses import Response
from starlette.routing import Route

from agentserver.contract import Code
from agentserver.core.messages import Done
from agentserver.core.receipts import LONGEST
from agentserver.core.state.principals import Principal, Trust
from agentserver.foreign_json.reading import JsonLimits
from agentserver.gateways.http import forms
from agentserver.gateways.http.parts import (
    DoorPart,
    ProblemAnswer,
    by_code,
    check_stored,
    header,
    host,
    open_conversation,
    read_body,
    report_not_submitted,
)
from agentserver.gateways.principals import Caller, Rate, Role
from agentserver.payload.json.elements import element_of
from agentserver.payload.json.values import JsonRefusal, read_json
from agentserver.ports import EngineError, RejectReason
from agentserver.supervision import EndEffect, start_errand
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from anyio.abc import TaskGroup
    from starlette.requests import Request

    from agentserver.gateways.http.admission import TokenKeeper
    from agentserver.gateways.http.parts import DoorHost
    from agentserver.ports.hooks import Hook, HookSignature

RATE: Final = Rate(600, "m")
"""Events that one hook may send."""

OPEN: Final = 10_000
"""Conversations that one hook may have open."""

_ID: Final = re.compile(rf"[!#-~]{{1,{LONGEST}}}")
"""An id that can be a key of a request."""

_NO_SIGNATURE: Final = "The signature of this event is missing, wrong or too old."


def _hex(secret: bytes, *parts: bytes) -> str:
    return hmac.new(secret, b"".join(parts), sha256).hexdigest()


def _github(secret: str, heads: Callable[[bytes], str], body: bytes) -> tuple[str, str, str]:
    """Return the time, the given signature and the right one (docs.github.com, Validating webhook deliveries)."""
    return "", heads(b"x-hub-signature-256"), f"sha256={_hex(secret.encode(), body)}"


def _slack(secret: str, heads: Callable[[bytes], str], body: bytes) -> tuple[str, str, str]:
    """As ``_github`` (docs.slack.dev, Verifying requests from Slack)."""
    at = heads(b"x-slack-request-timestamp")
    return at, heads(b"x-slack-signature"), f"v0={_hex(secret.encode(), f'v0:{at}:'.encode(), body)}"


def _stripe(secret: str, heads: Callable[[bytes], str], body: bytes) -> tuple[str, str, str]:
    """As ``_github`` (docs.stripe.com, Verify webhook signatures): any of several signatures may be right."""
    pairs = [part.strip().partition("=") for part in heads(b"stripe-signature").split(",")]
    at = next((value for name, _, value in pairs if name == "t"), "")
    right = _hex(secret.encode(), f"{at}.".encode(), body)
    given = [value for name, _, value in pairs if name == "v1"]
    return (
        at,
        right if any(hmac.compare_digest(each.encode(), right.encode()) for each in given) else "",
        right,
    )


def _standard(secret: str, heads: Callable[[bytes], str], body: bytes) -> tuple[str, str, str]:
    """As ``_github`` (standardwebhooks.com, 1.0): the secret is Base64 after ``whsec_``."""
    at, event = heads(b"webhook-timestamp"), heads(b"webhook-id")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        return at, "", "-"
    right = base64.b64encode(hmac.digest(key, f"{event}.{at}.".encode() + body, "sha256")).decode()
    given = [each.partition(",")[2] for each in heads(b"webhook-signature").split() if each.startswith("v1,")]
    return (
        at,
        right if any(hmac.compare_digest(each.encode(), right.encode()) for each in given) else "",
        right,
    )


class _Scheme(NamedTuple):
    """Scheme of signatures.

    Args:
        sign: returns the signed time (empty if none is signed), the given signature and the right one.
        header: that has the id of an event; empty if the body has it.
        member: of the body that has the id.
    """

    sign: Callable[[str, Callable[[bytes], str], bytes], tuple[str, str, str]]
    header: bytes = b""
    member: str = ""


SCHEMES: Final[Mapping[HookSignature, _Scheme]] = MappingProxyType(
    {
        "github": _Scheme(_github, header=b"x-github-delivery"),
        "slack": _Scheme(_slack, member="event_id"),
        "standard": _Scheme(_standard, header=b"webhook-id"),
        "stripe": _Scheme(_stripe, member="id"),
    }
)


def verify(hook: Hook, heads: Callable[[bytes], str], body: bytes, now: float) -> None:
    """Check the signature of an event. Raises ProblemAnswer (401)."""
    at, given, right = SCHEMES[hook.signature].sign(hook.secret, heads, body)
    signs_time = hook.signature != "github"
    fresh = not signs_time or (at.isascii() and at.isdigit() and abs(now - float(at[:15])) <= hook.tolerance)
    if not hmac.compare_digest(given.encode("utf-8", "replace"), right.encode()) or not fresh:
        raise ProblemAnswer(401, _NO_SIGNATURE)


def find_id(hook: Hook, heads: Callable[[bytes], str], value: Any, body: bytes) -> str:
    """Return the sender's id of an event, or one made of its content if it has none."""
    scheme = SCHEMES[hook.signature]
    own = value.get(scheme.member) if isinstance(value, dict) else None
    found = heads(scheme.header) if scheme.header else own if isinstance(own, str) else ""
    return found if _ID.fullmatch(found) else sha256(body).hexdigest()


def map_event(hook: Hook, value: Any, members: Sequence[str]) -> dict[str, Any]:
    """Map the JSON of an event to the fields of a payload; a field whose path leads nowhere is left out."""
    found: dict[str, Any] = {}
    for name in members:
        inner, there = value, True
        for key in hook.fields.get(name, name).split("."):
            if key == "$":
                continue
            there = isinstance(inner, dict) and key in inner
            inner = inner[key] if there else None
            if not there:
                break
        if there:
            found[name] = inner
    return found


@dataclass(slots=True)
class HookRoutes:
    """Routes of the hooks.

    Args:
        hooks: by name.
        keeper: counts events and refused requests as it counts those of tokens.
        clock: seconds since the epoch.
    """

    hooks: Mapping[str, Hook]
    keeper: TokenKeeper
    clock: Callable[[], float] = time.time
    _tasks: TaskGroup | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """End the conversations of finished events while the door is open."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def receive(self, request: Request) -> Response:
        """Take an event, or answer one that was taken before."""
        hook = self.hooks.get(request.path_params["hook"])
        if hook is None:
            raise ProblemAnswer(404)
        heads, server = partial(header, request), host(request)
        body = await request.body()
        verify(hook, heads, body, self.clock())
        who = Caller(Principal(hook.principal, Trust.STRANGER, (hook.listener,)), Role.USER, RATE, OPEN)
        self.keeper.count(who)
        if any(heads(name.encode()) != value for name, value in hook.only.items()):
            return Response(status_code=204)
        if forms.media(heads(b"content-type")) != forms.JSON:
            raise ProblemAnswer(415, "An event is application/json.", {"accept-post": forms.JSON})
        value = await read_body(request, read_event)
        if (
            isinstance(value, dict) and value.get("type") == "url_verification"
        ):  # Slack checks an address once
            return _json({"challenge": str(value.get("challenge", ""))}, 200)
        message = _make_message(server, hook, value)
        event = find_id(hook, heads, value, body)
        conversation = await open_conversation(server, who, event, kept=False)
        with report_not_submitted("id of an event"):
            sent = await server.submit(who.name, conversation, message, hook.listener, request=event)
        if isinstance(sent.code, Code):
            raise by_code(sent.code)
        if sent.code is not RejectReason.OVER:  # the conversation of an event ends once that is dealt with
            check_stored(sent)
        if self._tasks is not None and not sent.again and sent.code is None:
            work = partial(_end_when_done, server, who.name, conversation)
            start_errand(self._tasks, f"ends an event of {who.name}", EndEffect.EXPIRY, work, _leave)
        return _json({"conversation": conversation, "request": sent.request}, 202)


def read_event(data: bytes) -> Any:
    """Read the JSON of an event. Raises ProblemAnswer."""
    value = read_json(data, JsonLimits(bytes=len(data)))
    if isinstance(value, JsonRefusal):
        raise forms.faulty(value)
    return value


def _make_message(server: DoorHost, hook: Hook, value: Any) -> bytes:
    """Map an event to a message. Raises ProblemAnswer."""
    codec = server.rules.codecs.for_root(hook.root)
    if codec is None:  # a reload has removed it
        raise ProblemAnswer(404)
    element = element_of(codec, map_event(hook, value, [field.name for field in codec.outline]))
    if isinstance(element, JsonRefusal):
        raise forms.faulty(element)
    return canonical(element)


def _json(value: dict[str, str], status: int) -> Response:
    return Response(forms.dump_json(value), status, media_type=forms.JSON)


async def _end_when_done(server: DoorHost, principal: str, conversation: str) -> None:
    """Wait for the end of the only request of a conversation, and end that. Idle conversations end anyway."""
    with suppress(LookupError, EngineError):
        async with aclosing(server.watch(principal, conversation)) as events:  # type: ignore[type-var]
            over = await _wait_for_done(events)
        if over:
            await server.end(principal, conversation, by=principal)


async def _wait_for_done(events: AsyncIterator[object]) -> bool:
    """Wait for the end of a request. Returns False if the server stops before."""
    async for event in events:
        if isinstance(event, Done):
            return True
    return False


async def _leave(_reason: str) -> None:
    """Do nothing: the conversation ends when it is idle."""


def part(hooks: Sequence[Hook], keeper: TokenKeeper) -> DoorPart:
    """Build the routes of hooks."""
    routes = HookRoutes({hook.name: hook for hook in hooks}, keeper)
    return DoorPart(
        "hooks",
        (Route("/hooks/{hook}", routes.receive, methods=["POST"]),),
        open=True,
        lifespan=routes.run,
    )
