"""Health checks for load balancers: is the process alive, and does its engine respond."""
