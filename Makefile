# `make run` sets up what is missing and runs the main job; `make test` sets up and tests everything.
# Only the system packages ask for sudo, once; running never does.

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= $(shell for p in /usr/bin/python3 python3.13 python3.12 python3.11 python3; do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo "$$p" && break; done)
CONSTRAINTS := $(abspath .ci/build-constraints.txt)

.PHONY: run test check lint types imports setup dev system clean help

run: setup
	$(BIN)/railweave run

test: dev check
	$(BIN)/pytest

check: lint types imports

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: dev
	$(BIN)/mypy

imports: dev
	$(BIN)/lint-imports

setup: $(VENV)/.emu
dev: $(VENV)/.dev

system:
	.ci/system-packages $(VENV) $(PYTHON)

$(VENV)/bin/python: | system
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 found. Install one, or: make PYTHON=/path/to/python"; exit 2; }
	if command -v uv >/dev/null; then uv venv --quiet --python $(PYTHON) $(VENV); else $(PYTHON) -m venv $(VENV); fi

# Ryu's source distribution builds with old setuptools only, hence the constraint on builds.
define install
	if command -v uv >/dev/null; then \
		uv pip install --quiet --python $(BIN)/python --build-constraints $(CONSTRAINTS) --editable '.[$(1)]'; \
	else \
		PIP_CONSTRAINT=$(CONSTRAINTS) PIP_BUILD_CONSTRAINT=$(CONSTRAINTS) PIP_DISABLE_PIP_VERSION_CHECK=1 \
			$(BIN)/pip install --quiet --editable '.[$(1)]'; \
	fi
endef

$(VENV)/.emu: pyproject.toml | system $(VENV)/bin/python
	$(call install,emu$(comma)ilp)
	.ci/system-packages $(VENV) $(PYTHON)
	touch $@

$(VENV)/.dev: pyproject.toml | system $(VENV)/bin/python
	$(call install,emu$(comma)ilp$(comma)dev)
	.ci/system-packages $(VENV) $(PYTHON)
	touch $@ $(VENV)/.emu

comma := ,

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

help:
	@echo "make run    set up what is missing, then run the main job"
	@echo "make test   set up what is missing, then lint, types, import rules, unit and lab tests"
	@echo "make clean  remove the environment and caches"
