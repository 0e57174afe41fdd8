"""Items of "LLM inference optimization: rail-only connections, Part 2" (Cisco Outshift, 2024): h-scores.

The source prints rules and formulas, hardly numbers. `source` is a formula of the source at the inputs,
`ours` what the router does there. Domains and rails count from 1.
"""
