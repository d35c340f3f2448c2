"""Clients that use three servers at random, as behind a naive load balancer, and record the promises made to them.

Defines a caller that is left waiting: a request to a server that lived, on a network and a database that
were well for longer than the request should have taken; and a message without an end when everything is idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import httpx

from tests.machine import HANGS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.crash.cluster.servers import Server

WAIT = 15
"""Seconds that a request asks the door to wait for its answer."""

LATE = 25.0
"""Seconds in which the door has answered such a request."""

REFUSED = frozenset({403, 422, 502, 504})
"""Statuses that end a message which was accepted: its listener has failed, or was not allowed."""


@dataclass
class Promises:
    """Results that clients got."""

    accepted: dict[str, str] = field(default_factory=dict)
    """Requests that were accepted, with their conversation."""
    keyed: dict[tuple[str, str], str] = field(default_factory=dict)
    """The request of each message under an id of its sender's, by conversation and id."""
    opened: set[str] = field(default_factory=set)
    decided: Counter = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)

    def accept(self, conversation: str, request: str, key: str | None = None) -> None:
        """Note that a message was accepted."""
        self.accepted[request] = conversation
        if key is not None and self.keyed.setdefault((conversation, key), request) != request:
            self.faults.append(f"id {key} of {conversation} was two requests")


class Clients:
    """All clients of a run.

    Args:
        servers: that they use.
        token: of their principal.
        seed: of their choices.
        well: gives since when the database and the way to it have been well.
    """

    def __init__(self, servers: Sequence[Server], token: str, seed: str, well: Callable[[], float]) -> None:
        self.servers, self.random, self.promises = servers, Random(seed), Promises()
        self._well = well
        self._http = httpx.AsyncClient(
            headers={"authorization": f"Bearer {token}"},
            limits=httpx.Limits(max_connections=None, keepalive_expiry=3),
        )
        self.ending = False
        self.open_letters: dict[str, str] = {}

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def pick(self, without: Server | None = None) -> Server:
        """Choose a server as a balancer does that knows nothing."""
        return self.random.choice([one for one in self.servers if one is not without])

    def number(self) -> str:
        """Draw an id."""
        return f"{self.random.getrandbits(64):x}"

    # One request

    async def ask(
        self, server: Server, method: str, path: str, *, within: float = LATE, **how: Any
    ) -> httpx.Response | None:
        """Make one request; None when its outcome is unknown."""
        began = time.monotonic()
        if not server.url:
            await asyncio.sleep(0.05)
            return None
        try:
            return await self._http.request(method, f"{server.url}{path}", timeout=within, **how)
        except httpx.TimeoutException:
            since = max(server.disturbed, self._well())
            if time.monotonic() - since > within and began > since and server.alive:
                self.promises.waiting.append(
                    f"{method} {path} at {server} for {within:.0f} s: {how.get('json')}"
                )
        except httpx.TransportError:
            await asyncio.sleep(0.05)
        return None

    async def until(
        self, method: str, path: str, *, first: Server | None = None, not_at: Server | None = None, **how: Any
    ) -> httpx.Response:
        """Make a request at one server after the other until one decides about it."""
        server = first or self.pick(not_at)
        missing = 0
        while True:
            found = await self.ask(server, method, path, **how)
            missing += found is not None and found.status_code == 404
            if found is not None:
                self.promises.counts[f"status {found.status_code}"] += 1
            if found is not None and (found.status_code not in {401, 404, 429, 503} or missing > 3):
                return found
            await asyncio.sleep(0.1 if found is None else 0.3)
            server = self.pick(not_at)

    async def open(self, at: Server | None = None) -> str:
        """Open a conversation under an id."""
        found = await self.until(
            "POST", "/v1/conversations", first=at, headers={"idempotency-key": self.number()}
        )
        assert found.status_code == 201, found.text
        key = found.json()["conversation"]
        self.promises.opened.add(key)
        return str(key)

    async def send(
        self, conversation: str, kind: str, *, own: str | None = None, wait: int = WAIT,
        first: Server | None = None, not_at: Server | None = None,
    ) -> httpx.Response | None:  # fmt: skip
        """Send a message: with an id until its outcome is known, or once without."""
        path = f"/v1/conversations/{conversation}/messages?to=desk&payload=Order&wait={wait}"
        body = {"kind": kind, "text": own or self.number()}
        found: httpx.Response | None
        if own is None:
            found = await self.ask(first or self.pick(not_at), "POST", path, json=body)
        else:
            headers = {"idempotency-key": own}
            found = await self.until("POST", path, first=first, not_at=not_at, json=body, headers=headers)
        if found is not None:
            self._note(conversation, own, found)
        return found

    def _note(self, conversation: str, own: str | None, found: httpx.Response) -> None:
        if found.status_code in {200, 202}:
            self.promises.accept(conversation, found.json()["request"], own)
            self.promises.counts["again"] += bool(found.json().get("again"))
        elif found.status_code in {404, 409, 410} or found.status_code == 500:
            self.promises.faults.append(f"{found.status_code} for {conversation}: {found.text[:200]}")

    # What clients do

    async def answer_all(self, conversation: str, kind: str) -> None:
        """Send a message under an id and come back for its answer at other servers until it is there."""
        own = self.number()
        self.open_letters[own] = conversation
        wait = self.random.choice([0, 2, WAIT])
        while True:
            found = await self.send(conversation, kind, own=own, wait=wait)
            if found is None or found.status_code != 202:
                break
            wait = WAIT
            if self.random.random() < 0.3 and await self.follow(conversation, found.json()):
                break
        del self.open_letters[own]
        self.promises.counts["answered"] += 1

    async def follow(self, conversation: str, accepted: dict[str, Any]) -> bool:
        """Read the events of a conversation at some server until a request ends; gives whether it did."""
        server, after = self.pick(), accepted["after"]
        path = f"{server.url}/v1/conversations/{conversation}/events?after={after}&wait={WAIT}"
        if not server.url:
            return False
        seen: set[str] = set()
        with contextlib.suppress(httpx.HTTPError):
            async with self._http.stream("GET", path, timeout=LATE) as stream:
                if stream.status_code != 200:
                    return False
                async for line in stream.aiter_lines():
                    if not line.startswith("data: "):
                        continue
                    event = json.loads(line[6:])
                    place = event.get("place", "")
                    if place in seen:
                        self.promises.faults.append(
                            f"event {place} of {conversation} came twice in one stream"
                        )
                    seen.add(place)
                    if event["type"] == "done" and event["request"] == accepted["request"]:
                        self.promises.counts["streamed"] += 1
                        return True
        return False

    async def talk(self) -> None:
        """Hold conversations until the end."""
        while not self.ending:
            conversation = await self.open()
            for _ in range(self.random.randint(1, 6)):
                kind = self.random.choice(["plain", "plain", "tool", "tool", "flow", "slow", "vault"])
                if self.random.random() < 0.7:
                    await self.answer_all(conversation, kind)
                else:
                    await self.send(conversation, "plain", wait=self.random.choice([0, WAIT]))
                await asyncio.sleep(self.random.random() * 0.4)
                if self.ending:
                    break
            if self.random.random() < 0.2:
                await self.until("DELETE", f"/v1/conversations/{conversation}")

    async def approve(self) -> None:
        """Answer what waits for a person, each time at another server than it was seen at."""
        while True:
            server = self.pick()
            found = await self.ask(server, "GET", "/v1/approvals", within=5)
            waits = found.json()["approvals"] if found is not None and found.status_code == 200 else []
            for one in waits[:20]:
                body = {"digest": one["digest"], "answer": "once"}
                # The owner of the conversation may have died just now: then this waits for a take-over.
                said = await self.ask(self.pick(server), "POST", f"/v1/approvals/{one['id']}", json=body)
                if said is not None:
                    self.promises.counts[f"approval {said.status_code}"] += 1
                if said is not None and said.status_code == 204:
                    self.promises.decided[one["id"]] += 1
            await asyncio.sleep(0.3)

    async def rest(self, talking: Sequence[Awaitable[None]]) -> None:
        """End the load: wait until each message has its answer."""
        self.ending = True
        tasks = [asyncio.ensure_future(one) for one in talking]
        _, left = await asyncio.wait(tasks, timeout=HANGS)
        for own, conversation in self.open_letters.items():
            self.promises.waiting.append(f"message {own} of {conversation} has no end")
        for task in left:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if task not in left and task.exception() is not None:
                self.promises.faults.append(f"a client failed: {task.exception()!r}")
