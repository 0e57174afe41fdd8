"""Items of Zu et al., "Resiliency at Scale: Managing Google's TPUv4 Machine Learning Supercomputer",
NSDI'24."""
