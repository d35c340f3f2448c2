"""Characters that a reader does not see or takes for others, and text made fit for that reader.

The lowest layer: pure, and imports nothing. What decides and what prints use this one table.

Internal: no name in here is public.
"""
