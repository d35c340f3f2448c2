"""Conversations that other processes have, as far as this one has to do with them. Internal."""
