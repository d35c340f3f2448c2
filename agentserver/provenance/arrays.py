"""Numpy, which the engine computes with, or the extra that brings it by its name.

Owns the one import of it.
"""

# ruff: noqa: E402 - the extra is asked for before what it brings
from agentserver.extras import require

require("the engine of provenance", "provenance")

import numpy as np
import numpy.typing as npt

__all__ = ["np", "npt"]
