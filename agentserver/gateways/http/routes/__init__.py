"""The door's routes: conversations and their events, what people decide.

Internal.
"""
