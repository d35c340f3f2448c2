"""Conformance suite for authors of engines, described in docs/engines.md.

Only the names exported here are public.
"""

from agentserver.engines.conformance.suite import CHECKS, BrokenPromiseError, Check, Subject, broken_promises

__all__ = ["CHECKS", "BrokenPromiseError", "Check", "Subject", "broken_promises"]
