# make demo   a fresh machine to a trained model, with the per-stage table
# make test   lint, types, layers and all tests
# make check  the inner loop, under a minute
# make prove  everything heavy; its results are committed under bench/results/
PYTHON ?= $(shell command -v python3.13 || command -v python3.12 || command -v python3.11 || command -v python3)
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
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(v < (3, 11) and f"Stoker needs Python 3.11 or newer, {sys.executable} is {v[0]}.{v[1]}: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install "$(TORCH)"
	touch $@

$(VENV)/.%: $(VENV)/.base
	$(PIP) install -e ".[$*]"
	touch $@

$(VENV)/.demo $(VENV)/.test: $(VENV)/.base

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
