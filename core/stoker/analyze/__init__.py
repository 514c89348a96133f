"""What holds a job back: evidence, bounds, a verdict, and what to do about it."""
