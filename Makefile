PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# What releases and the matrix need, apart from what is tested.
TOOLS ?= .venv-tools
DOCS ?= .venv-docs
PORT ?= 8000
# One more than there are processors, because many tests wait for processes.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Their queues are files; on a disk the tests mostly wait for it, so they are kept in memory if
# there is room for two gigabytes.
FREE = $(shell df --output=avail -k $(MEMORY) 2>/dev/null | tail -n 1)
SCRATCH ?= $(shell [ "$(FREE)" -gt 2000000 ] 2>/dev/null && echo $(MEMORY))
PYTEST = $(if $(SCRATCH),TMPDIR=$(SCRATCH)) $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 \
	--dist load --maxschedchunk 1 --max-worker-restart 3
FUZZ_SECONDS ?= 300
LOCALE ?= de
export PORT

ENGINE ?= embedded
RESULTS = benchmarks/results/$(ENGINE).ndjson
# The same if an fsync is free, which shows what the rest costs.
MEMORY ?= /dev/shm
IN_MEMORY = benchmarks/results/memory.ndjson
# The same code between machines, on a virtual clock.
SIMULATED = benchmarks/results/simulated.ndjson

.PHONY: help install run test nightly soak durations simulate mutate fuzz coverage schema options messages pictures \
	lint weight bench figures plots matrix package docs clean

# The pinned packages need it; what pip chooses for a project runs on 3.10 as well.
OLDEST = 3.11
define need_python
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < tuple(map(int, "$(OLDEST)".split("."))))' || { \
	echo "This needs Python $(OLDEST) or newer, but $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	echo "If you have one, name it: make $(MAKECMDGOALS) PYTHON=python$(OLDEST)" >&2; \
	exit 1; }
endef

help: ## Show the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What an environment is made from. One that is a link is another tree's, which keeps it.
FROM = $(if $(shell test -L $(VENV) && echo link),,$(1))

install: $(VENV)/installed ## Create .venv with all that tests and linters need.

$(VENV)/installed: $(call FROM,requirements.txt requirements-dev.txt pyproject.toml)
	$(need_python)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	@touch $@ $(VENV)/runnable

# What serving needs, and no test tools: a line for each package. Python compiles what it imports.
PACKAGES = $(shell grep -c == requirements.txt)

$(VENV)/runnable: SHELL := /bin/bash
$(VENV)/runnable: $(call FROM,requirements.txt)
	$(need_python)
	@echo "Creating $(VENV), a Python environment of its own..."
	@$(PYTHON) -m venv $(VENV)
	@echo "Installing $(PACKAGES) packages, some 70 MB on disk:"
	@set -o pipefail; $(BIN)/python -u -m pip install --no-compile --progress-bar off \
		--disable-pip-version-check --requirement requirements.txt | while IFS= read -r line; do case $$line in \
		"Collecting "* | "Processing "*) set -- $$line; echo "  $${2##*/}";; \
		"Installing collected "*) echo "Copying them into $(VENV)...";; esac; done
	@touch $@

run: $(VENV)/runnable ## Serve the demo, with life in its queues, on PORT.
	@echo "Starting the demo..."
	@exec $(BIN)/python manage.py demo

# tests/targets.py says what each of these runs.
test: install ## Run what any change can break, on WORKERS processes.
	$(PYTEST) -m "not nightly" $(ARGS)

nightly: export FDBQUEUE_TEST_PLAIN_STARTS := 1
nightly: install ## Run all tests but the soak.
	$(PYTEST) $(ARGS)

durations: install ## Run all tests and write how long each takes; nothing else should run.
	$(PYTEST) -p tests.durations $(ARGS)

# Those whose sizes are in part in the usual run.
SIZES = tests/pages/test_sizes.py tests/tasks/test_outbox.py \
	tests/tasks/test_groups.py

soak: install ## Run the long tests of faults and concurrency, and those of sizes in full.
	FDBQUEUE_TEST_THOROUGH=1 $(BIN)/python -m pytest --timeout 7200 tests/soak $(SIZES) $(ARGS)

simulate: install ## Run SEEDS new seeds of the simulator, or again one SEED or HISTORY.
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(HISTORY),--line '$(HISTORY)') $(ARGS)

mutate: install ## Draw COUNT mutants of the package by SEED, and say what finds them.
	$(if $(SCRATCH),TMPDIR=$(SCRATCH)) $(BIN)/python -m tests.mutation $(if $(SEED),--seed $(SEED)) \
		$(if $(COUNT),--count $(COUNT)) $(ARGS)

fuzz: install ## Send a live server what schemathesis makes of the schema, for FUZZ_SECONDS.
	FDBQUEUE_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest --timeout $$(($(FUZZ_SECONDS) + 900)) \
		tests/live/test_schema.py -s $(ARGS)

coverage: export COVERAGE_FILE := $(CURDIR)/var/coverage/data
coverage: install ## Run the tests, or ARGS, and say what of fdbqueue/ they do not reach.
	rm -rf var/coverage && mkdir -p var/coverage
	$(BIN)/python -m coverage run -m pytest $(ARGS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report $(if $(ARGS),--fail-under=0)

schema: install ## Write the OpenAPI schema.
	$(BIN)/python manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

options: install ## Write what --help says into docs/commands.md and docs/tasks-operations.md.
	$(BIN)/python -m tests.docs.options

messages: install ## Gather and compile what is to be translated into LOCALE; needs gettext.
	mkdir -p fdbqueue/locale
	cd fdbqueue && DJANGO_SETTINGS_MODULE=project.settings PYTHONPATH=.. ../$(BIN)/python -m django \
		makemessages --locale $(LOCALE) --no-wrap --no-location
	cd fdbqueue && DJANGO_SETTINGS_MODULE=project.settings PYTHONPATH=.. ../$(BIN)/python -m django \
		compilemessages --locale $(LOCALE)

pictures: install ## Take the pictures of docs/images; needs chromium-headless-shell.
	$(BIN)/python -m tests.browser.pictures

lint: install ## Check style and types.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

weight: install ## Print how heavy the house is: lines, files, pages, names.
	$(BIN)/python -m tests.repository.weight

bench: install ## Measure, in ratios to peers and limits.
	$(BIN)/python -m benchmarks $(ARGS)

figures: install ## Measure all on ENGINE again for docs/benchmarks.md; nothing else should run.
	$(if $(filter-out -%,$(ARGS)),$(error figures measures all: ARGS takes options, \
		a value after its =))
	rm -f $(RESULTS).new $(IN_MEMORY).new
	$(BIN)/python -m benchmarks --engine $(ENGINE) --save $(RESULTS).new $(ARGS)
	$(BIN)/python -m benchmarks --engine $(ENGINE) --save $(RESULTS).new $(ARGS) \
		growth-million
	mv $(RESULTS).new $(RESULTS)
	if [ $(ENGINE) = embedded ] && [ -d $(MEMORY) ]; then \
		$(BIN)/python -m benchmarks --save $(IN_MEMORY).new $(ARGS) --folder $(MEMORY) \
			sqlite threads recipe libraries contention counters && \
		mv $(IN_MEMORY).new $(IN_MEMORY); \
		rm -f $(SIMULATED) && $(BIN)/python -m benchmarks --save $(SIMULATED) distant; fi
	$(MAKE) plots

plots: install ## Write what pages have of the stored results, and draw their picture.
	$(BIN)/python -m benchmarks.tables

$(TOOLS)/installed: requirements-tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --requirement requirements-tools.txt
	@touch $@

matrix: $(TOOLS)/installed ## Run the tests on each Python that is installed, with each Django.
	$(TOOLS)/bin/nox $(ARGS)

$(DOCS)/installed: requirements-docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --requirement requirements-docs.txt
	@touch $@

docs: $(DOCS)/installed ## Build the documentation's site into site; a warning is an error.
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict $(ARGS)

package: $(TOOLS)/installed ## Build the source archive and the wheel into dist, and check them.
	rm -rf dist
	$(TOOLS)/bin/python -m build
	$(TOOLS)/bin/python -m twine check --strict dist/*

clean: ## Remove what was installed and built, and the demo's data.
	rm -rf $(VENV) $(TOOLS) $(DOCS) .nox dist site var
