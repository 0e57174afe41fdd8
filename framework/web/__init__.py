"""What browsers see: the page's modules under `static/`."""
