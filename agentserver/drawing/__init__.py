"""Drawings of directed graphs: places in columns, and their SVG. Internal."""
