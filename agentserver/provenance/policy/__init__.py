"""Declarations: sources, sinks, roles, plans, and what names mean by convention. Internal."""
