"""Reloads of a running organism: obstacles to a change, and the resources of each edition. Internal."""
