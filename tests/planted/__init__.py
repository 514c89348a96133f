"""Bottlenecks that are planted on a simulated machine, and what is found of them."""
