"""What four sources print, item by item, and what railweave computes for each: `railweave paper`.

An item names the place in its source, what that prints, the function that computes ours from inputs with
defaults, by which method, and why the two differ. One file a source; `registry.py` has them all.
"""
