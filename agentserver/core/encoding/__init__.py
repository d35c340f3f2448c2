"""Codecs of conversations and decisions, and the replay of decisions.

Internal, but for the names that docs/reference.md lists.
"""
