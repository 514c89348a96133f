"""What Stoker costs and gives, measured beside its peers. `python -m bench.prove` runs it all."""
