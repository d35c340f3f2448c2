"""The question put to a person, and who may answer it.

Owns the value of a question and what binds an answer to it. Refuses to wait: holding a call until a person
has answered is the caller's, and no approver means no.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from agentserver.provenance.explain import explain
from agentserver.provenance.leaves import text_of

if TYPE_CHECKING:
    from agentserver.provenance.labels import Call
    from agentserver.provenance.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Question:
    """One call that waits. An answer is good for the call with this ``digest``, once."""

    digest: str
    sink: str
    text: str
    verdict: Verdict


def question(verdict: Verdict) -> Question:
    """The question about a verdict, with the whole lineage in it."""
    shown = "\n".join(f"  {leaf.path} = {text_of(leaf.value)[:200]!r}" for leaf in verdict.call.arguments)
    text = f"{explain(verdict)}\nThe call:\n  {verdict.call.sink}\n{shown}\nAllow this one call?"
    return Question(digest(verdict.call), verdict.call.sink, text, verdict)


def digest(call: Call) -> str:
    """A hash of the sink and every argument, in canonical form: what an approval binds to."""
    said = [[leaf.path, type(leaf.value).__name__, text_of(leaf.value)] for leaf in call.arguments]
    body = json.dumps([call.sink, said], ensure_ascii=True, separators=(",", ":"))
    return sha256(body.encode("ascii")).hexdigest()
