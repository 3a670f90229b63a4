"""Pages, charts and tables."""
