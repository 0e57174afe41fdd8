"""A year of a pod of cubes that optical circuit switches (OCSes) join: failures, slices, jobs, circuits.

Source: Zu et al., "Resiliency at Scale: Managing Google's TPUv4 Machine Learning Supercomputer", NSDI 2024;
sections and figures in this package are that paper's. `assumptions` lists what it does not state.
"""
