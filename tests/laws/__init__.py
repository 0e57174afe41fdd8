"""Relations between runs that hold without an expected value, on experiments drawn from seeds."""
