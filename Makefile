# Two commands are all a new machine needs: `make demo` and `make test`. Each makes .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format fuzz bench clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "torchparity needs Python 3.10 or newer; choose one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	@echo "Setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

setup: $(READY) ## make the environment in .venv and nothing else

demo: $(READY) ## record a small GPT twice, once with a fault, and compare
	@$(BIN)/python examples/demo.py

test: $(READY) ## run the tests
	$(BIN)/python -m pytest -q

check: $(READY) ## formatting, lint and types, as CI runs them
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY) ## format the code and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: $(READY) ## the fuzz tests in full: 35,000 mutated files
	TORCHPARITY_FUZZ_CASES=5000 $(BIN)/python -m pytest -q -s -m fuzz tests/fuzz

bench: $(READY) ## run every benchmark; prints one JSON line each
	@for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

clean: ## remove the environment and everything generated
	rm -rf $(VENV) demo_run demo_run_faulty demo_tables bench_data .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
