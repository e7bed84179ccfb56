# Two commands matter: `make demo` and `make test`. Both make the environment by themselves.
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin
STAMP := $(VENV)/.ready
WORKERS ?= $(shell nproc)

.PHONY: demo demo-check test soak check venv services clean

demo: venv ## panel, worker, agent and three sites, in the foreground
	@$(RUN)/hosting-demo

demo-check: venv ## the whole road once; the last line is one JSON object
	@$(RUN)/hosting-demo-check

test: venv services ## the whole suite, on SQLite and on PostgreSQL
	@PATH="$(CURDIR)/$(RUN):$$PATH" WORKERS=$(WORKERS) scripts/test.sh

soak: venv services ## the engine under chaos, ten minutes on each database
	@PATH="$(CURDIR)/$(RUN):$$PATH" scripts/soak.sh

check: venv ## format, lint, types, import contracts, migrations, deployment checks
	@PATH="$(CURDIR)/$(RUN):$$PATH" scripts/check.sh

venv: $(STAMP)

$(STAMP): requirements.txt requirements-dev.txt pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or later is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' \
	  || { echo "Python's venv is missing; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "Making $(VENV) from the pinned requirements ..."
	@test -x $(RUN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(RUN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

services:
	@scripts/services.sh

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
