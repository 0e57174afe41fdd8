"""Runs in formats that other tools read."""
