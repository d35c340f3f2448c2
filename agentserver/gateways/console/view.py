"""Formats the console's screen: replies, listeners, threads, help.

Text of messages has a margin, so that it cannot imitate lines of the console. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.characters.printing import format_amount
from agentserver.contract import Code, SystemError
from agentserver.gateways.console.lines import HELP, describe_usage
from agentserver.gateways.form import find_text_field
from agentserver.payload.generate import Undecodable
from agentserver.payload.names import local
from agentserver.trace.terminal import Style, make_plain_line, split_own_lines
from agentserver.trace.text import iter_entries
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentserver.core.blueprint import Blueprint
    from agentserver.core.messages import Reply
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.threads import Thread, ThreadTree
    from agentserver.gateways.console.lines import Takers
    from agentserver.payload.codec import Codecs
    from agentserver.trace.terminal import Line

MARGIN = "  | "
ASKS = "  ? "
"""The margin of a question, which may quote a message."""
SPENT = (
    "a request may use limits.messages messages and limits.hops hops: ask for less at a time, or raise them"
)
"""The way on after a request has used up its budget; its SystemError says the same for every budget."""


def decode_payload(message: bytes, codecs: Codecs) -> object | None:
    """Decode the payload of an envelope; None if no codec of this server fits."""
    read = envelope.read_sent(message)
    if isinstance(read, envelope.Malformed):
        return None
    codec = codecs.for_root(str(read.payload.tag))
    try:
        return None if codec is None else codec.decode(read.payload)
    except Undecodable:
        return None


def format_reply_lines(
    reply: Reply, codecs: Codecs, *, raw: bool, redact: Callable[[str], str] = str
) -> Iterator[Line]:
    """Format a reply in fields, and as XML if ``raw`` is set or it cannot be decoded.

    ``redact`` takes secrets out of a text before it is split.
    """
    value = decode_payload(reply.message, codecs)
    if isinstance(value, SystemError):
        yield from _format_error(reply.sender, value)
    else:
        yield ((Style.GOOD, reply.sender), (Style.PAYLOAD, f"  {local(reply.root)}"))
        if value is not None:
            yield from format_field_lines(value, redact=redact)
    if raw or value is None:
        yield from _with_margin(redact(reply.message.decode(errors="surrogateescape")), Style.DIM)


def _format_error(sender: str, error: SystemError) -> Iterator[Line]:
    advice = "may be tried again" if error.retry_allowed else "not to be tried again"
    yield ((Style.BAD, f"{sender}  {error.code}"), (Style.DIM, f"  ({advice})"))
    yield from _with_margin(error.message)
    if error.code is Code.BUDGET:
        yield ((Style.DIM, f"{MARGIN}{SPENT}; /new begins a conversation that has used up nothing"),)


def format_field_lines(
    value: object, margin: str = MARGIN, *, redact: Callable[[str], str] = str
) -> Iterator[Line]:
    """Format a payload, one field a line; further lines of a text are indented."""
    for entry in iter_entries(value):
        indent = "  " * entry.depth
        first, *rest = split_own_lines(redact(entry.text or ""))
        yield (
            (Style.DIM, margin),
            (Style.NAME, f"{indent}{entry.name}:"),
            (Style.PLAIN, f" {first}" if first else ""),
        )
        for part in rest:
            yield ((Style.DIM, margin), (Style.PLAIN, f"{indent}  {part}"))


def _with_margin(text: str, style: Style = Style.PLAIN, margin: str = MARGIN) -> Iterator[Line]:
    for part in split_own_lines(text):
        yield ((Style.DIM, margin), (style, part))


def format_listener_lines(blueprint: Blueprint, takers: Takers) -> Iterator[Line]:
    """Format the listeners: their descriptions, payloads and peers."""
    for listener in blueprint.listeners.values():
        kind = "  agent" if listener.agent else ""
        yield (
            (Style.NAME, f"@{listener.name}"),
            (Style.DIM, kind),
            (Style.PLAIN, f"  {listener.description}"),
        )
        codecs = takers[listener.name]
        for codec in codecs:
            root = local(codec.name)
            short = (
                f'  ("@{listener.name} some text" is {root}.{find_text_field(codec)})'
                if find_text_field(codec)
                else ""
            )
            yield (
                (Style.PAYLOAD, f"    {root}"),
                (Style.PLAIN, f"  {describe_usage(codec)}"),
                (Style.DIM, short),
            )
        if listener.peers:
            yield ((Style.DIM, f"    peers: {', '.join(sorted(listener.peers))}"),)


def format_thread_lines(conversation: Conversation) -> Iterator[Line]:
    """Format the conversation's threads as an indented tree: owner, state, queue, id."""
    count = format_amount(conversation.messages, "message")
    yield ((Style.DIM, f"conversation {conversation.id}, {count} so far"),)
    tree = conversation.tree
    pending = [(tree.nodes[tree.root], 0)]
    while pending:
        thread, depth = pending.pop()
        yield _format_thread(tree, thread, depth)
        pending += [(tree.nodes[child], depth + 1) for child in reversed(thread.children)]


def _format_thread(tree: ThreadTree, thread: Thread, depth: int) -> Line:
    return (
        (Style.PLAIN, "  " * depth),
        (Style.NAME, thread.owner),
        (Style.PLAIN, f"  {describe_state(tree, thread)}"),
        (Style.PLAIN, f"  {len(thread.inbox) - 1} queued" if len(thread.inbox) > 1 else ""),
        (Style.PLAIN, f"  {len(thread.held_deliveries)} held" if thread.held_deliveries else ""),
        (Style.WARN, f"  {len(thread.approvals)} to be approved" if thread.approvals else ""),
        (Style.DIM, f"  {thread.id}"),
    )


def describe_state(tree: ThreadTree, thread: Thread) -> str:
    """Describe the state of a thread: ``working`` on a message, ``waiting`` for others or a person, or ``dormant``.

    A message whose listener has no capacity yet counts as in work.
    """
    if thread.inbox:
        return "working"
    if (
        thread.held_deliveries
        or thread.approvals
        or any(not below.quiet for below in tree.iter_descendants(thread.id))
    ):
        return "waiting"
    return "dormant"


def format_help_lines() -> Iterator[Line]:
    """Format the help."""
    yield make_plain_line(
        "@listener text                  a message to a listener whose payload is one required text"
    )
    yield make_plain_line(
        '@listener field=value b="x y"   a message in fields; lines.0.sku=... for nested ones'
    )
    yield make_plain_line("@listener/Payload field=value   the same, where a listener takes several payloads")
    yield make_plain_line("@listener                       text without @ goes there from now on")
    yield make_plain_line(
        "<payload xmlns=...>...          raw XML, a payload or an envelope, over several lines"
    )
    for verb, (argument, meaning) in HELP.items():
        yield ((Style.NAME, f"/{verb} {argument}".ljust(32)), (Style.PLAIN, meaning))
