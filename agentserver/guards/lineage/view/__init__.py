"""References in place of untrusted values, for listeners with ``view: references``.

Internal.
"""
