# Install, test, document and measure, on a machine with Python and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
LOWEST := .venv-lowest
DOCS_STAMP := $(VENV)/.installed-docs
# One worker per core; each worker uses one thread, so that tests do not compete for the cores.
# `make test` leaves out what is marked slow; `make test-all`, which CI runs, does not.
PYTEST_ARGS ?= -q -n auto -m "not slow"
# Ratios within a run, minutes each. The others train for hours; the docstring of each has its command, results/ the outcome.
BENCHMARKS ?= epoch predict latency message_passing sweep

# What `make lowest` runs: what a light install can do, without torch.
LOWEST_TESTS ?= tests/serve tests/deploy/test_rows.py tests/deploy/test_forward.py tests/cli/test_predict.py \
    tests/test_files.py tests/test_text_tables.py tests/scoring/test_score.py

.PHONY: install demo test test-all lint format bench docs lowest clean
.DEFAULT_GOAL := install

install: $(STAMP)

# The build backend comes from the constraints too, hence no isolated (and so unpinned) build environment.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/gssc demo

test: export OMP_NUM_THREADS ?= 1
test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-all:
	$(MAKE) test PYTEST_ARGS="-q -n auto"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: export OMP_NUM_THREADS = 1
bench: $(STAMP)
	for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

# Pages in docs/_build; a warning is an error.
docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[docs]'
	touch $@

# The light install with every dependency at its lower bound, in an environment of its own.
lowest: $(LOWEST)/.installed
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -q -n 2 -p no:cacheprovider $(LOWEST_TESTS) \
	    --ignore-glob='*/test_fuzz.py' --ignore-glob='*/test_page.py'

$(LOWEST)/.installed: pyproject.toml .ci/lowest.py
	rm -rf $(LOWEST) && $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python .ci/lowest.py serve tables > $(LOWEST)/lowest.txt
	grep -E '^(pytest|pytest-xdist|hypothesis|hatchling|editables)==' constraints.txt > $(LOWEST)/tools.txt
	$(LOWEST)/bin/python -m pip install --quiet -r $(LOWEST)/lowest.txt -r $(LOWEST)/tools.txt
	$(LOWEST)/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
