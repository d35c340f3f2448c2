"""Records of decisions, and the outcome that holds them.

Internal, but for the names that docs/reference.md lists.
"""
