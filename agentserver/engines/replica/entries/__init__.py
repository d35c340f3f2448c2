"""Entries of a log: what they ask for, and as bytes. Internal."""
