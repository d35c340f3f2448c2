"""The context that a handler starts in.

Owns one clean context and hands out copies of it, so that what an invocation sets is gone with it. Refuses to know
what runs in them.
"""

from __future__ import annotations

import contextvars
import decimal
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context


class CleanContext:
    """The context variables of its maker, without what may be changed in place.

    Python keeps the rules of decimal arithmetic as one mutable value of a context variable: a copy of a context shares
    it. It is left out, and each fresh context gets a copy of it instead, where it is not what Python begins with.
    """

    def __init__(self) -> None:
        arithmetic = decimal.getcontext().copy()
        arithmetic.clear_flags()
        self._clean = contextvars.Context()
        for variable, value in contextvars.copy_context().items():
            if not isinstance(value, decimal.Context):
                self._clean.run(variable.set, value)
        usual = repr(arithmetic) == repr(decimal.Context())
        self.fresh: Callable[[], Context] = (
            self._clean.copy if usual else partial(self._calculating, arithmetic)
        )
        """Gives a copy that nothing else has."""

    def _calculating(self, arithmetic: decimal.Context) -> Context:
        context = self._clean.copy()
        context.run(decimal.setcontext, arithmetic.copy())
        return context
