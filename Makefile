# Every target works from a fresh clone with Python 3.11 or newer, make and a package registry.
# `make PYTHON=python3.12 test` chooses the interpreter that .venv is made from.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-gpu test-other-cpu check format docs bench bench-peers lock clean

help: ## say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with the pinned packages and heedful itself

demo: setup ## fine-tune a real BERT on support tickets and answer a few new ones
	$(BIN)/heedful demo

# Two at a time, each with whole files, since the tests of a file share what is slow to make; in the
# order of tests/conftest.py.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

test: setup ## run the whole test suite
	$(PYTEST)

test-gpu: setup ## run the tests that need a GPU of NVIDIA's
	$(BIN)/python -m pytest -m cuda

# Another CPU adds up in another order, and may lack bf16: what computes is tested so, too. Left out are
# bfloat16, which is emulated there; whole runs, most of which are only compared with themselves; and
# browsers, servers, exports and other programs, which answer with what is computed elsewhere. All of
# these take long.
OTHER_CPU := OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_CBWR=COMPATIBLE
SAME_ON_ANY_CPU := batches benchmarks commands interop pages reading reports rules serving tokens \
	explanations/test_command.py explanations/test_html.py explanations/test_views.py golden/test_curves.py \
	metrics/test_pictures.py models/test_on_device.py system \
	tasks/test_families.py tasks/test_generate.py tasks/test_pretrain.py tasks/test_prune.py \
	tasks/test_rtd.py tasks/test_translate.py \
	training/test_bring_back.py training/test_cuda.py training/test_interrupt.py \
	training/test_many_processes.py training/test_open_run.py \
	training/test_ranks.py training/test_resume.py training/test_stream.py \
	training/test_waiting.py training/test_watchdog.py \
	test_conftest.py test_damaged_runs.py test_doctor.py test_errors.py test_family_page.py \
	test_wheel.py test_wrong_input.py

test-other-cpu: setup ## run the tests that compute as on another CPU
	$(OTHER_CPU) $(PYTEST) -m 'not bf16' $(addprefix --ignore=tests/,$(SAME_ON_ANY_CPU))

check: setup ## check format, lint and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: setup ## put the code into the house format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# From scratch each time: what is generated from the code depends on files that Sphinx does not know.
docs: setup ## build the site in build/docs, with every broken link an error
	$(BIN)/sphinx-build --fail-on-warning --keep-going --nitpicky --fresh-env --quiet \
		--doctree-dir build/doctrees docs build/docs

# Peers live in an environment of their own, so that none of them holds another package back.
# JoeyNMT asks for old releases that it can do without: hence --no-deps, over a list that is whole.
PEERS := benchmarks/.venv

bench-peers: $(PEERS)/ready ## create the environment of the peers that the benchmarks measure

$(PEERS)/ready: benchmarks/requirements-peers.lock
	$(PYTHON) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --no-deps --requirement $< || \
		{ echo "make bench-peers: the packages of $< could not be installed; is there a package registry?" >&2; exit 1; }
	@touch $@

# make bench ROWS="encode tag" measures some; heedful bench --help tells the rest.
ROWS ?=
bench: setup bench-peers ## measure against the peers, side by side on this machine
	$(BIN)/heedful bench $(ROWS)

# The stamp is made last: an interrupted set-up leaves none and is taken up again where it stopped.
# --no-build-isolation: the build backend is in the lock, so nothing unpinned is fetched.
$(READY): requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "heedful needs Python 3.11 or newer as '$(PYTHON)'; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "'$(PYTHON)' has no venv module; install it (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=requirements-build.lock \
		$(BIN)/python -m pip install --quiet --no-compile --requirement requirements.lock
	@# What pip would compile in one process; some packages hold files that are no Python of this version.
	@$(BIN)/python -m compileall -qq -j 0 .venv/lib || true
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/heedful setup minilm
	@touch $@

# torch stays at its pin, which is changed by hand; the rest becomes the newest that pyproject.toml
# allows. A local suffix (2.13.0+cpu) names one build of a version, so it is left out.
lock: ## renew requirements.lock from pyproject.toml
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet "$$(grep '^torch==' requirements.lock)" '.[dev]'
	{ grep '^#' requirements.lock; \
	  build/lock/bin/python -m pip freeze --exclude heedful | sed 's/+.*//'; } > build/requirements.lock
	mv build/requirements.lock requirements.lock
	rm -rf build/lock

clean: ## remove .venv and everything that was built or cached
	rm -rf .venv $(PEERS) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
