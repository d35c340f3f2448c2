"""Adapters: each translates one framework's events into calls and results. Imported one by one, when used."""
