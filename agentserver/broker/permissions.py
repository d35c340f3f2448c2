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
    """The account of an organism as text that a broker's configuration includes.

    Args:
        organism: its name.
        listeners: those that have workers elsewhere.
        passwords: bcrypt of each user's, by ``user_of``.
    """
    subjects = Subjects(organism)
    server = user_of(organism, None)
    users = [f"      {{user: {_text(server)}, password: {_text(passwords[server])}}}"]
    for listener in sorted(set(listeners)):
        user = user_of(organism, listener)
        publish = (subjects.said(listener), subjects.pull(listener), subjects.acks(listener))
        users.append(
            f"      {{user: {_text(user)}, password: {_text(passwords[user])}, permissions: {{\n"
            f"        publish: {{allow: [{', '.join(map(_text, publish))}]}}\n"
            f"        subscribe: {{allow: [{_text(subjects.inbox(listener) + '.>')}]}}\n"
            f"      }}}}"
        )
    lines = ["accounts {", f"  {_text(word(organism))}: {{", "    jetstream: enabled", "    users: ["]
    return "\n".join([*lines, *users, "    ]", "  }", "}", ""])


def _text(value: str) -> str:
    """A text in quotes, so that a ``$`` in it is no variable."""
    return json.dumps(value)
