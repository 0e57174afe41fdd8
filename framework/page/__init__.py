"""Pages of runs: their data, the modules that browsers load (`static/`), and serving them."""
