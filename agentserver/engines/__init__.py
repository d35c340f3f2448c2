"""The keepers of conversations: one module per engine, and the suite that each of them passes.

Internal, but for the names that docs/reference.md lists.
"""
