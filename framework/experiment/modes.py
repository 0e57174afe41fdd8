"""What a router is told about health."""

MODES = {
    "feedback": {"feedback": True, "oracle": False},
    "no-feedback": {"feedback": False, "oracle": False},
    "oracle": {"feedback": True, "oracle": True},
}
"""What a router may be told, as keys of the experiment: what was measured, nothing, the ground truth."""
