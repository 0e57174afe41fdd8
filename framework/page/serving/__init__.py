"""Serving pages: of runs on disk, and of one under way."""
