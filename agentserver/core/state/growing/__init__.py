"""Append-only state, which a step extends without copying it. Internal."""
