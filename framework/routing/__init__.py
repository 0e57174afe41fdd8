"""What every router needs: checks of its tables, link loads, damping, and the compilation of routes into
switch rules."""
