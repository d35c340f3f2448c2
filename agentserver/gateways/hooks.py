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
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
from starlette.responses import Response
from starlette.routing import Route

from agentserver.contract import Code
from agentserver.core.receipts import LONGEST
from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.endings import start_ending, submit_event
from agentserver.gateways.http import forms
from agentserver.gateways.http.parts import (
    DoorPart,
    ProblemAnswer,
    by_code,
    check_stored,
    open_conversation,
    read_body,
    read_header,
    read_host,
    receive_body,
    report_not_submitted,
)
from agentserver.gateways.principals import Caller, Rate, Role
from agentserver.ports import RejectReason
from agentserver.ports.hooks import map_fields, sign_standard

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


class _SignedHead(NamedTuple):
    """Signature of an event, as given and as it should be.

    Args:
        right: the only right signature.
        given: the signatures in the headers, of which one has to be right.
        time: as signed; None if the sender signs no time.
    """

    right: str
    given: Sequence[str]
    time: str | None = None


def _hash(secret: str, signed: bytes) -> str:
    return hmac.digest(secret.encode(), signed, "sha256").hex()


def _read_github(secret: str, heads: Callable[[bytes], str], body: bytes) -> _SignedHead:
    """Read the head of an event (docs.github.com, Validating webhook deliveries)."""
    return _SignedHead(f"sha256={_hash(secret, body)}", (heads(b"x-hub-signature-256"),))


def _read_slack(secret: str, heads: Callable[[bytes], str], body: bytes) -> _SignedHead:
    """Read the head of an event (docs.slack.dev, Verifying requests from Slack)."""
    at = heads(b"x-slack-request-timestamp")
    right = f"v0={_hash(secret, f'v0:{at}:'.encode() + body)}"
    return _SignedHead(right, (heads(b"x-slack-signature"),), at)


def _read_stripe(secret: str, heads: Callable[[bytes], str], body: bytes) -> _SignedHead:
    """Read the head of an event (docs.stripe.com, Verify webhook signatures)."""
    pairs = [part.strip().partition("=") for part in heads(b"stripe-signature").split(",")]
    at = next((value for name, _, value in pairs if name == "t"), "")
    signatures = [value for name, _, value in pairs if name == "v1"]
    return _SignedHead(_hash(secret, f"{at}.".encode() + body), signatures, at)


def _read_standard(secret: str, heads: Callable[[bytes], str], body: bytes) -> _SignedHead:
    """Read the head of an event (standardwebhooks.com, 1.0); the secret is Base64 after ``whsec_``."""
    at, event = heads(b"webhook-timestamp"), heads(b"webhook-id")
    signatures = [
        each.removeprefix("v1,") for each in heads(b"webhook-signature").split() if each.startswith("v1,")
    ]
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        return _SignedHead("", (), at)
    return _SignedHead(sign_standard(key, event, at, body), signatures, at)


class _Scheme(NamedTuple):
    """Scheme of signatures.

    Args:
        read_head: reads the signature of an event, given the secret, the headers and the body.
        header: that has the id of an event; empty if the body has it.
        member: of the body that has the id.
        challenge: type of the event by which the sender checks an address once; empty without one.
    """

    read_head: Callable[[str, Callable[[bytes], str], bytes], _SignedHead]
    header: bytes = b""
    member: str = ""
    challenge: str = ""


SCHEMES: Final[Mapping[HookSignature, _Scheme]] = MappingProxyType(
    {
        "github": _Scheme(_read_github, header=b"x-github-delivery"),
        "slack": _Scheme(_read_slack, member="event_id", challenge="url_verification"),
        "standard": _Scheme(_read_standard, header=b"webhook-id"),
        "stripe": _Scheme(_read_stripe, member="id"),
    }
)


def verify(hook: Hook, heads: Callable[[bytes], str], body: bytes, now: float) -> None:
    """Check the signature of an event. Raises ProblemAnswer (401)."""
    right, signatures, at = SCHEMES[hook.signature].read_head(hook.secret, heads, body)
    known = [hmac.compare_digest(each.encode("utf-8", "replace"), right.encode()) for each in signatures]
    fresh = at is None or (at.isascii() and at.isdigit() and abs(now - float(at[:15])) <= hook.tolerance)
    if not any(known) or not fresh:
        raise ProblemAnswer(401, _NO_SIGNATURE)


def find_id(hook: Hook, heads: Callable[[bytes], str], value: Any, body: bytes) -> str:
    """Return the sender's id of an event, or one made of its content if it has none."""
    scheme = SCHEMES[hook.signature]
    own = value.get(scheme.member) if isinstance(value, dict) else None
    found = heads(scheme.header) if scheme.header else own if isinstance(own, str) else ""
    return found if _ID.fullmatch(found) else sha256(body).hexdigest()


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
        heads, server = partial(read_header, request), read_host(request)
        body = await receive_body(request)
        verify(hook, heads, body, self.clock())
        principal = Caller(Principal(hook.principal, Trust.STRANGER, (hook.listener,)), Role.USER, RATE, OPEN)
        self.keeper.count(principal)
        if any(heads(name.encode()) != value for name, value in hook.only.items()):
            return Response(status_code=204)
        if forms.media(heads(b"content-type")) != forms.JSON:
            raise ProblemAnswer(415, "An event is application/json.", {"accept-post": forms.JSON})
        value = await read_body(request, forms.read_value)
        challenge = SCHEMES[hook.signature].challenge
        if challenge and isinstance(value, dict) and value.get("type") == challenge:
            return forms.build_json_response({"challenge": str(value.get("challenge", ""))})
        message = _make_message(server, hook, value)
        event = find_id(hook, heads, value, body)
        conversation = await open_conversation(server, principal, event, committed=False)
        with report_not_submitted("id of an event"):
            sent = await submit_event(server, principal.name, conversation, message, hook.listener, event)
        if isinstance(sent.code, Code):
            raise by_code(sent.code)
        if sent.code is not RejectReason.OVER:  # the conversation of an event ends once that is dealt with
            check_stored(sent)
        if self._tasks is not None and not sent.again and sent.code is None:
            event = f"an event of {principal.name}"
            start_ending(self._tasks, event, server, principal.name, conversation, sent.after)
        return forms.build_json_response({"conversation": conversation, "request": sent.request}, 202)


def _make_message(server: DoorHost, hook: Hook, value: Any) -> bytes:
    """Map an event to a message. Raises ProblemAnswer."""
    codec = server.rules.codecs.for_root(hook.root)
    if codec is None:  # a reload has removed it
        raise ProblemAnswer(404)
    return forms.encode_value(codec, map_fields(hook.fields, value, (field.name for field in codec.outline)))


def part(hooks: Sequence[Hook], keeper: TokenKeeper) -> DoorPart:
    """Build the routes of hooks."""
    routes = HookRoutes({hook.name: hook for hook in hooks}, keeper)
    return DoorPart(
        "hooks",
        (Route("/hooks/{hook}", routes.receive, methods=["POST"]),),
        open=True,
        lifespan=routes.run,
    )
