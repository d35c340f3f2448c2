"""The protocol side of an organism as an MCP server, on the SDK's low-level API: lists, calls, results, request state.

Imports the SDK, which comes with the extra ``mcp``.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from math import inf
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.exceptions import MCPError

from agentserver.mcp.serving.calls import CallDone, CallPending, HostCall, answer_of
from agentserver.mcp.serving.elicitation import takes_forms
from agentserver.mcp.serving.tasks import PATIENCE, VERSION, TaskMethods, describe_created, supports_tasks
from agentserver.payload.json.values import JsonRefusal
from agentserver.ports import QuotaError
from agentserver.trace.traceparent import link_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from agentserver.core.guard import Rules
    from agentserver.core.state.principals import Principal
    from agentserver.mcp.serving.calls import Calls, ServedTool, ToolAnswer
    from agentserver.mcp.serving.elicitation import ApprovalForms

logger = logging.getLogger("agentserver.mcp")

AGAIN = "You made this call before and had no answer to it: it was not made a second time."
"""The words to a host about such a call, in addition to its result."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools and settings that hosts see.

    Args:
        name: of the organism.
        rules: used to read answers.
        tools: by name, in order.
        calls: carries them out.
        find_principal: returns the authenticated principal of the caller.
        approvals: address of the page where a person decides, without the id of the approval; empty without one.
        patience: seconds for which a call that waits for a person may be asked for again.
        version: of the server, as hosts see it.
        forms: ask the hosts of operators; None to ask no host.
    """

    name: str
    rules: Rules
    tools: Mapping[str, ServedTool]
    calls: Calls
    find_principal: Callable[[], Principal]
    approvals: str = ""
    patience: float = 3600.0
    version: str = ""
    forms: ApprovalForms | None = None


def build_protocol_server(offer: Offer) -> Server[Any]:
    """Build the SDK's server for an offer."""
    connection = token_hex(8)  # of the one host at standard streams

    async def list_tools(_ctx: ServerRequestContext[Any], _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_make_tool(each) for each in offer.tools.values()])

    async def call_tool(ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
        return await _call(offer, ctx, params, _derive_host_id(ctx, connection, ctx.request_id))

    server: Server[Any] = Server(
        offer.name, version=offer.version, on_list_tools=list_tools, on_call_tool=call_tool
    )

    async def follow_progress(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "notifications/cancelled":
            given_up = _derive_host_id(ctx, connection, (ctx.params or {}).get("requestId"))
            offer.calls.cancel(offer.find_principal().name, given_up)
        return await call_next(ctx)

    server.middleware.append(follow_progress)
    security = RequestStateSecurity.ephemeral(ttl=offer.patience)
    server.middleware.append(RequestStateBoundary(security, default_audience=offer.name))
    page = partial(_request_page, offer)
    TaskMethods(offer.tools, offer.rules, offer.calls, offer.find_principal, _make_result, page).add_to(
        server
    )
    return server


def _make_tool(tool: ServedTool) -> types.Tool:
    gives = None if tool.gives is None else dict(tool.gives)
    return types.Tool(
        name=tool.name, description=tool.description, input_schema=dict(tool.schema), output_schema=gives
    )


async def _call(
    offer: Offer, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams, host: str
) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
    tool = offer.tools.get(params.name)
    if tool is None:
        raise MCPError(code=types.INVALID_PARAMS, message="Unknown tool")
    message = tool.encode_message(params.arguments or {})
    if isinstance(message, JsonRefusal):
        return _fail(f"The arguments are not accepted.\n{message}")
    elicits, tasks = _can_ask(offer, ctx), supports_tasks(ctx)
    beats = 0

    async def beat(text: str) -> None:
        nonlocal beats
        beats += 1
        await ctx.session.report_progress(beats, None, text)

    try:
        progress = "progress_token" in (ctx.meta or {})
        patience = PATIENCE if tasks else inf
        removed, state = partial(_is_gone, ctx), _read_state(params)
        own = state.get("request", "")
        call = HostCall(tool, message, host, own, elicits or tasks, patience, removed, progress)
        if offer.forms is not None:
            await offer.forms.take(params, state)
        with link_requests((ctx.meta or {}).get("traceparent")):
            outcome = await offer.calls.call(offer.find_principal(), call, beat)
            question = _ask_person(offer, ctx, outcome) if elicits and not (tasks and own) else None
            if isinstance(outcome, CallPending) and elicits and question is None and not tasks:
                # no form for this person, and no page: wait like any other host
                call = replace(call, request=outcome.request, leaving=False)
                outcome = await offer.calls.call(offer.find_principal(), call, beat)
    except QuotaError:
        return _fail("Busy. Try again later.")
    except (RuntimeError, ValueError, BaseExceptionGroup):
        logger.exception("a call of %s could not be carried out", tool.name)
        raise MCPError(code=types.INTERNAL_ERROR, message="Internal error") from None
    if isinstance(outcome, CallDone):
        return _make_result(answer_of(outcome.replies, offer.rules, tool), repeated=outcome.again)
    if question is not None:  # a second round is a task, which may take longer
        return question
    return describe_created(outcome.key, outcome.approval) if tasks else _explain_delay(offer, outcome)


def _derive_host_id(ctx: ServerRequestContext[Any], connection: str, request: object) -> str:
    """Derive an id of a call that is unique at its host; empty if ids are unique within a request only.

    It is a digest, so that its size is bounded.
    """
    session = connection if ctx.request is None else ctx.request.headers.get(MCP_SESSION_ID_HEADER)
    return "" if session is None else sha256(f"{session} {request!r}".encode()).hexdigest()


async def _is_gone(ctx: ServerRequestContext[Any]) -> bool:
    """Tell whether the connection on which a call waits is lost. By standard streams it is cancelled then."""
    return ctx.request is not None and bool(await ctx.request.is_disconnected())


def _read_state(params: types.CallToolRequestParams) -> dict[str, str]:
    """Read the state of the call that a host asks about again. The boundary has verified its seal."""
    return {} if params.request_state is None else json.loads(params.request_state)


def _elicits(ctx: ServerRequestContext[Any]) -> bool:
    """Tell whether a host can open a page for a person and call again."""
    capabilities = ctx.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return ctx.protocol_version >= VERSION and elicitation is not None and elicitation.url is not None


def _can_ask(offer: Offer, ctx: ServerRequestContext[Any]) -> bool:
    """Tell whether the host can ask a person, by a form or on a page."""
    return (bool(offer.approvals) and _elicits(ctx)) or (offer.forms is not None and takes_forms(ctx))


def _ask_person(
    offer: Offer, ctx: ServerRequestContext[Any], outcome: CallDone | CallPending
) -> types.InputRequiredResult | None:
    """Ask the host to show the form of an operator, or to open the approval page; None if it can do neither.

    On the page, the host's claim about the decision is ignored.
    """
    if isinstance(outcome, CallDone) or not outcome.approval:
        return None
    form = offer.forms.build(outcome) if offer.forms is not None and takes_forms(ctx) else None
    if form is not None or not (offer.approvals and _elicits(ctx)):
        return form
    state = json.dumps({"request": outcome.request, "approval": outcome.approval})
    return types.InputRequiredResult(
        input_requests={"approval": _elicit(offer, outcome.approval)}, request_state=state
    )


def _elicit(offer: Offer, approval: str) -> types.ElicitRequest:
    link = types.ElicitRequestURLParams(
        message=f"A person has to approve this call: approval {approval}.", url=f"{offer.approvals}{approval}"
    )
    return types.ElicitRequest(params=link)


def _request_page(offer: Offer, ctx: ServerRequestContext[Any], approval: str) -> dict[str, Any] | None:
    """Make the request to open the approval page; None without a page that the host can show."""
    if not (offer.approvals and _elicits(ctx)):
        return None
    return _elicit(offer, approval).model_dump(by_alias=True, mode="json", exclude_none=True)


def _explain_delay(offer: Offer, outcome: CallPending) -> types.CallToolResult:
    reason = (
        f"A person has to approve this call: approval {outcome.approval}. Nobody has within {offer.calls.deadline:g} s."
        if outcome.approval
        else f"This call is not done after {offer.calls.deadline:g} s."
    )
    before = f"{AGAIN} " if outcome.again else ""
    return _fail(
        f"{before}{reason} It continues. Make the same call again, with the same arguments, to get its result."
    )


def _fail(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _make_result(answer: ToolAnswer, *, repeated: bool) -> types.CallToolResult:
    texts = (*answer.texts, AGAIN) if repeated else answer.texts
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text) for text in texts],
        structured_content=None if answer.value is None else dict(answer.value),
        is_error=answer.error,
    )
