"""Typed plans: the values that a step allows for each argument, and the recorded leaves they come from. Internal."""
