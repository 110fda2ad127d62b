PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8000
export PORT

.PHONY: help install run test soak lint bench clean

help: ## Show the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/installed ## Create .venv and install everything into it.

$(VENV)/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	@touch $@

run: install ## Serve the demo project with its sample data on PORT.
	$(BIN)/python manage.py migrate --verbosity 0
	$(BIN)/python manage.py demo
	$(BIN)/python manage.py runserver --noreload 127.0.0.1:$(PORT)

test: install ## Run the tests.
	$(BIN)/python -m pytest $(ARGS)

soak: install ## Run the long tests of faults and concurrency.
	$(BIN)/python -m pytest tests/soak $(ARGS)

lint: install ## Check style and types.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: install ## Measure, in ratios to peers and limits.
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## Remove what was installed and the demo's data.
	rm -rf $(VENV) var
