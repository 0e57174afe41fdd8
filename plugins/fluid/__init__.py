"""Flows that share links by max-min fairness, on a simulated clock."""
