"""From findings to figures: rows, links, faults, what held an iteration, and the verdict."""
