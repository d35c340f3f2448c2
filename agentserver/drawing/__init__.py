"""Drawings of directed graphs: layered layout, SVG, Mermaid and DOT. Internal."""
