"""Confidentiality: who may read what, what an exit carries by its choices, and where a text came from. Internal."""
