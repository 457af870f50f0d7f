# `make evolve` and `make test` need Python >= 3.10 and nothing else: they install what they need.
PYTHON ?= python3
BIN := .venv/bin
LOWEST ?= tests/files tests/language tests/scoring tests/inputs tests/runs tests/statistics \
	tests/cli/test_help.py tests/cli/test_commands.py
STAMP := .venv/installed
PACKAGE := .venv/installed-package
SCRIPTS := $(wildcard tests/bench/*.py tests/proofs/*.py tests/fuzz/*.py) \
	$(filter-out %_pilot.py,$(wildcard runs/scripts/*.py))

# Benchmark files in a folder next to this clone, if there is one.
ifneq ($(wildcard ../shared/data),)
export AUTOPROX_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help evolve docs test lint types tests coverage test-lowest licences audit clean

help:
	@echo 'make evolve   find a proxy for nano-bench, offline, and show it'
	@echo 'make docs     write the reference, and build the site in build/site'
	@echo 'make test     lint, types and tests (each also alone: make lint, make types, make tests)'
	@echo 'make coverage the tests, and which branches they take'
	@echo 'make test-lowest  tests with the lowest versions of pyproject.toml, in a venv of its own'
	@echo 'make licences list what is needed with its licences in docs/licences.md'
	@echo 'make audit    ask for known weaknesses of what is installed; needs the network'
	@echo 'make clean    remove .venv and all that was built; runs stay'

# In a clone without the developers' tools this installs the package alone.
evolve: $(or $(wildcard $(STAMP)),$(PACKAGE))
	$(BIN)/autoprox evolve

# Warnings are errors. The site needs no network, neither to be built nor to be read.
docs: $(STAMP)
	$(BIN)/python docs/make.py
	$(BIN)/mkdocs build --strict

test: lint types tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy doesn't follow setuptools' package-dir, so it checks the wheel as it is installed, from
# there: in this folder it would find what the wheel lacks. Of scripts it finds what no longer is.
types: $(STAMP)
	rm -rf build *.egg-info
	$(BIN)/pip install -q --no-deps --no-build-isolation --no-index --target build/mypy .
	cd build/mypy && ../../$(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache -p autoprox
	cd build/mypy && ../../$(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache ../../tests/typed_use.py
	cd build/mypy && MYPYPATH=../../tests:../../tests/bench:../../tests/proofs:../../runs/scripts ../../$(BIN)/mypy --config-file= --ignore-missing-imports --check-untyped-defs --disable-error-code misc --cache-dir ../../.mypy_cache/scripts $(SCRIPTS:%=../../%)

tests: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

coverage: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal --cov --cov-report=term:skip-covered

# Packages of which versions before the pinned one aren't built for processors alone stay pinned.
# From another folder: in this one the tests' processes would import the sources, not the package.
test-lowest: $(STAMP)
	rm -rf build/lowest
	$(BIN)/python tests/proofs/lowest.py test > build-lowest.txt
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/pip install -q -r build-lowest.txt
	build/lowest/bin/pip install -q --no-deps .
	rm build-lowest.txt
	cd build/lowest && OMP_NUM_THREADS=1 bin/pytest --rootdir ../.. -c ../../pyproject.toml -W default $(LOWEST:%=../../%)

licences: $(STAMP)
	$(BIN)/python docs/make_licences.py

audit: $(STAMP)
	$(PYTHON) -m venv build/audit
	build/audit/bin/pip install -q pip-audit
	build/audit/bin/pip-audit --path $(wildcard .venv/lib/python*/site-packages)

$(PACKAGE): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -c constraints.txt -e .
	touch $@

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
