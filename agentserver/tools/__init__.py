"""Ready-made listeners for agents: pages, files, mail, arithmetic.

Internal; each tool is a public module of its own.
"""
