"""What every router needs: checks of its tables, link loads, damping, and the way from routes to switch rules."""
