"""The promises of every engine, as checks for those who write one: public, and described in docs/engines.md.

The parts beside ``suite`` are internal: they are imported by it alone.
"""

from agentserver.engines.conformance.suite import CHECKS, BrokenPromiseError, Check, Subject, broken_promises

__all__ = ["CHECKS", "BrokenPromiseError", "Check", "Subject", "broken_promises"]
