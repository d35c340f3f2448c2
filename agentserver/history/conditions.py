"""Conditions that make a backtest fail, such as ``benign<98%``."""

from __future__ import annotations

import operator
import re
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.history.backtest import CallOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.history.backtest import Tally


class Measure(NamedTuple):
    """Quantity that a condition can bound.

    Args:
        about: its meaning.
        part: reads its number.
        total: reads the number that a share is of; None if it has no share.
        of: the noun of the whole; empty without one.
        share: whether only the share is allowed.
        compares: whether it needs a policy in force.
    """

    about: str
    part: Callable[[Tally], int]
    total: Callable[[Tally], int] | None = None
    of: str = ""
    share: bool = False
    compares: bool = False


MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        "benign": Measure(
            "honest calls that run without a question",
            lambda tally: tally.honest - tally.stopped.total(),
            lambda tally: tally.honest,
            "honest call",
            share=True,
        ),
        "attacks": Measure(
            "attacks that are refused or asked about",
            lambda tally: tally.stopped_attacks,
            lambda tally: tally.attacks,
            "marked attack",
            share=True,
        ),
        "refused": Measure(
            "honest calls that are refused",
            lambda tally: tally.stopped[CallOutcome.REFUSED],
            lambda tally: tally.honest,
            "honest call",
        ),
        "asked": Measure(
            "honest calls that a person is asked about",
            lambda tally: tally.stopped[CallOutcome.ASKED],
            lambda tally: tally.honest,
            "honest call",
        ),
        "newly-stopped": Measure(
            "honest calls that only this policy stops", lambda tally: tally.newly_stopped, compares=True
        ),
        "newly-missed": Measure(
            "attacks that only the current policy stops", lambda tally: tally.lost_attacks, compares=True
        ),
        "unjudged": Measure(
            "of the conversations and files could not be judged to their end",
            lambda tally: tally.unjudged,
        ),
    }
)

_OPERATORS: Final[Mapping[str, Callable[[Fraction, Fraction], bool]]] = MappingProxyType(
    {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
)
_CONDITION: Final = re.compile(
    r"\s*(?P<measure>[a-z-]+)\s*(?P<sign><=|>=|<|>)\s*(?P<number>[0-9]{1,9}(?:\.[0-9]{1,6})?)(?P<share>%?)\s*",
    re.ASCII,
)

GRAMMAR: Final = (
    f"MEASURE<NUMBER or MEASURE<NUMBER%, with <, <=, > or >=; MEASURE is one of {', '.join(MEASURES)}"
)


class ConditionError(ValueError):
    """Raised for a text that is no condition. Its message names the allowed ones."""


class Condition(NamedTuple):
    """Condition that makes a backtest fail.

    Args:
        text: as it was written, without spaces.
        measure: the name of its measure.
        sign: the comparison.
        bound: the number; a share is between 0 and 1.
        share: whether it bounds a share.
    """

    text: str
    measure: str
    sign: str
    bound: Fraction
    share: bool

    def check(self, tally: Tally) -> ConditionResult:
        """Check the condition. One on a share of nothing fails, since nothing was shown."""
        measure = MEASURES[self.measure]
        part = measure.part(tally)
        if not self.share:
            holds = _OPERATORS[self.sign](Fraction(part), self.bound)
            return ConditionResult(self, holds, f"{part} {measure.about}")
        assert measure.total is not None
        total = measure.total(tally)
        if not total:
            return ConditionResult(self, True, f"there is no {measure.of}")
        share = Fraction(part, total)
        shown = f"{part} of {total} {measure.about} ({format_share(part, total)})"
        return ConditionResult(self, _OPERATORS[self.sign](share, self.bound), shown)


class ConditionResult(NamedTuple):
    """Result of checking a condition.

    Args:
        condition: the condition.
        failed: whether it holds, so that the backtest fails.
        measured: the measured value, as text.
    """

    condition: Condition
    failed: bool
    measured: str


def read_condition(text: str, *, compared: bool = True) -> Condition:
    """Read a condition. Raises ConditionError.

    Args:
        text: such as ``benign<98%``.
        compared: whether there is a policy in force to compare with.
    """
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ConditionError(f"{text!r} is no condition; write {GRAMMAR}")
    name, sign, number, percent = found.group("measure", "sign", "number", "share")
    measure = MEASURES.get(name)
    if measure is None:
        raise ConditionError(f"{text!r}: {name!r} is no measure; there are: {', '.join(MEASURES)}")
    if measure.share and not percent:
        raise ConditionError(f"{text!r}: {name} is a share; write {name}{sign}{number}%")
    if percent and measure.total is None:
        raise ConditionError(f"{text!r}: {name} is a number; write it without %")
    if measure.compares and not compared:
        raise ConditionError(f"{text!r}: {name} needs a current policy: name one with --current")
    bound = Fraction(number) / (100 if percent else 1)
    if percent and bound > 1:
        raise ConditionError(f"{text!r}: a share is at most 100%")
    return Condition(f"{name}{sign}{number}{percent}", name, sign, bound, bool(percent))


UNJUDGED: Final = "unjudged>0"
"""Condition in force unless another one bounds the same measure."""


def format_share(part: int, total: int) -> str:
    """Format a share in percent with one digit, never rounded up to 100 % or down to 0 %."""
    tenths = (part * 2000 + total) // (2 * total)
    tenths = min(tenths, 999) if part < total else tenths
    tenths = max(tenths, 1) if part else tenths
    return f"{tenths // 10}.{tenths % 10} %"
