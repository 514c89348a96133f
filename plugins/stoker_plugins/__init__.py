"""Built-in plugins, one package a family."""
