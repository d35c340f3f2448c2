"""Numpy, which the engine computes with, or the extra that brings it by its name.

Owns the one import of it. Numpy takes a tenth of a second to import, and most of what the engine is asked needs no
array; so it is imported with the first one. That the extra is there is asked at once.
"""

from typing import TYPE_CHECKING

from agentserver.extras import require

require("the engine of provenance", "provenance")

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        """The names of numpy, each looked up once."""

        def __getattr__(self, name: str) -> object:
            import numpy as np

            value = getattr(np, name)
            setattr(self, name, value)
            return value

    np = _Numpy()

__all__ = ["np", "ready"]


def ready() -> None:
    """Import numpy now: a server for many does not come to it, and to files that it opens, at its first judgement."""
    _ = np.uint64
