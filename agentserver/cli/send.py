"""``agentserver send``: sends one message to a served organism and prints the answer.

The token is never taken from the command line, where other users of the machine could read it.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from agentserver.characters.printing import escape_markup, escape_unseen
from agentserver.cli import project
from agentserver.cli.listing import format_time
from agentserver.cli.process import ExitCode
from agentserver.foreign_json.reading import JsonLimits
from agentserver.foreign_json.reading import parse_json as read_json

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.client import Client, DeltaEvent, RemoteConversation, ReplyEvent, UnansweredError
    from agentserver.client.conversations import Message

URL: Final = "AGENTSERVER_URL"


class SendOptions(NamedTuple):
    """Message and how to send it; see the options of ``command``."""

    to: str | None
    payload: str | None
    conversation: str | None
    keep: bool
    key: str | None
    within: float
    follow: bool


@click.command("send", short_help="Send one message to a door and print the answer.")
@click.argument("message")
@click.option("--to", help="Listener; by default chosen by the payload.")
@click.option("--payload", help="Name of the payload, if the listener takes several.")
@click.option(
    "--url",
    envvar=URL,
    default="http://127.0.0.1:8420",
    show_default=True,
    help=f"URL of the door; may be set in {URL}.",
)
@project.token_option
@click.option("--conversation", help="An open conversation; by default a new one.")
@click.option("--keep", is_flag=True, help="Leave the conversation open, and print its id to standard error.")
@click.option(
    "--key",
    help="Idempotency key: a message sent again with it is the same message in the same conversation.",
)
@click.option(
    "--within", type=click.FloatRange(0.1, 86_400.0), default=60.0, show_default=True, help="Seconds to wait."
)
@click.option(
    "--follow",
    is_flag=True,
    help="Show progress, calls and the text of the answer as they come, on standard error.",
)
@click.option(
    "--plain",
    is_flag=True,
    help="Allow the token on an unencrypted connection, if something else encrypts it.",
)
def command(message: str, url: str, token_file: Path | None, **options: Any) -> None:
    """Send MESSAGE, a JSON object or XML, to a served organism and print the answer as JSON.

    MESSAGE is the text itself, or - for standard input. A message sent before a connection was lost is not sent
    twice. Needs the extra client.

    The conversation opened for MESSAGE ends with its answer. Without an answer in time, or after an interrupt,
    it stays open, and messages keep waiting for a person's approval. The exit code is 0 with an answer, 1 when
    the door or a listener refuses, 2 when no door can be reached, 3 without an answer in time, 4 while a
    person has to approve.
    """
    plain = options.pop("plain")
    sending = SendOptions(**options)
    token, data = project.read_token(token_file), _read_message(message)
    import anyio

    from agentserver.client import Client

    with project.refuse_on(ValueError):
        client = Client(url, token, patience=sending.within, plain=plain)
    project.exit_command(anyio.run(_send, client, data, sending))


def _read_message(text: str) -> Message:
    """Read the message: XML as bytes, JSON as an object."""
    data = sys.stdin.buffer.read() if text == "-" else text.encode("utf-8", "surrogateescape")
    if data.lstrip().startswith(b"<"):
        return data
    found = read_json(data, JsonLimits(bytes=1 << 26))
    if not isinstance(found, dict):
        project.refuse("the message is neither a JSON object nor XML")
    return found


async def _send(client: Client, message: Message, sending: SendOptions) -> int:
    """Send the message and print the result. Returns the exit code."""
    from agentserver.client import ProblemError, ProtocolError, UnreachableError

    try:
        async with client:
            found = await _exchange(client, message, sending)
    except ProblemError as error:
        code = f"{error.code}: " if error.code else ""
        project.say(f"{code}{error.detail}", err=True)
        for fault in error.faults:
            project.say(f"{fault.get('pointer') or '/'}: {fault.get('rule', '')}", err=True)
        return ExitCode.FOUND
    except _NoAnswerError as unanswered:
        return _report_unanswered(unanswered, sending)
    except TimeoutError:
        project.say(f"no conversation was opened within {sending.within:g} s; nothing was sent", err=True)
        return ExitCode.SILENT
    except (UnreachableError, ProtocolError) as error:
        project.say(f"{client.url}: {error}", err=True)
        return ExitCode.UNUSABLE
    return _print_answer(found)


async def _exchange(client: Client, message: Message, sending: SendOptions) -> ReplyEvent | None:
    import anyio

    from agentserver.client import UnansweredError

    own, until = sending.conversation is None, anyio.current_time() + sending.within
    with anyio.fail_after(sending.within):
        conversation = (
            await client.open(sending.key) if own else client.conversation(sending.conversation or "")
        )
    if sending.keep:
        project.say(f"conversation {conversation.id}", err=True)
    closes = own and not sending.keep
    try:
        within = until - anyio.current_time()
        return await _ask(conversation, message, sending, within)
    except UnansweredError as error:
        closes = False
        raise _NoAnswerError(conversation.id, error) from error
    except anyio.get_cancelled_exc_class():
        if closes:
            project.say(f"interrupted; the message continues in conversation {conversation.id}", err=True)
        closes = False
        raise
    finally:
        if closes:
            await _close(conversation)


async def _ask(
    conversation: RemoteConversation, message: Message, sending: SendOptions, within: float
) -> ReplyEvent | None:
    """Send the message and wait for its answer, with what comes before it on standard error if wanted."""
    import anyio

    from agentserver.client import ProblemError, ProtocolError, UnansweredError, UnreachableError
    from agentserver.supervision import EndEffect, start_errand

    ask = partial(
        conversation.ask, message, sending.to, payload=sending.payload, key=sending.key, within=within
    )
    if not sending.follow:
        return await ask()
    line = _FollowedLine()
    async with anyio.create_task_group() as tasks:
        start_errand(tasks, "follows an answer", EndEffect.OWNER, partial(_follow, conversation, line))
        found: Any = None
        try:
            found = await ask()
        except (ProblemError, ProtocolError, UnansweredError, UnreachableError) as error:
            found = error  # it leaves without the group
        tasks.cancel_scope.cancel()
    line.end()
    if isinstance(found, Exception):
        raise found
    return found  # type: ignore[no-any-return]


async def _follow(conversation: RemoteConversation, line: _FollowedLine) -> None:
    from contextlib import suppress

    from agentserver.client import (
        DeltaEvent,
        DoneEvent,
        ProblemError,
        ProgressEvent,
        ProtocolError,
        ReplyEvent,
        UnreachableError,
    )

    with suppress(ProblemError, ProtocolError, UnreachableError):
        async for event in conversation.events(deltas=True):
            if isinstance(event, ProgressEvent):
                line.show(f"{event.sender}: {event.text}")
            elif isinstance(event, DeltaEvent):
                line.add(event)
            elif isinstance(event, ReplyEvent | DoneEvent):  # not taken here: it is the answer of the request
                return


class _FollowedLine:
    """The text of an answer on standard error, and lines about other events."""

    def __init__(self) -> None:
        self._size = 0

    def add(self, delta: DeltaEvent) -> None:
        """Show a piece or a call. After a gap, the text is left to the answer."""
        match delta.kind:
            case "text" if delta.offset == self._size:
                self._size += len(delta.text)
                click.echo("\n".join(map(escape_unseen, delta.text.split("\n"))), err=True, nl=False)
            case "call":
                self.show(f"{delta.sender} calls {delta.name}")
            case "result":
                self.show(f"{delta.name} has answered" + (f": {delta.text}" if delta.text else ""))
            case "reset" | "difference":
                self.show(f"the text above does not count: {delta.text or 'the answer differs'}")

    def show(self, text: str) -> None:
        """Show a line."""
        self.end()
        project.say(text, err=True)

    def end(self) -> None:
        """End the line of the text."""
        if self._size:
            click.echo(err=True)
        self._size = 0


class _NoAnswerError(Exception):
    """Error that no answer came in time, and that the conversation stays open.

    Args:
        conversation: its id.
        unanswered: the message, and its waiting approvals.
    """

    def __init__(self, conversation: str, unanswered: UnansweredError) -> None:
        super().__init__(conversation)
        self.conversation, self.unanswered = conversation, unanswered


def _report_unanswered(unanswered: _NoAnswerError, sending: SendOptions) -> int:
    """Report what an unanswered message waits for, and how to resume. Returns the exit code."""
    project.say(f"no answer within {sending.within:g} s; the message is still being handled", err=True)
    for one in unanswered.unanswered.waits:
        project.say(
            f"a message to {one.to} waits for a person until {format_time(one.until)}:"
            f" agentserver approvals show {one.approval} shows how to approve it",
            err=True,
        )
    project.say(
        "to wait for its answer again, send the same message with"
        f" --conversation {unanswered.conversation} --key {unanswered.unanswered.key}",
        err=True,
    )
    return ExitCode.WAITING if unanswered.unanswered.waits else ExitCode.SILENT


async def _close(conversation: RemoteConversation) -> None:
    """End the conversation, even if cancelled; a failure here matters less than the message's outcome."""
    from contextlib import suppress

    import anyio

    from agentserver.client import ProblemError, UnreachableError

    with anyio.move_on_after(2, shield=True), suppress(ProblemError, UnreachableError):
        await conversation.close()


def _print_answer(found: ReplyEvent | None) -> int:
    if found is None:
        click.echo("ended without an answer", err=True)
        return ExitCode.SILENT
    click.echo(escape_markup(found.xml) if found.xml else json.dumps(found.value))
    return 0
