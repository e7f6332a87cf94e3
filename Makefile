# `make` prints the targets.  Needs Python 3.11 or newer, Java 17 or newer and make; nothing else.

# The first Python that is new enough; `make PYTHON=/path/to/python setup` takes another.
ifndef PYTHON
PYTHON := $(shell for name in python3.11 python3.12 python3.13 python3; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$name" && break; done)
endif
VENV := .venv
BIN := $(VENV)/bin
SET_UP := $(VENV)/.packages

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python may write its bytecode whatever the environment says: test processes share it.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup lint types check test test-all demo compat bench docs fidelity zip clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One line for whatever is missing, before anything is fetched.
define CHECK_MACHINE
	@test -n "$(PYTHON)" || { echo "slotscope: needs Python 3.11 or newer as python3.11, python3.12, python3.13 or python3;" \
		"found: $$(python3 --version 2>&1 | head -1). Try: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 2; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "slotscope: needs Python 3.11 or newer;" \
		"$(PYTHON) is $$("$(PYTHON)" --version 2>&1 | head -1)" >&2; exit 2; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "slotscope: $(PYTHON) cannot make virtual environments;" \
		"install its venv module (Debian: apt-get install python3-venv)" >&2; exit 2; }
	@"$(PYTHON)" -m slotscope.runtime.spark.java >/dev/null
endef

setup: $(SET_UP) $(VENV)/.compiled ## create .venv with pinned packages, fetch the Delta jars, compile the kernels

# Packages follow pyproject.toml and constraints.txt; unchanged ones are not fetched again.
# Bytecode is made as modules are first used: a quarter of them ever is.
$(VENV)/.packages: pyproject.toml constraints.txt
	$(CHECK_MACHINE)
	@echo "setting up $(VENV) with $(PYTHON): some minutes and about 1.3 GB the first time"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Compiled code is kept in the user's cache folder by the content of its sources, beside the jars of Spark and the classes of its JVM
# (docs/architecture.md): tests and jobs find all there.
$(VENV)/.compiled: $(SET_UP)
	@echo "compiling the kernels: a minute or two the first time"
	@$(BIN)/python -m pytest -q -n 2 --dist loadgroup --hypothesis-profile check -m "not slow and not long and not processes" \
		tests/core/kernels tests/core/rdb tests/core/rebalance/test_planner.py >/dev/null || echo "slotscope: not all kernels could be compiled; the first run tries again" >&2
	-@$(BIN)/slotscope setup >/dev/null
	@touch $@

lint: $(SET_UP) ## ruff (rules and format) and codespell
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --check --quiet . && $(BIN)/codespell && echo "lint: no findings"

types: $(SET_UP) ## mypy
	@$(BIN)/mypy

# Four processes: two of them have a JVM, those of servers mostly wait.  What tests share they make once.
PYTEST_RUN := $(BIN)/python -m pytest --dist loadgroup --durations 15 --durations-min 2

check: lint types ## lint, types and the quick tests: no JVM, no servers, no browser, fewer examples
	@$(PYTEST_RUN) -n 2 --hypothesis-profile check -m "not slow and not long and not processes and not spark and not servers and not browser" $(PYTEST)

test: lint types ## set-up, lint, types and all tests but the slow ones
	@$(PYTEST_RUN) -n 4 -m "not slow" $(PYTEST)

test-all: lint types ## the same with the slow tests, and more examples
	@$(PYTEST_RUN) -n 4 --hypothesis-profile all $(PYTEST)

demo: $(SET_UP) ## all of it on two recorded clusters: slotscope demo
	@$(BIN)/slotscope demo --root build/demo

compat: ## demo and quick Spark tests with other versions of Python, PySpark and Delta, each in an environment of its own
	@"$(PYTHON)" tests/compat.py $(COMBINATION)

bench: $(SET_UP) ## measure, and write the sections of benchmarks/results.md
	@$(BIN)/python -m benchmarks

docs: $(SET_UP) ## the pages that are made from code, then the site, checked for dead links: build/site
	@PYTHONPATH=. $(BIN)/python docs/make_pages.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@mkdir -p build/site/javascripts && cd build && (npm pack --silent mermaid@11 iframe-worker@1 >/dev/null 2>&1 \
		&& tar -xOf mermaid-11*.tgz package/dist/mermaid.min.js > site/javascripts/mermaid.min.js \
		&& tar -xOf iframe-worker-1*.tgz package/shim/index.js > site/javascripts/iframe-worker.js && rm -f mermaid-11*.tgz iframe-worker-1*.tgz \
		|| echo "no npm here: diagrams need a network, and search a web server (python3 -m http.server -d build/site)") && echo build/site/index.html

fidelity: $(SET_UP) ## CAPTURES=DIR: how far replayed views equal what the servers answered
	@test -d "$(CAPTURES)" || { echo "slotscope: make fidelity CAPTURES=DIR, a folder of recorded scenarios" >&2; exit 2; }
	@$(BIN)/python -m benchmarks.fidelity "$(CAPTURES)"

zip: build/slotscope.zip ## build/slotscope.zip: what spark-submit --py-files takes

build/slotscope.zip: $(SET_UP) $(shell find cluster_core slotscope jobs schemas conf -type f -not -name '*.pyc' 2>/dev/null)
	@$(BIN)/python -m slotscope.runtime.spark.code_zip $@ && echo "$@"

clean: ## remove what was built, with .venv
	@rm -rf build $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis slotscope.egg-info
	@find cluster_core slotscope jobs schemas tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
