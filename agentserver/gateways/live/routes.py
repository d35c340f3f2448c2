"""HTTP routes of the live view, and its ports to the server and the tokens."""

from __future__ import annotations

import logging
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentserver.core.decide import answers
from agentserver.core.encoding.history import UnrecordedError
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.foreign_json.reading import JsonLimits, parse_json
from agentserver.gateways.hosts import list_approvals
from agentserver.gateways.http.streams import wait_for_disconnect
from agentserver.gateways.live import trials, views
from agentserver.gateways.live.entrance import COOKIE, list_sign_in_routes, set_cookie
from agentserver.gateways.live.feed import Feed
from agentserver.gateways.live.pages import HEADERS
from agentserver.gateways.live.views import LayoutCache
from agentserver.gateways.tenants import OwnedReader
from agentserver.history.overview import PERIODS
from agentserver.ports import EngineError, NoOutcomeError, NotStoredError, QuotaError
from agentserver.ports.principals import InvalidPrincipalsError
from agentserver.supervision import EndEffect, start_errand
from agentserver.trace.redact import EVERY, Redaction, collect_names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.types import ASGIApp, Scope

    from agentserver.core.state.approvals import Approval
    from agentserver.gateways.live.feed import LiveHost
    from agentserver.gateways.live.pages import Assets
    from agentserver.gateways.live.trials import TrialRun
    from agentserver.gateways.principals import Caller
    from agentserver.gateways.principals.sessions import Sessions
    from agentserver.ports import EngineReader
    from agentserver.ports.schedules import Schedule

T = TypeVar("T")


_LOG: Final = logging.getLogger(__name__)

HEADER: Final = "x-agentserver"
"""A page of another origin cannot send it without being allowed to, and nobody is."""

BODY: Final = 4096
"""Bytes of a request."""

USAGE: Final = 30 * 86400.0
"""Seconds covered by the usage page."""

READS: Final = 2
"""Concurrent reads of the engine: each holds its result in memory, and a shared thread."""

TROUBLES: Final[tuple[tuple[type[Exception], tuple[int, str]], ...]] = (
    (UnrecordedError, (404, "this server keeps no record of what happens: it has no journal")),
    (LookupError, (404, "it does not exist, or no longer")),
    (UnicodeEncodeError, (404, "it does not exist, or no longer")),  # no text is called so
    (UnreadableError, (500, "its stored data is corrupt")),
    (QuotaError, (429, "its principal has as many conversations open as it may")),
    (NoOutcomeError, (503, str(NoOutcomeError()))),
    (EngineError, (503, "nothing can be read or kept at present")),
    (NotStoredError, (503, "nothing can be read or kept at present")),
)
"""The answer to each kind of trouble; the first that fits."""


class LiveView:
    """The live view of one server.

    Args:
        host: the server.
        sessions: of browsers.
        assets: the files of the page.
        name: the organism's.
        secrets: takes secrets of the organism out of a text.
        prompt_readers: returns the roles that may read recorded completions.
    """

    def __init__(
        self,
        host: LiveHost,
        sessions: Sessions,
        assets: Assets,
        *,
        name: str,
        secrets: Callable[[str], str] = str,
        prompt_readers: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._host = host
        self._name = name
        self._secrets = secrets
        self._prompt_readers = prompt_readers
        self._sessions = sessions
        self._scenery = LayoutCache(name)
        self._assets = assets
        self._watching: Counter[str] = Counter()
        self._room = anyio.Semaphore(READS)
        self._trying = anyio.CapacityLimiter(1)

    @property
    def watching(self) -> int:
        """Streams at present."""
        return self._watching.total()

    def caller(self, scope: Scope) -> Caller | None:
        """Return the caller of a request's session; None without one."""
        return self._find_session(Request(scope))

    async def prepare(self, scope: Scope) -> None:
        """Read the session of a request. Raises InvalidPrincipalsError."""
        await self._sessions.prepare(Request(scope).cookies.get(COOKIE, ""))

    async def _prepare_session(self, request: Request) -> Caller | None:
        await self._sessions.prepare(request.cookies.get(COOKIE, ""))
        return self._find_session(request)

    def _find_session(self, request: Request) -> Caller | None:
        return self._sessions.caller(request.cookies.get(COOKIE, ""))

    def list_pages(self) -> list[Route]:
        """List the routes that need no session."""
        return [
            Route("/", self._assets.page),
            Route("/live/files/{name}", self._assets.file),
            Route("/live/session", self._log_in, methods=["POST"]),
            Route("/live/session", self._log_out, methods=["DELETE"]),
            Route("/live/session", self._show_me, methods=["GET"]),
            *list_sign_in_routes(self._sessions),
        ]

    def list_streams(self) -> list[Route]:
        """List the routes whose requests last."""
        return [self._build_view_route("/live/feed", self._feed)]

    def list_view_routes(self) -> list[Route]:
        """List the routes that show data or decide."""
        return [
            self._build_view_route("/live/overview", self._show_overview),
            self._build_view_route("/live/organism", self._show_organism),
            self._build_view_route("/live/conversations", self._show_conversations),
            self._build_view_route("/live/conversations/{conversation}", self._show_conversation),
            self._build_view_route("/live/conversations/{conversation}/compare/{other}", self._compare),
            self._build_view_route("/live/conversations/{conversation}/requests", self._list_requests),
            self._build_decision_route("/live/conversations/{conversation}/requests/{request}", self._cancel),
            self._build_view_route("/live/conversations/{conversation}/download", self._download),
            self._build_view_route("/live/conversations/{conversation}/test", self._save_test),
            self._build_view_route("/live/trials", self._describe_policy),
            self._build_decision_route("/live/trials", self._try_policy, trials.POLICY),
            self._build_view_route(
                "/live/conversations/{conversation}/completions/{completion}", self._show_completion
            ),
            self._build_view_route(
                "/live/conversations/{conversation}/messages/{number}", self._show_message
            ),
            self._build_view_route("/live/approvals", self._show_approvals),
            self._build_view_route("/live/approvals/{approval}", self._show_approval),
            self._build_decision_route("/live/approvals/{approval}", self._answer),
            self._read_route("/live/dead", views.list_dead),
            self._read_route("/live/dead/{delivery}", views.show_letter),
            self._build_decision_route("/live/dead/{delivery}", self._settle),
            self._read_route(
                "/live/schedules",
                lambda reader, _: views.list_schedules(reader, self._list_schedules(reader), time.time()),
            ),
            self._read_route("/live/usage", lambda reader, _: views.sum_usage(reader, time.time() - USAGE)),
        ]

    # Who asks

    async def _log_in(self, request: Request) -> Response:
        body = await _parse_body(request)
        token = body.get("token") if body is not None else None
        if isinstance(token, str):
            await self._sessions.tokens.prepare(token)
        session = await self._sessions.begin(token) if isinstance(token, str) else None
        if session is None:
            return _refuse(401, "no token of a principal's")
        key, caller = session
        if not caller.oversees:
            await self._sessions.end(key)
            return _refuse(403, "the live view is for operators and viewers")
        answer = self._respond(self._describe_caller(caller))
        set_cookie(answer, COOKIE, key)
        return answer

    async def _log_out(self, request: Request) -> Response:
        if HEADER not in request.headers:
            return _refuse(403, f"it wants the header {HEADER}")
        await self._prepare_session(request)
        answer = self._respond({"leave": await self._sessions.end(request.cookies.get(COOKIE, ""))})
        answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
        return answer

    def _build_view_route(
        self, path: str, show: Callable[[Request, Caller], Awaitable[Response | ASGIApp]]
    ) -> Route:
        """Build a route for operators and viewers."""

        async def answer(request: Request) -> Any:
            caller = await self._prepare_session(request)
            if caller is None:
                return _refuse(401, "log in")
            return await _handle_errors(partial(show, request, caller))

        return Route(path, answer, methods=["GET"])

    def _read_route(self, path: str, show: Callable[..., Any]) -> Route:
        """Build a route that shows stored data; ``show`` takes a reader, a redaction and the path's parameters."""

        async def answer(request: Request, caller: Caller) -> Response:
            redaction, parameters = self._make_redaction(caller), request.path_params
            await self._check_owner(caller, parameters)
            return self._respond(
                await self._read(caller, lambda reader: show(reader, redaction, **parameters))
            )

        return self._build_view_route(path, answer)

    def _build_decision_route(
        self,
        path: str,
        decide: Callable[[Request, Caller, dict[str, Any]], Awaitable[Response]],
        limit: int = BODY,
    ) -> Route:
        """Build a route for operators only, which accepts requests of our own page with at most so many bytes."""

        async def answer(request: Request) -> Any:
            caller = await self._prepare_session(request)
            if caller is None:
                return _refuse(401, "log in")
            if not caller.decides:
                return _refuse(403, "operators decide")
            body = await _parse_body(request, limit)
            if body is None:
                return _refuse(400, f"it wants a JSON object and the header {HEADER}")
            if await self._prepare_session(request) is None:  # the body has taken its time
                return _refuse(401, "log in")
            return await _handle_errors(partial(decide, request, caller, body))

        return Route(path, answer, methods=["POST"])

    def _reads_prompts(self, caller: Caller) -> bool:
        return str(caller.role) in self._prompt_readers()

    def _make_redaction(self, caller: Caller) -> Redaction:
        if not caller.redacted:
            return Redaction(secrets=self._secrets)
        return Redaction((EVERY,), self._secrets, collect_names(self._host.rules.blueprint))

    def _describe_caller(self, caller: Caller) -> dict[str, Any]:
        return {
            "name": caller.name,
            "role": str(caller.role),
            "decides": caller.decides,
            "organism": self._name,
        }

    @staticmethod
    def _respond(value: Any) -> Response:
        return JSONResponse(value, headers={**HEADERS, "cache-control": "no-store"})

    async def _show_me(self, request: Request) -> Response:
        """Return the principal who is logged in; without one an empty name, and the providers at which to sign in."""
        caller = await self._prepare_session(request)
        client = self._sessions.client
        offered = {"name": "", "issuers": () if client is None else client.issuers}
        return self._respond(offered if caller is None else self._describe_caller(caller))

    # Shown

    async def _show_organism(self, request: Request, caller: Caller) -> Response:  # noqa: ARG002 - one signature
        description = await self._scenery.describe(self._host.rules.blueprint)
        return self._respond({**description, "queues": self._host.queues() if caller.sees is None else {}})

    async def _show_overview(self, request: Request, caller: Caller) -> Response:
        period = request.query_params.get("period", "")
        if period and period not in PERIODS:
            return _refuse(400, f"a period is one of {', '.join(PERIODS)}")
        queues = self._host.queues() if caller.sees is None else {}
        approvals = list_approvals(self._host, caller)
        own_state = self._host.describe_itself() if caller.sees is None else None
        now = time.time()
        found = await self._read(
            caller, lambda reader: views.describe_overview(reader, period, now, own_state)
        )
        return self._respond({**found, **views.describe_pending(queues, approvals, now)})

    async def _show_conversations(self, request: Request, caller: Caller) -> Response:
        redaction = self._make_redaction(caller)
        query = {key: request.query_params.get(key, "") for key in ("where", "after")}
        try:
            found = await self._read(
                caller, lambda reader: views.list_conversations(reader, redaction, **query)
            )
        except UnicodeEncodeError:
            raise
        except UnreadableError:
            raise
        except ValueError as error:
            return _refuse(400, str(error))
        return self._respond(found)

    async def _feed(self, request: Request, caller: Caller) -> Response | ASGIApp:
        self._watching[caller.name] += 1
        key = request.cookies[COOKIE]

        async def is_valid() -> bool:
            with suppress(InvalidPrincipalsError):
                await self._sessions.prepare(key)
            return self._sessions.caller(key) is not None

        def over() -> None:
            self._watching -= Counter((caller.name,))

        return Feed(self._host, self._sessions.tokens, caller, self._make_redaction(caller), is_valid, over)

    async def _check_owner(self, caller: Caller, parameters: dict[str, Any]) -> None:
        """Check that a conversation is the caller's, at the same cost if it is another tenant's. Raises LookupError."""
        if caller.sees is not None and "conversation" in parameters:
            await self._host.find_conversation(caller.sees, parameters["conversation"])

    async def _show_conversation(self, request: Request, caller: Caller) -> Response:
        redaction, key = self._make_redaction(caller), request.path_params["conversation"]
        await self._check_owner(caller, request.path_params)
        prompts = self._reads_prompts(caller)
        return self._respond(
            await self._read(
                caller, lambda reader: views.describe_conversation(reader, redaction, key, prompts=prompts)
            )
        )

    async def _compare(self, request: Request, caller: Caller) -> Response:
        redaction, parameters, prompts = (
            self._make_redaction(caller),
            request.path_params,
            self._reads_prompts(caller),
        )
        for key in parameters.values():
            await self._check_owner(caller, {"conversation": key})
        return self._respond(
            await self._read(
                caller, lambda reader: views.compare(reader, redaction, **parameters, prompts=prompts)
            )
        )

    async def _show_message(self, request: Request, caller: Caller) -> Response:
        redaction, parameters = self._make_redaction(caller), request.path_params
        await self._check_owner(caller, parameters)
        rules = None if caller.redacted else self._host.rules
        return self._respond(
            await self._read(
                caller, lambda reader: views.show_message(reader, redaction, rules, **parameters)
            )
        )

    async def _show_completion(self, request: Request, caller: Caller) -> Response:
        if not self._reads_prompts(caller):
            return _refuse(403, "prompts and answers of models are for other roles (llm: prompts: roles:)")
        redaction, parameters = self._make_redaction(caller), request.path_params
        await self._check_owner(caller, parameters)
        return self._respond(
            await self._read(caller, lambda reader: views.show_completion(reader, redaction, **parameters))
        )

    async def _read(self, caller: Caller, work: Callable[[Any], T]) -> T:
        owner = caller.sees

        def read(reader: EngineReader) -> T:
            return work(reader if owner is None else OwnedReader(reader, owner))

        async with self._room:
            return await self._host.read(read)

    def _list_schedules(self, reader: Any) -> Sequence[Schedule]:
        """List the schedules; none for a tenant, because they are the organism's own."""
        return () if isinstance(reader, OwnedReader) else self._host.schedules

    async def _list_requests(self, request: Request, caller: Caller) -> Response:
        """List the open requests of a conversation, oldest first."""
        key = request.path_params["conversation"]
        await self._check_owner(caller, request.path_params)
        found = self._host.conversation(key)
        return self._respond({"open": [] if found is None else list(found.requests)})

    async def _cancel(self, request: Request, caller: Caller, body: dict[str, Any]) -> Response:
        """Cancel a request; the record of its cancellation names the operator."""
        if body.get("do") != "cancel":
            return _refuse(400, "it wants cancel")
        parameters = request.path_params
        if not await self._host.cancel(
            caller.sees, parameters["conversation"], parameters["request"], by=caller.name
        ):
            return _refuse(409, "it is settled, or unknown")
        return self._respond({})

    async def _download(self, request: Request, caller: Caller) -> Response:
        """Return the records of a conversation as JSON lines, as ``agentserver trace --json`` prints them."""
        redaction, key = self._make_redaction(caller), request.path_params["conversation"]
        await self._check_owner(caller, request.path_params)
        found = await self._read(caller, lambda reader: views.download(reader, redaction, key))
        _LOG.info("conversation %s was downloaded by %s (%s)", key, caller.name, caller.role)
        headers = {
            **HEADERS,
            "cache-control": "no-store",
            "content-disposition": 'attachment; filename="conversation.jsonl"',
        }
        return Response(found, media_type="application/x-ndjson", headers=headers)

    async def _save_test(self, request: Request, caller: Caller) -> Response:
        """Return a conversation and a pytest test that decides it again, as a ZIP file for the project's folder."""
        if not caller.decides:
            return _refuse(403, "a saved conversation has all that was said: operators save it")
        key = request.path_params["conversation"]
        await self._check_owner(caller, request.path_params)
        try:
            found = await self._read(
                caller, lambda reader: views.write_test(reader, self._secrets, key, self._host.organism_path)
            )
        except views.UnsavableError as error:
            return _refuse(409, str(error))
        _LOG.info("conversation %s was saved as a test by %s (%s)", key, caller.name, caller.role)
        headers = {
            **HEADERS,
            "cache-control": "no-store",
            "content-disposition": f'attachment; filename="test-{key[:8]}.zip"',
        }
        return Response(found, media_type="application/zip", headers=headers)

    # Trials of policies

    async def _describe_policy(self, request: Request, caller: Caller) -> Response:  # noqa: ARG002 - one signature
        """Return the policy in force, as the text that a trial begins with."""
        if not caller.decides:
            return _refuse(403, "operators try policies")
        text = self._secrets(await self._host.find_policy_text())
        return self._respond({"policy": text, "limit": trials.CONVERSATIONS, "bytes": trials.POLICY})

    async def _try_policy(self, request: Request, caller: Caller, body: dict[str, Any]) -> Response:
        """Judge stored conversations by a policy, until the page is left or a limit is reached."""
        if self._trying.borrowed_tokens:
            return _refuse(429, "another trial runs; one at a time")
        async with self._trying:
            try:
                trial_request = trials.read_request(body)
                trial = await self._host.prepare_trial(trial_request.policy, trial_request.mode)
                ids = await self._read(caller, lambda reader: trials.choose_ids(reader, trial_request))
            except (UnicodeEncodeError, UnreadableError):
                raise
            except ValueError as error:
                return _refuse(400, self._secrets(str(error)))
            run = trials.TrialRun(trial, partial(self._read, caller))
            _LOG.info(
                "a policy (sha256 %s) is tried on %d conversations by %s (%s)",
                sha256(trial_request.policy.encode()).hexdigest()[:16],
                len(ids),
                caller.name,
                caller.role,
            )
            if not await _finish(request, run, ids):
                return Response(status_code=499, headers=dict(HEADERS))
        return self._respond(trials.describe_trial(run, len(ids), self._secrets))

    async def _settle(self, request: Request, caller: Caller, body: dict[str, Any]) -> Response:
        """Try a dead letter again, or give it up."""
        delivery, action = request.path_params["delivery"], body.get("do")
        if caller.sees is not None:
            await self._read(caller, lambda reader: views.find_letter(reader, delivery))
        if action == "discard":
            await self._host.discard(delivery, caller.name)
            _LOG.info("dead letter %s was discarded by %s (%s)", delivery, caller.name, caller.role)
            return self._respond({})
        if action == "requeue":
            return self._respond({"conversation": await self._host.requeue(delivery, caller.name)})
        return _refuse(400, "it wants requeue or discard")

    # Approvals

    async def _show_approvals(self, request: Request, caller: Caller) -> Response:  # noqa: ARG002 - one signature
        pending = [self._describe_approval(one, caller) for one in list_approvals(self._host, caller)]
        decided = await self._read(caller, views.list_decisions)
        return self._respond({"waiting": pending, "decided": decided})

    def _describe_approval(self, one: Approval, caller: Caller) -> dict[str, Any]:
        conversation = self._host.conversation(one.delivery.conversation)
        description = views.describe_approval(one, "" if conversation is None else conversation.principal)
        description["why"] = "" if caller.redacted else self._secrets(description["why"])
        until = one.at + self._host.rules.blueprint.find_approval_time(one.delivery.to)
        return {**description, "left": max(0.0, until - time.time())}

    async def _show_approval(self, request: Request, caller: Caller) -> Response:
        one = self._find_approval(request, caller)
        rules, conversation = self._host.rules, self._host.conversation(one.delivery.conversation)
        known = None if caller.redacted or conversation is None else rules.origins(conversation, one.delivery)
        description = {
            **self._describe_approval(one, caller),
            **views.describe_question(
                one, rules.codecs, self._make_redaction(caller), known, with_content=not caller.redacted
            ),
            "barred": ""
            if conversation is None
            else answers.bar_approver(conversation, caller.name, rules, one.delivery.to),
            "digest": one.digest if caller.decides else "",
        }
        return self._respond(description)

    def _find_approval(self, request: Request, caller: Caller) -> Approval:
        """Find the approval of a path. Raises LookupError."""
        key = request.path_params["approval"]
        found = next((one for one in list_approvals(self._host, caller) if one.id == key), None)
        if found is None:
            raise LookupError(key)
        return found

    async def _answer(self, request: Request, caller: Caller, body: dict[str, Any]) -> Response:
        one = self._find_approval(request, caller)
        verdict, digest = body.get("answer"), body.get("digest")
        if not (isinstance(verdict, str) and verdict in set(Answer) and isinstance(digest, str)):
            return _refuse(400, "it wants an answer and the digest that was shown")
        conversation = self._host.conversation(one.delivery.conversation)
        if conversation is not None and verdict != Answer.DENY:
            barred = answers.bar_approver(conversation, caller.name, self._host.rules, one.delivery.to)
            if barred:
                return _refuse(403, barred)
        answered = ApprovalAnswer(one.id, digest, Answer(verdict), caller.name)
        if not await self._host.answer(one.delivery.conversation, answered):
            return _refuse(409, "it no longer waits, or is not the message that was shown")
        return self._respond({})


async def _handle_errors(answer: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await answer()
    except (
        LookupError,
        UnreadableError,
        UnicodeEncodeError,
        QuotaError,
        EngineError,
        NotStoredError,
    ) as error:
        return _refuse(*next(problem for kind, problem in TROUBLES if isinstance(error, kind)))


async def _finish(request: Request, run: TrialRun, ids: list[str]) -> bool:
    """Finish a run; False if the caller left before."""
    finished = False
    async with anyio.create_task_group() as group:

        async def end_on_leave() -> None:
            await wait_for_disconnect(request.receive)
            run.cancel()
            group.cancel_scope.cancel()

        start_errand(group, "waits for the page of a trial to be left", EndEffect.OWNER, end_on_leave)
        await run.judge(ids)
        finished = True
        group.cancel_scope.cancel()
    return finished


async def _parse_body(request: Request, limit: int = BODY) -> dict[str, Any] | None:
    """Parse the JSON object of a request from our own page; None for any other request."""
    if HEADER not in request.headers or request.headers.get("content-type") != "application/json":
        return None
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > limit:
            return None
    found = parse_json(data, JsonLimits(bytes=limit, values=100))
    return found if isinstance(found, dict) else None


def _refuse(status: int, title: str) -> Response:
    headers = {**HEADERS, "cache-control": "no-store"}
    body = {"title": title, "status": status}
    return JSONResponse(body, status, headers, "application/problem+json")
