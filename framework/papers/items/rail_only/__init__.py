"""Items of "How to Build Low-cost Networks for Large Language Models (without Sacrificing Performance)?".

Equations and constraints are that paper's.
"""
