"""What authors of plugins get: a new package to start from, and the checks that every router must pass."""
