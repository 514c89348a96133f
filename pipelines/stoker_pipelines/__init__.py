"""Ready-made pipelines, declared as any user would."""
