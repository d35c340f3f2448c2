"""Lazy import of numpy, the engine's only dependency.

Numpy takes a tenth of a second to import, and a start needs no array, so the first use of an array imports it. A caller
that must not wait for it, such as an event loop, has a thread import it before. A missing extra is reported as soon as
this module is imported.
"""

from typing import TYPE_CHECKING

from agentserver.extras import require

require("the engine of provenance", "provenance")

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        """Proxy that imports numpy at the first attribute and caches each attribute."""

        def __getattr__(self, name: str) -> object:
            import numpy as np

            value = getattr(np, name)
            setattr(self, name, value)
            return value

    np = _Numpy()

__all__ = ["import_numpy", "is_numpy_imported", "np"]


def import_numpy() -> None:
    """Import numpy now, so that a server for many clients does not open its files during the first judgement."""
    _ = np.uint64


def is_numpy_imported() -> bool:
    """Check whether the first use of an array has nothing to import, because ``import_numpy`` has returned."""
    return "uint64" in vars(np)
