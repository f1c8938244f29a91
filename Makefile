# Two commands are all a new machine needs: `make demo` and `make test`. Each makes .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# `make test TORCH=2.6.0`: an environment with that torch, outside the project, and only one: each is gigabytes.
OTHERS := $(or $(TMPDIR),/tmp)/torchparity-torch-
OTHER_READY := $(OTHERS)$(TORCH)/.ready
OF_TORCH := torch|sympy|networkx|filelock|fsspec|Jinja2|MarkupSafe|mpmath|typing_extensions|setuptools
JOBS ?= 2# processes of `make test`, one thread each: more threads than cores wait for each other
TEST_READY := $(if $(TORCH),$(OTHER_READY),$(READY))

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format docs picture fuzz faultbed bench clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "torchparity needs Python 3.10 or newer; choose one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	@echo "Setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

$(OTHERS)%/.ready: pyproject.toml constraints.txt
	@rm -rf $(OTHERS)*
	@echo "Setting up $(@D) with torch $* (some minutes)"
	@$(PYTHON) -m venv $(@D)
	@grep -vE '^($(OF_TORCH))==' constraints.txt > $(@D)/constraints.txt
	@$(@D)/bin/pip install --quiet --disable-pip-version-check --constraint $(@D)/constraints.txt 'torch==$*' --editable '.[dev]'
	@touch $@

setup: $(READY) ## make the environment in .venv and nothing else

demo: $(READY) ## record a small GPT on the CPU and on a simulated NPU with a fault, and compare
	@$(BIN)/python examples/demo.py

test: $(TEST_READY) ## run the tests; TORCH=2.6.0 runs them with another torch, in an environment of its own
	OMP_NUM_THREADS=1 $(dir $(TEST_READY))bin/python -m pytest -q --numprocesses $(JOBS) --dist worksteal

check: $(READY) ## check formatting, lint and types, as CI does
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY) ## format the code and fix what lint can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY) ## write docs/config.md from the settings' types
	$(BIN)/python -m tools.config_docs

picture: $(READY) ## draw who imports whom into docs/architecture.md
	$(BIN)/python -m tools.picture

fuzz: $(READY) ## run the fuzz tests in full: 75,000 mutated files
	TORCHPARITY_FUZZ_CASES=5000 $(BIN)/python -m pytest -q -s -m fuzz tests/fuzz tests/merging

FAULTBED ?= faultbed_data
faultbed: $(READY) ## plant faults in small models, write docs/faultbed.md; FAULTBED=folder, ARGS=--recompare
	$(BIN)/python -m tests.faultbed $(FAULTBED) $(ARGS)
	$(BIN)/python -m tests.faultbed.table $(FAULTBED)/results.jsonl

bench: $(READY) ## run every benchmark; prints one JSON line each
	@for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

clean: ## remove the environment and everything generated
	rm -rf $(VENV) demo_run_cpu demo_run_npu demo_tables example_runs bench_data faultbed_data .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
