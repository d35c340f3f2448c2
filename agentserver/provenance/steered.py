"""The influence of a source on its reader, and the judgement of a reader that was steered.

Owns the one rule for it, that of the server and of the library. Refuses to know listeners, threads and runs: each keeps
whom it steered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.provenance.evidence.labels import Leaf
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import Policy


def steers(policy: Policy, source: str, said: Iterable[Leaf], before: Ledger, after: Ledger) -> bool:
    """True when a source's words may steer who reads them.

    Untrusted text may, and so may a single word in a field of no declared worth: by its form it is bookkeeping, and
    it can still carry an instruction.

    Args:
        policy: what is declared.
        source: whose words they are.
        said: its words.
        before: the ledger without them.
        after: the ledger with them.
    """
    if after.overflow or len(after.texts) > len(before.texts):
        return True
    texts = (leaf for leaf in said if isinstance(leaf.value, str) and leaf.value.strip())
    return any(policy.worth(source, leaf) is None for leaf in texts)


def suspecting(ledger: Ledger) -> Ledger:
    """The ledger by which the call of a sender that was steered is judged, also where no text of it is untrusted."""
    return ledger if ledger.tainted else replace(ledger, foreign=True)
