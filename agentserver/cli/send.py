"""``agentserver send``: one message to an organism that is served elsewhere, and its answer.

Owns where the token comes from, which is never the command line, where others of the machine could read it. Refuses to
know organisms: the door is all it talks to.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from agentserver.cli import project
from agentserver.cli.reading import when
from agentserver.foreign_json.reading import JsonLimits
from agentserver.foreign_json.reading import parse_json as read_json

if TYPE_CHECKING:
    from agentserver.client import Client, RemoteConversation, ReplyEvent, UnansweredError
    from agentserver.client.conversations import Message

TOKEN: Final = "AGENTSERVER_TOKEN"  # noqa: S105 - where it is, not what it is
URL: Final = "AGENTSERVER_URL"

REFUSED: Final = 1
SILENT: Final = 3
WAITING: Final = 4


class Sending(NamedTuple):
    """The message and the way of sending it; see the options of ``command``."""

    to: str | None
    payload: str | None
    conversation: str | None
    keep: bool
    key: str | None
    within: float


@click.command("send", short_help="Send one message to a door and print the answer.")
@click.argument("message")
@click.option("--to", help="The listener; left out, the payload decides.")
@click.option("--payload", help="The payload's name, where the listener takes several.")
@click.option(
    "--url", envvar=URL, default="http://127.0.0.1:8420", show_default=True, help=f"Of the door, or in {URL}."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help=f"The file that holds the token; {TOKEN} of the environment when left out.",
)
@click.option("--conversation", help="A conversation that is open; left out, one is opened for this message.")
@click.option("--keep", is_flag=True, help="Leave the conversation open, and print its id to standard error.")
@click.option(
    "--key", help="An id of your own: the same message under it is one message, and one conversation."
)
@click.option(
    "--within", type=click.FloatRange(0.1, 86_400.0), default=60.0, show_default=True, help="Seconds to wait."
)
@click.option(
    "--plain", is_flag=True, help="Let the token go over a network unencrypted: something else encrypts it."
)
@click.pass_context
def command(ctx: click.Context, /, message: str, url: str, token_file: Path | None, **asked: Any) -> None:
    """Send MESSAGE, a JSON object or XML, to an organism that agentserver serve serves, and print the answer as JSON.

    MESSAGE is the text itself, or - for standard input. A message that was sent before a connection was lost is not
    sent twice. Needs the extra client.

    The conversation that is opened for MESSAGE is ended once its answer is there. Without an answer in time, or
    after an interrupt, it stays open, and what waits for a person's approval goes on waiting. The exit code is 0
    with an answer, 1 when the door or a listener has refused, 2 when no door can be reached, 3 without an answer in
    time, 4 while a person has to approve.
    """
    plain = asked.pop("plain")
    sending = Sending(**asked)
    token, data = _token(ctx, token_file), _message(ctx, message)
    import anyio

    from agentserver.client import Client

    try:
        client = Client(url, token, patience=sending.within, plain=plain)
    except ValueError as error:
        project.refuse(ctx, str(error))
    ctx.exit(anyio.run(_send, client, data, sending))


def _token(ctx: click.Context, file: Path | None) -> str:
    try:
        found = os.environ.get(TOKEN, "") if file is None else file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        project.refuse(ctx, f"{file}: holds no token that can be read")
    if not found and file is not None:
        project.refuse(
            ctx, f"{file}: is empty; it should hold the token that agentserver principals add has printed"
        )
    if not found:
        project.refuse(ctx, f"a token is needed: in {TOKEN}, or in a file that --token-file names")
    return found


def _message(ctx: click.Context, text: str) -> Message:
    """The message: XML as bytes, JSON as an object."""
    data = sys.stdin.buffer.read() if text == "-" else text.encode("utf-8", "surrogateescape")
    if data.lstrip().startswith(b"<"):
        return data
    found = read_json(data, JsonLimits(bytes=1 << 26))
    if not isinstance(found, dict):
        project.refuse(ctx, "the message is neither a JSON object nor XML")
    return found


async def _send(client: Client, message: Message, sending: Sending) -> int:
    """Send it, and print what comes; gives the exit code."""
    from agentserver.client import ProblemError, ProtocolError, UnreachableError

    try:
        async with client:
            found = await _asked(client, message, sending)
    except ProblemError as error:
        code = f"{error.code}: " if error.code else ""
        project.say(f"{code}{error.detail}", err=True)
        for fault in error.faults:
            project.say(f"{fault.get('pointer') or '/'}: {fault.get('rule', '')}", err=True)
        return REFUSED
    except _LeftError as left:
        return _unanswered(left, sending)
    except TimeoutError:
        project.say(f"no conversation was opened within {sending.within:g} s; nothing was sent", err=True)
        return SILENT
    except (UnreachableError, ProtocolError) as error:
        project.say(f"{client.url}: {error}", err=True)
        return project.UNUSABLE
    return _printed(found)


async def _asked(client: Client, message: Message, sending: Sending) -> ReplyEvent | None:
    import anyio

    from agentserver.client import UnansweredError

    own, until = sending.conversation is None, anyio.current_time() + sending.within
    with anyio.fail_after(sending.within):
        conversation = (
            await client.open(sending.key) if own else client.conversation(sending.conversation or "")
        )
    if sending.keep:
        project.say(f"conversation {conversation.id}", err=True)
    ended = own and not sending.keep
    try:
        within = until - anyio.current_time()
        return await conversation.ask(
            message, sending.to, payload=sending.payload, key=sending.key, within=within
        )
    except UnansweredError as error:
        ended = False
        raise _LeftError(conversation.id, error) from error
    except anyio.get_cancelled_exc_class():
        if ended:
            project.say(f"interrupted; the message continues in conversation {conversation.id}", err=True)
        ended = False
        raise
    finally:
        if ended:
            await _closed(conversation)


class _LeftError(Exception):
    """No answer came in time, and the conversation stays open.

    Args:
        conversation: its id.
        unanswered: the message, and what of it waits for a person.
    """

    def __init__(self, conversation: str, unanswered: UnansweredError) -> None:
        super().__init__(conversation)
        self.conversation, self.unanswered = conversation, unanswered


def _unanswered(left: _LeftError, sending: Sending) -> int:
    """Say what an unanswered message waits for, and how to come back to it; gives the exit code."""
    project.say(f"no answer within {sending.within:g} s; the message goes on", err=True)
    for one in left.unanswered.waits:
        project.say(
            f"a message to {one.to} waits for a person until {when(one.until)}:"
            f" agentserver approvals show {one.approval} says how to approve it",
            err=True,
        )
    project.say(
        "the same message waits for its answer again with"
        f" --conversation {left.conversation} --key {left.unanswered.key}",
        err=True,
    )
    return WAITING if left.unanswered.waits else SILENT


async def _closed(conversation: RemoteConversation) -> None:
    """End it, though the one who waits may be going; what became of the message says more than a failure here."""
    from contextlib import suppress

    import anyio

    from agentserver.client import ProblemError, UnreachableError

    with anyio.move_on_after(2, shield=True), suppress(ProblemError, UnreachableError):
        await conversation.close()


def _printed(found: ReplyEvent | None) -> int:
    from agentserver.characters.printing import escape_markup

    if found is None:
        click.echo("ended without an answer", err=True)
        return SILENT
    click.echo(escape_markup(found.xml) if found.xml else json.dumps(found.value))
    return 0
