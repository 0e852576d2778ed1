# Every target sets itself up: Python >= 3.11, make and a package index are all it takes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test test-processes site slow fuzz soak load coverage clients check matrix format bench docs reproduction clean
.DEFAULT_GOAL := help

help:           ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The stamps are remade only when pyproject.toml changes, so a second run installs nothing.
$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[cli,plot,parquet]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.run
	$(PIP) --editable '.[dev]'
	@touch $@

demo: $(VENV)/.run       ## fit a table and choose alpha beside scikit-learn, and write demo-report.html
	$(BIN)/ling demo

# As many processes as cores, each with one thread of BLAS.
test: $(VENV)/.dev       ## run the tests, in random order, warnings as errors
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

test-processes: $(VENV)/.dev  ## run the tests that start other processes: clusters, commands, browsers
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "processes and not slow"

site: $(VENV)/.dev       ## build the site without examples, run the examples, and test both
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m site

slow: $(VENV)/.dev       ## run the tests that take minutes (some need LING_DATA)
	$(BIN)/python -m pytest -m slow

# FUZZ and SOAK are further options: make fuzz FUZZ="--format npy --count 500"
fuzz: $(VENV)/.dev       ## open damaged files of every format, 10,000 of each (half an hour)
	$(BIN)/python tools/fuzz_files.py $(FUZZ)

soak: $(VENV)/.dev       ## compare the certificates of 100,000 random problems with exact errors
	$(BIN)/python tools/soak.py $(SOAK)

load: $(VENV)/.dev       ## run the load tests with twenty times as many fits
	LING_LOAD=20 $(BIN)/python -m pytest -m "not slow and not site" tests/test_load.py

coverage: $(VENV)/.dev   ## run the tests and list the lines that none of them runs
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -q --cov -m "not slow and not site"

# Other people's packages, in an environment of their own: they restrict versions.
$(VENV)-clients/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-clients
	$(VENV)-clients/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[clients]'
	@touch $@

clients: $(VENV)-clients/.ready  ## compare with scikit-learn inside other packages (aeon, shap, ...)
	$(VENV)-clients/bin/python -m pytest -q -o filterwarnings=default clients

check: $(VENV)/.dev      ## format, lint, types, import directions, wheel and source distribution
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	rm -rf $(VENV)/dist
	$(BIN)/python -m build --no-isolation --outdir $(VENV)/dist . >$(VENV)/build.log || (cat $(VENV)/build.log; false)
	$(BIN)/python -m twine check --strict $(VENV)/dist/*
	$(BIN)/python tools/check_dist.py $(VENV)/dist

# uv, which nox installs with, reads no configuration of pip: UV_DEFAULT_INDEX names another index.
matrix: | $(VENV)/bin/python  ## run tests and types with the oldest and newest versions (an hour)
	$(PIP) 'nox[uv]>=2025.2.9'
	$(BIN)/python -m nox

format: $(VENV)/.dev     ## rewrite the code as `make check` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev      ## measure ling beside its peers; ratios, not times
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev       ## build the site into docs/_build/html, warnings as errors
	@echo "running the examples and building the site: some minutes"
	$(BIN)/python -m sphinx -E -W --keep-going -q -d docs/_build/doctrees docs docs/_build/html
	@echo "open docs/_build/html/index.html"

reproduction: $(VENV)/.dev  ## redo the paper and docs/reproduction.md (needs LING_DATA)
	$(BIN)/python docs/make_reproduction.py

clean:                   ## remove everything that make made
	rm -rf docs/_build docs/api/generated docs/auto_gallery
	rm -rf $(VENV) $(VENV)-clients .nox .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
