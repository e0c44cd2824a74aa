"""Trust in edges and labels: the probability that each is right, from evidence that leaves out that edge or label."""
