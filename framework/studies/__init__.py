"""Many runs: routers, modes and jobs compared, two engines, what a failure costs, drawn faults."""
