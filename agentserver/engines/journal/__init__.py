"""The journal in SQL, shared by every database that keeps one. Internal."""
