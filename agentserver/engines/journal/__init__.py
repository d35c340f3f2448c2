"""The journal in SQL: tables, rows of steps, seals, and their reading, for every database that keeps one. Internal."""
