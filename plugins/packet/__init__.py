"""Runs computed packet by packet: queues, marks, losses, choice of paths, on a simulated clock."""
