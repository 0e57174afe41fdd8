"""Published models: training over rail-only clusters, all-gather on optical rings, a year of a pod."""
