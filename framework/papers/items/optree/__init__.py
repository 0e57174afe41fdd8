"""Items of Dai et al., "OpTree", arXiv 2211.15119: all-gathers on optical rings."""
