"""Tables of characters that readers cannot see or confuse with others, and functions that make text safe to show.

Internal: no name in here is public.
"""
