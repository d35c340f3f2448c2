"""Checks the conditions of approvals against the payloads of their listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.payload.conditions import ConditionError, fit_conditions
from agentserver.payload.fields.field_table import PayloadType
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentserver.config.findings import Mistakes
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import DeclaredListener


def check_conditions(
    declared: Sequence[DeclaredListener], bound: Iterable[BoundListener], report: Mistakes
) -> None:
    """Report conditions that do not fit the payloads of their listener."""
    known = {item.entry.name: item for item in declared}
    for item in bound:
        rule = item.listener.approval
        if rule is None or not rule.when:
            continue
        where = known[item.listener.name].locate("approval", "when")
        fields = {kind: kind.__dict__.get("__payload__") for kind in item.listener.payloads}
        described = {each.qname: each for each in fields.values() if isinstance(each, PayloadType)}
        if item.schema is not None or len(described) < len(fields):
            report.error(
                ConfigCode.CONDITION, where, "needs fields, and a hand-written schema has none", "required"
            )
            continue
        try:
            fit_conditions(described, rule.when)
        except ConditionError as error:
            report.error(ConfigCode.CONDITION, where, str(error), error.suggestion)
