"""Handing work from one agent to another through a closed vocabulary.

The modules here are pure; ``edge`` holds files, processes and the network, and ``payloads`` is the library
face that joins the two for code that knows no pump.

Internal, but for the names that docs/reference.md lists.
"""
