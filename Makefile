# A machine needs Python 3.11 or newer, make and a network once; everything else is fetched by name, pinned and checked.

# PYTHON=/path/to/python3 chooses the interpreter; without it the first that is new enough is taken.
PYTHON ?=
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
LOCAL := $(VENV)/.local-installed
DEV := $(VENV)/.dev-installed
SPARK := $(VENV)/.spark-installed
DOCS := $(VENV)/.docs-installed
PYTEST := $(BIN)/python -m pytest
# By number of tests, which is the usual order, files of few and slow ones would come last, on one worker.
BY_FILE := --numprocesses 2 --dist loadfile --no-loadscope-reorder
# Half of the time of all unit tests: `make check` leaves them to `make unit`.
SLOW := api crons
UV ?= $(BIN)/uv
LOCKED := --universal --python-version 3.11 --no-build-isolation --generate-hashes --no-header --no-emit-index-url \
	--no-emit-find-links
COMPILE := pyproject.toml --group build $(LOCKED) --no-emit-package minutehand
COMPILE_LESS := $(COMPILE) --constraints requirements/dev.lock

# Without them, each of the programs that tests start would compile all its modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo check test lint format types imports unit simulation integration containers spark spark-demo charts \
	acceptance console typescript screenshots bench storm helm conformance chart-reference docs changelog sdk lock lock-jars clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(LOCAL) ## Start everything on this machine and watch callbacks arrive (ARGS=--once: end by itself; ARGS=--fresh: delete old data first; ARGS=--help: Kafka and more)
	@$(BIN)/minutehand demo $(ARGS)

test: ## Run the whole suite, against a real Cassandra that it starts itself
	@$(MAKE) --no-print-directory unit
	@# The other suites often wait. What judges no real time computes beside, at a low priority: Helm's build, once on a
	@# machine, the SDK for TypeScript and the simulation. Spark's jobs are too slow there for the limits of their tests.
	@mkdir -p build; \
	nice -n 10 $(MAKE) --no-print-directory --keep-going charts typescript simulation >build/beside.log 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null' INT TERM; \
	failed=; \
	$(MAKE) --no-print-directory integration || failed="$$failed integration"; \
	$(MAKE) --no-print-directory spark || failed="$$failed spark"; \
	$(MAKE) --no-print-directory acceptance || failed="$$failed acceptance"; \
	$(MAKE) --no-print-directory console || failed="$$failed console"; \
	wait $$beside || failed="$$failed charts, typescript or simulation"; \
	cat build/beside.log; \
	test -z "$$failed" || { echo "Failed:$$failed" >&2; exit 1; }

check: lint types imports ## Run what a commit needs: those gates and the quick tests, below two minutes
	@$(PYTEST) tests/architecture tests/unit $(SLOW:%=--ignore tests/unit/%) --numprocesses auto --maxprocesses 4 $(ARGS)

lint: $(DEV) ## Check format and lint rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

format: $(DEV) ## Rewrite the sources in the house's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

types: $(SPARK) ## Check types
	@$(BIN)/mypy

imports: $(SPARK) ## Check who may import whom
	@$(BIN)/lint-imports --no-logo

unit: $(DEV) ## Run unit, contract (in memory) and architecture tests (ARGS="-k NAME": some of them)
	@$(PYTEST) tests/unit tests/contract tests/architecture -m "not cassandra" --numprocesses auto --maxprocesses 4 $(ARGS)

simulation: $(DEV) ## Run the deterministic simulation
	@$(PYTEST) tests/simulation --numprocesses auto --maxprocesses 4 $(ARGS)

integration: $(DEV) ## Run the stores, their contract and the API against a real Cassandra
	@$(PYTEST) tests/integration tests/contract -m "integration or cassandra" $(BY_FILE) $(ARGS)

containers: $(DEV) ## Run the stores' contract against a Cassandra in a container (needs Docker, else it is skipped and says so)
	@$(PYTEST) tests/contract -m cassandra --cassandra=testcontainers --numprocesses 1 $(ARGS)

spark-demo: $(SPARK) ## Load, call, archive, prove and count 200,000 schedules on this machine (ARGS="--rows N")
	@$(BIN)/minutehand spark demo $(ARGS)

spark: $(SPARK) ## Run the Spark jobs, against a real Cassandra
	@$(PYTEST) tests/spark $(BY_FILE) $(ARGS)

charts: $(DEV) ## Render the Helm chart, check it and the image recipe
	@$(PYTEST) tests/helm $(ARGS)

acceptance: $(SPARK) ## Run whole processes against a real Cassandra
	@$(PYTEST) tests/acceptance --numprocesses 3 --no-loadscope-reorder $(ARGS)

console: $(DEV) ## Look at the console of a demo with a real browser (needs Chromium, else it is skipped and says so)
	@$(PYTEST) tests/console $(ARGS)

typescript: $(DEV) ## Compile and run the TypeScript SDK and its samples (needs Node.js, else it is skipped and says so)
	@$(PYTEST) tests/typescript $(ARGS)

screenshots: $(DEV) ## Take the pictures of the console for README and the documents (needs Chromium)
	@$(BIN)/python -m tests.support.screenshots

bench: $(DEV) ## Measure creates, calls and lateness (ARGS="--json FILE": also as JSON)
	@$(BIN)/python -m tests.bench $(ARGS)

storm: $(DEV) ## Restart everything while one client's 60,000 calls are retried, and time another's (ARGS="--rows N")
	@$(BIN)/python -m tests.bench.storm $(ARGS)

conformance: $(DEV) ## Send generated requests to whole processes for ten minutes a key (ARGS="--seconds N")
	@$(BIN)/python -m tests.bench.conformance $(ARGS)

helm: $(DEV) ## Build the Helm that checks the chart, once on this machine (needs Go)
	@$(BIN)/python -m tests.support.helm_binary

chart-reference: $(DEV) ## Write the chart's schema of settings and its table of values again
	@$(BIN)/python -m tests.support.chart_reference

docs: $(DOCS) ## Build the documentation into build/docs; each fault and broken link fails it
	@$(BIN)/python -m tests.support.docs_site

changelog: $(DOCS) ## Show what the next release will say
	@$(BIN)/towncrier build --draft --version Unreleased

sdk: $(DEV) ## Write the plain half of the SDK from the asynchronous one, and the types of the TypeScript SDK
	@$(BIN)/python sdk/synchronous.py
	@$(BIN)/python sdk/typescript_types.py

lock: $(DEV) ## Choose the newest allowed versions and write the lock files again
	@$(UV) pip compile --quiet --upgrade $(COMPILE) --extra dev --output-file requirements/dev.lock
	@$(UV) pip compile --quiet --upgrade $(COMPILE_LESS) --output-file requirements/runtime.lock
	@$(UV) pip compile --quiet --upgrade $(COMPILE_LESS) --extra kafka --extra trace --output-file requirements/image.lock
	@$(UV) pip compile --quiet --upgrade $(COMPILE_LESS) --extra local --output-file requirements/local.lock
	@$(UV) pip compile --quiet --upgrade $(COMPILE_LESS) --extra spark --output-file requirements/spark.lock
	@$(UV) pip compile --quiet --upgrade $(COMPILE_LESS) --extra docs --output-file requirements/docs.lock
	@$(UV) pip compile --quiet --upgrade --group generators $(LOCKED) --output-file requirements/generators.lock
	@npm --prefix sdk/typescript update --package-lock-only --ignore-scripts --silent
	@npm --prefix tests/integration/generated update --package-lock-only --ignore-scripts --silent
	@npm --prefix tests/integration/verifying update --package-lock-only --ignore-scripts --silent

lock-jars: $(LOCAL) ## Resolve the Java artefacts again and write their lock file
	@$(BIN)/python -m minutehand.local.lock

clean: ## Remove what was built, measured or cached here (not the shared download cache)
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so an interrupted installation is resumed and a changed lock file is installed.
$(LOCAL): requirements/local.lock requirements/install.py pyproject.toml
	@$(FIND_PYTHON) && "$$python" requirements/install.py $(VENV) requirements/local.lock && touch $@

$(DEV): requirements/dev.lock $(LOCAL)
	@$(BIN)/python requirements/install.py $(VENV) requirements/dev.lock && touch $@

$(SPARK): requirements/spark.lock $(DEV)
	@$(BIN)/python requirements/install.py $(VENV) requirements/spark.lock --no-build-isolation && touch $@

$(DOCS): requirements/docs.lock $(DEV)
	@$(BIN)/python requirements/install.py $(VENV) requirements/docs.lock && touch $@

FIND_PYTHON = python=; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3.11 python3.12 python3.13 python3.14 python3 python); do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
		then python=$$candidate; break; fi; \
	done; \
	test -n "$$python" || { \
		echo 'Minutehand needs Python 3.11 or newer, and $(if $(PYTHON),$(PYTHON) is not,found none): install it, or name one with make PYTHON=/path/to/python3.' >&2; \
		exit 1; }
