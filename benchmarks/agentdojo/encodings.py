"""Attackers who encode their values."""

from __future__ import annotations

ENCODINGS = {"plain": str}


def encoded(goal: str, kind: str) -> str:
    return ENCODINGS[kind](goal)
