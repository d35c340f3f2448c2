"""The library face of provenance, for agents without this server; the package's front gives its names.

Internal, but for the names that docs/reference.md lists.
"""
