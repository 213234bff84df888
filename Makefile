# `make demo` and `make test` do all the set-up on a machine that has python3 (3.11 or newer) and make.
.DEFAULT_GOAL := help
.PHONY: help demo test check bench clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTHON ?= python3

help:
	@echo "make demo   see it work, in under a minute; nothing of yours is read"
	@echo "make test   all tests; names what is missing and skips those that need it"
	@echo "make check  style, types, contracts between modules, then the tests with coverage"
	@echo "make bench  the figures that docs/benchmarks.md explains"

demo: $(READY)
	@$(BIN)/distiller demo

test: $(READY)
	@$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --skip-covered
	$(BIN)/vulture
	$(BIN)/deptry .

bench: $(READY)
	@$(BIN)/python tests/benchmarks/run.py

# An own virtual environment, by uv where it is found (seconds), else by pip.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "distiller needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@if command -v uv >/dev/null 2>&1; then \
		uv venv -q --allow-existing --python "$$(command -v $(PYTHON))" $(VENV) && \
		uv pip install -q --python $(BIN)/python --compile-bytecode -e . --group dev; \
	else \
		{ $(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing (Debian: apt install python3-venv)."; exit 1; }; } && \
		$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade pip && \
		$(BIN)/python -m pip install -q --disable-pip-version-check -e . --group dev; \
	fi
	@touch $(READY)

clean:
	rm -rf $(VENV) .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* dist build
