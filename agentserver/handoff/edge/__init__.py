"""The edge at which handoffs meet files, processes and the network.

Internal, but for the names that docs/reference.md lists.
"""
