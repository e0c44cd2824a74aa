# Install, test, document and measure, on a machine with Python and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
LOWEST := .venv-lowest
LOWEST_ALL := .venv-lowest-all
DOCS_STAMP := $(VENV)/.installed-docs
# One worker per core; each worker uses one thread, so that tests do not compete for the cores.
# `make test` leaves out what is marked slow; `make test-all`, which CI runs, does not.
PYTEST_ARGS ?= -q -n auto -m "not slow"
# Ratios within a run, minutes each. The others train for hours; the docstring of each has its command, results/ the outcome.
BENCHMARKS ?= epoch predict latency message_passing sweep

# What `make lowest` runs: what a light install can do, without torch.
LOWEST_TESTS ?= tests/serve tests/deploy/test_rows.py tests/deploy/test_forward.py tests/cli/test_predict.py \
    tests/test_files.py tests/test_text_tables.py tests/scoring/test_score.py

# What `make lowest-all` runs. The test left out compares two trainings on rescaled rows, which rounding leads apart there.
LOWEST_ALL_TESTS ?= tests/audit tests/cli tests/data tests/deploy tests/evaluate tests/learner tests/models \
    tests/molecules tests/report tests/scoring tests/sparsify tests/tracking tests/train tests/trust \
    tests/test_estimator.py tests/test_graph.py tests/test_run.py \
    --deselect tests/test_estimator.py::test_scaling_is_part_of_the_model

.PHONY: install demo test test-all lint format bench docs lowest lowest-all clean
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

# Every extra with its dependencies at their lower bounds, torch among them: 6 GB and half an hour. Old libraries warn of
# one another, so warnings are not errors.
lowest-all: $(LOWEST_ALL)/.installed
	OMP_NUM_THREADS=1 $(LOWEST_ALL)/bin/python -m pytest -q -n auto -p no:cacheprovider -o filterwarnings=default \
	    -m "not slow" $(LOWEST_ALL_TESTS)

$(LOWEST)/.installed: EXTRAS := serve tables
$(LOWEST_ALL)/.installed: EXTRAS := tables data train bench report tensorboard mlflow ann molecules export ray tune
$(LOWEST)/.installed $(LOWEST_ALL)/.installed: pyproject.toml .ci/lowest.py
	rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	$(@D)/bin/python .ci/lowest.py $(EXTRAS) > $(@D)/lowest.txt
	grep -E '^(pytest|pytest-xdist|hypothesis|hatchling|editables)==' constraints.txt > $(@D)/tools.txt
	$(@D)/bin/python -m pip install --quiet -r $(@D)/lowest.txt -r $(@D)/tools.txt
	$(@D)/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) $(LOWEST_ALL) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
