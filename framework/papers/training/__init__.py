"""What training a large language model asks of a network: iteration time, cost, bounds and traffic, as
formulas.

Source: "How to Build Low-cost Networks for Large Language Models (without Sacrificing Performance)?";
equation and constraint numbers in this package are that paper's.
"""
