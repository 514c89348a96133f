"""Measurement: meters per stage and worker, thread and host counters, windows."""
