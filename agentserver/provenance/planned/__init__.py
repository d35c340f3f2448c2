"""Typed plans: the values of each argument of a step, and which leaves of which records those are. Internal."""
