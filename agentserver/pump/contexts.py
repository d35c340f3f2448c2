"""The context that a handler starts in.

Owns one clean context and hands out copies of it, so that what an invocation sets is gone with it. Refuses to know
what runs in them.
"""

from __future__ import annotations

import contextvars
import decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextvars import Context


class CleanContext:
    """The context variables of its maker, without what may be changed in place.

    Python keeps the rules of decimal arithmetic as one mutable value of a context variable: a copy of a context shares
    it. It is left out, and each fresh context gets a copy of it instead, where it is not what Python begins with.
    """

    def __init__(self) -> None:
        arithmetic = decimal.getcontext().copy()
        arithmetic.clear_flags()
        self._arithmetic = None if repr(arithmetic) == repr(decimal.Context()) else arithmetic
        self._clean = contextvars.Context()
        for variable, value in contextvars.copy_context().items():
            if not isinstance(value, decimal.Context):
                self._clean.run(variable.set, value)

    def fresh(self) -> Context:
        """A copy that nothing else has."""
        context = self._clean.copy()
        if self._arithmetic is not None:
            context.run(decimal.setcontext, self._arithmetic.copy())
        return context
