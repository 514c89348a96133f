"""Running a pipeline to its end: steps, evaluations, windows, a folder with the results."""
