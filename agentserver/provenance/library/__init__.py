"""Provenance as a library, for agents without this server; ``agentserver.provenance`` exports its names.

Internal, except for the names listed in docs/reference.md.
"""
