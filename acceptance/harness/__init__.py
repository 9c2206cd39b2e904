"""Real servers and clients around the gateway: what the acceptance tests stand it against."""
