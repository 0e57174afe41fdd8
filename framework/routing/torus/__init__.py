"""Routing on tori: the lattice read from its links, shortest displacements, straight legs, wild-first
paths."""
