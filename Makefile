# make demo   a fresh machine to a trained model, with the per-stage table
# make test   lint, types, layers and all tests
# make check  the inner loop, under a minute
# make prove  everything heavy; its results are committed under bench/results/
# The first Python that runs and is new enough (a name on the path may be a shim that does not run).
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test check prove lint clean

demo: $(VENV)/.demo
	$(BIN)/stoker run digits

test: lint
	$(BIN)/python -m pytest

check: lint
	$(BIN)/python -m pytest -m "not slow" -x

prove: $(VENV)/.bench
	$(BIN)/python -m bench.prove

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A stamp per set of extras: installed again only when pyproject.toml changed.
$(VENV)/.base: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Stoker needs Python 3.11 or newer, and none was found: make PYTHON=/path/to/python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install "$(TORCH)"
	touch $@

$(VENV)/.%: $(VENV)/.base
	$(PIP) install -e ".[$*]"
	touch $@

$(VENV)/.demo $(VENV)/.test: $(VENV)/.base

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
