"""Shared settings of the suite: property tests repeat exactly and never race a clock."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
