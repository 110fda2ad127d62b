"""Is the process alive, and does its engine answer: addresses for load balancers and the like."""
