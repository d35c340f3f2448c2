"""The users of a broker for one organism, and what each may do, as text of the broker's configuration.

Owns who may publish and hear what. Pure: refuses to know where passwords come from.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agentserver.broker.words import Subjects, word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["configuration", "user_of"]


def user_of(organism: str, listener: str | None) -> str:
    """The user that workers of a listener are at the broker; with None that of the organism's servers."""
    return organism if listener is None else f"{organism}/{listener}"


def configuration(organism: str, listeners: Iterable[str], passwords: Mapping[str, str]) -> str:
    """The accounts of an organism as text that a broker's configuration includes.

    Args:
        organism: its name.
        listeners: those that have workers elsewhere.
        passwords: bcrypt of each user's, by ``user_of``.
    """
    every = sorted(set(listeners))
    server, own = user_of(organism, None), _text(word(organism))
    lines = [
        "accounts {",
        f"  {own}: {{",
        "    jetstream: enabled",
        f"    users: [{{user: {_text(server)}, password: {_text(passwords[server])}}}]",
        "    exports: [",
        *(line for listener in every for line in _exports(organism, listener)),
        "    ]",
        "  }",
    ]
    for listener in every:
        lines += _account(organism, listener, passwords[user_of(organism, listener)])
    return "\n".join([*lines, "}", ""])


def _exports(organism: str, listener: str) -> list[str]:
    """The account of the servers lets one account in, and to three things."""
    subjects, to = Subjects(organism), _text(_account_of(organism, listener))
    pull = f"      {{service: {_text(subjects.pull(listener))}, response_type: stream, accounts: [{to}]}}"
    others = (subjects.acks(listener), subjects.said(listener))
    return [pull, *(f"      {{service: {_text(each)}, accounts: [{to}]}}" for each in others)]


def _account(organism: str, listener: str, password: str) -> list[str]:
    """The account of the workers of a listener.

    It is one of its own since permissions bound what a user publishes, and not to where it has a broker's answer sent:
    in the account of the servers an answer without content could be sent into their log.
    """
    subjects, user = Subjects(organism), user_of(organism, listener)
    allowed = (subjects.said(listener), subjects.pull(listener), subjects.acks(listener))
    servers = _text(word(organism))
    imports = [f"      {{service: {{account: {servers}, subject: {_text(each)}}}}}" for each in allowed]
    return [
        f"  {_text(_account_of(organism, listener))}: {{",
        "    users: [",
        f"      {{user: {_text(user)}, password: {_text(password)}, permissions: {{",
        f"        publish: {{allow: [{', '.join(map(_text, allowed))}]}}",
        f"        subscribe: {{allow: [{_text(subjects.inbox(listener) + '.>')}]}}",
        "      }}",
        "    ]",
        "    imports: [",
        *imports,
        "    ]",
        "  }",
    ]


def _account_of(organism: str, listener: str) -> str:
    return f"{word(organism)}/{word(listener)}"


def _text(value: str) -> str:
    """A text in quotes, so that a ``$`` in it is no variable."""
    return json.dumps(value)
