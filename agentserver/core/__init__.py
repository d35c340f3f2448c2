"""The pure core: decisions about messages, without an event loop, a clock, randomness or I/O.

Internal, but for the names that docs/reference.md lists.
"""
