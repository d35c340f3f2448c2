"""Turns: the order of deliveries, and the share of each principal. Internal."""
