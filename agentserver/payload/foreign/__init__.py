"""Maps the JSON Schemas of foreign tools to payload classes, and locks them.

Internal.
"""
