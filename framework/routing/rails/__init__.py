"""Routing over rails: the links of a rail fabric, its h-scores, and the choice between d, r, rd, dr, drd and
rdr."""
