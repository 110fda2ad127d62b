"""Health checks for load balancers: is the process alive, its engine there, a queue blocked."""
