"""The door: the ASGI application for programs and people that use an organism."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
from starlette.responses import Response
from starlette.routing import Route, Router

from agentserver.foreign_json.threads import ReadingThreads
from agentserver.gateways.http import chats, conversations, forms, lists, operators
from agentserver.gateways.http.admission import Admission, TokenKeeper
from agentserver.gateways.http.connections import Connections, HeldConnections
from agentserver.gateways.http.gate import Gate
from agentserver.gateways.http.openapi import describe
from agentserver.gateways.http.parts import (
    AGAIN,
    DoorPart,
    ProblemAnswer,
    read_caller,
    read_header,
    server_stopping,
)
from agentserver.gateways.tenants import SpentBudgets
from agentserver.supervision import EndEffect, start_helper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from agentserver.gateways.http.options import DoorOptions
    from agentserver.gateways.http.parts import DoorHost

DESCRIPTIONS: Final = 64
"""Descriptions that are kept: one for each set of listeners that a caller may address, and address of the door."""

METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"


class HttpDoor:
    """An ASGI application, which works while ``open`` lasts.

    Args:
        server: running.
        options: the settings.
        keeper: authenticates tokens.
        parts: further routes.
        metrics: returns the metrics as text; None without metrics.
        name: of the organism.
    """

    def __init__(
        self,
        server: DoorHost,
        options: DoorOptions,
        keeper: TokenKeeper,
        parts: Iterable[DoorPart] = (),
        *,
        metrics: Callable[[], bytes] | None = None,
        name: str = "agentserver",
    ) -> None:
        self.host = server
        self.holding = HeldConnections(options, keeper.known)
        self.reading = ReadingThreads()
        self.connections = Connections(options)
        self.admission = Admission(options, keeper, self.holding, self.connections, SpentBudgets(server))
        self._name, self._metrics, self._options = name, metrics, options
        self._described = server.rules
        self._descriptions: dict[tuple[tuple[str, ...] | None, str], bytes] = {}
        talks = (
            conversations.build_part(self.holding, options),
            chats.build_part(self.holding, options, name),
        )
        self._parts = (*talks, lists.build_part(), operators.build_part(), *self._iter_own_parts(), *parts)
        routes = [route for part in self._parts for route in self.admission.guard_routes(part)]
        router = Router(routes, redirect_slashes=False, default=_answer_unknown)
        self._gate = Gate(options, router, self, keeper.refuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one connection of a WebSocket."""
        await self._gate(scope, receive, send)

    def stop(self) -> None:
        """Refuse messages, report not ready, and end streams and waits with their reason."""
        self.holding.stop()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Be open: look after held connections, and enter what the parts need. Leaving it stops the door."""
        async with (
            anyio.create_task_group() as tasks,
            AsyncExitStack() as stack,
        ):  # what parts enter is left first
            stack.callback(tasks.cancel_scope.cancel)
            stack.callback(self.stop)
            for part in self._parts:
                if part.lifespan is not None:
                    await stack.enter_async_context(part.lifespan())
            start_helper(tasks, "ends what revoked principals hold", EndEffect.RESTART, self.holding.look)
            yield

    def _iter_own_parts(self) -> Iterable[DoorPart]:
        probes = (
            Route("/healthz", self._answer_healthy, methods=["GET"]),
            Route("/readyz", self._answer_ready, methods=["GET"]),
        )
        yield DoorPart("probes", probes, probe=True)
        yield DoorPart("description", (Route("/openapi.json", self._describe, methods=["GET"]),))
        if self._metrics is not None:
            yield DoorPart("metrics", (Route("/metrics", self._measure, methods=["GET"]),))

    async def _answer_healthy(self, _request: Request) -> Response:
        return _answer_status("ok")

    async def _answer_ready(self, _request: Request) -> Response:
        if self.holding.stopping:
            raise server_stopping()
        if self.host.trouble:
            message = "The storage of conversations is away, or has lost messages: nothing new is taken."
            raise ProblemAnswer(503, message, {"retry-after": AGAIN})
        return _answer_status("ready")

    async def _describe(self, request: Request) -> Response:
        may, url = read_caller(request).principal.may, self._options.address(read_header(request, b"host"))
        if self.host.rules is not self._described:  # the organism was loaded again
            self._described = self.host.rules
            self._descriptions.clear()
        body = self._descriptions.get((may, url))
        if body is None:
            body = forms.dump_json(describe(self.host.rules, self._name, may, url))
            if len(self._descriptions) >= DESCRIPTIONS:
                del self._descriptions[next(iter(self._descriptions))]
            self._descriptions[may, url] = body
        return Response(body, media_type=forms.JSON)

    async def _measure(self, request: Request) -> Response:
        if read_caller(request).sees is not None:  # they count the messages of all tenants
            raise ProblemAnswer(403, "This role sees no metrics.")
        assert self._metrics is not None
        return Response(self._metrics(), media_type=METRICS)


async def _answer_unknown(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Answer a request for an unknown path."""
    raise ProblemAnswer(404)


def _answer_status(word: str) -> Response:
    return forms.build_json_response({"status": word})
