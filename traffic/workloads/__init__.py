"""Workloads: what applications send, as schedules that carry real numbers."""
