"""Attacks on a real server on loopback, with the CPU and the memory that they cost it.

``./run hostile`` prints the table; each ``attack_*.py`` in this folder lists its attacks in ``ATTACKS``.
"""
