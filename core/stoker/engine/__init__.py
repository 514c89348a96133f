"""The engine: plans a pipeline into segments, runs them, keeps count of every sample."""
