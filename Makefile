# `make run` sets the machine up and runs the main job; `make test` sets it up and runs every check and test.
# Installing system packages needs sudo, once; running does not. PYTHON=/path/to/python selects the interpreter.

BIN := .venv/bin
SLOWEST := --durations=25 --durations-min=4

.PHONY: run test check lint types imports docs man directory setup dev test-quiet test-vm test-vagrant clean help

run: setup
	$(BIN)/railweave run

test: dev check
	$(BIN)/pytest -n logical -m "not lab" $(SLOWEST)
	$(BIN)/pytest -n logical -m "lab and untimed" $(SLOWEST)
	$(BIN)/pytest -m "lab and not untimed and not quiet" $(SLOWEST)

test-quiet: dev
	$(BIN)/pytest -m quiet

check: lint types imports

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: dev
	$(BIN)/mypy

imports: dev
	$(BIN)/lint-imports

docs: dev
	@$(BIN)/python -c 'import zensical' 2>/dev/null || $(BIN)/pip install --quiet --editable ".[docs]"
	$(BIN)/python .ci/site.py

man: dev
	$(BIN)/python .ci/man.py .venv/share/man/man1

directory: dev
	$(BIN)/python .ci/directory.py page
	$(BIN)/python .ci/directory.py check

setup:
	.ci/provision.sh run

dev:
	.ci/provision.sh dev

test-vm:
	@python3 -m tests.vm.needs qemu
	@$(MAKE) --no-print-directory dev
	$(BIN)/pytest -v --durations=12 tests/vm/test_image.py tests/vm/test_lab.py

test-vagrant:
	@python3 -m tests.vm.needs vagrant
	@$(MAKE) --no-print-directory dev
	$(BIN)/pytest -s -v tests/vm/test_vagrant.py

clean:
	rm -rf .venv build dist .links/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

help:
	@echo "make run           set the machine up, then run the main job"
	@echo "make test          set the machine up, then lint, types, import rules, unit and lab tests"
	@echo "make test-quiet    times of the lab against closed forms, on a machine with nothing else to do"
	@echo "make test-vm       test the lab in a virtual machine: kernel datapath, netem (root, qemu; docs/vm.md)"
	@echo "make test-vagrant  test the Vagrantfile, from vagrant up to vagrant destroy (root, vagrant; docs/vm.md)"
	@echo "make docs          build docs/ as a site in build/site (Zensical)"
	@echo "make man           write manual pages into .venv, where man finds them if .venv/bin is in PATH"
	@echo "make directory     make docs/directory.md of plugins/directory.yaml, and check every plugin listed"
	@echo "make clean         remove the environment and all caches"
