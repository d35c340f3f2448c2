"""The bond between an approval and one call.

Owns the digest of a call. Refuses to ask and to wait: the caller does, and no approver means no.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from agentserver.provenance.evidence.leaves import text_of

if TYPE_CHECKING:
    from agentserver.provenance.evidence.labels import Call


def digest(call: Call) -> str:
    """A hash of the sink and every argument, in canonical form. An approval is good for one call of this digest."""
    said = [[leaf.path, type(leaf.value).__name__, text_of(leaf.value)] for leaf in call.arguments]
    body = json.dumps([call.sink, said], ensure_ascii=True, separators=(",", ":"))
    return sha256(body.encode("ascii")).hexdigest()
