"""Checks that the judgement of a call is composed of. Internal."""
