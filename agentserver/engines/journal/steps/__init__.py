"""Outcomes as data, before rows are made of it, and as bytes that can travel. Internal."""
