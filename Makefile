# Everything happens inside this folder; `make clean` undoes it.
PYTHON ?= python3
PROFILE ?= standard
PYTHON_THERE = command -v $(PYTHON) >/dev/null || { echo "PYTHON=$(PYTHON) is not there: name a Python 3.11 to 3.13" >&2; exit 2; }
CHOSEN = $(if $(STUDIES),--studies "$(STUDIES)") $(if $(ONLY),--only "$(ONLY)") $(if $(NATIVE),--native) $(if $(SINGLY),--singly)
WORKFLOW = $(PYTHON_THERE); $(PYTHON) -m async_cost.workflow.commands

# What a change of one notebook can break without its study being measured. STUDIES= tests these crates alone.
QUICK_TESTS = tests/test_in_step.py tests/test_notebook_table.py tests/test_pins.py tests/test_repository.py tests/test_words.py
CRATES = $(if $(STUDIES),$(addprefix -p ,$(STUDIES)),--workspace)

.PHONY: help report measure sweep compare contribute fleet comparisons sample experiments site test test-rust test-python test-fast deny lab setup format clean

help:
	@echo "make report [PROFILE=quick|standard|thorough] [RUN=data/runs/...]   measure, analyse, publish under reports/"
	@echo "make measure [PROFILE=...]   only measure, into data/runs/"
	@echo "             STUDIES=\"zero-cost ladder\" with either measures these studies alone"
	@echo "             ONLY=\"nonbox; box\" with one study measures these variants, their baselines and controls"
	@echo "             NATIVE=1 with either measures programs instead of cells, and builds no Rust kernel"
	@echo "make sweep RUSTC=\"1.95.0 nightly\" [PROFILE=...] [STUDIES=...]   measure with one installed compiler after the other"
	@echo "make compare A=data/runs/... B=data/runs/...   compare two runs"
	@echo "make contribute RUN=data/runs/...   check a run, pack it, show what a pull request with it would say"
	@echo "make fleet [CONFIG=fleet/config.yaml]   measure several machines by Slurm, and make one site of them"
	@echo "make comparisons  write data/comparisons.csv, what the studies declare that they compare"
	@echo "make sample      write docs/sample, the report of the reference run as pages for where the repository is hosted"
	@echo "make experiments  measure the measuring, for the page on trust: some twenty minutes, into data/experiments/"
	@echo "make lab      open JupyterLab with both kernels"
	@echo "make test-fast  formatting, pairing, lints, tests of the crates: for whoever changed a notebook"
	@echo "             STUDIES=\"zero-cost\" tests these crates alone"
	@echo "make test     run all tests (Rust, Python, notebooks in quick profile)"
	@echo "make site     render all runs under data/runs, as the public pages are"
	@echo "make deny     licences, sources and advisories of the crates; needs cargo-deny"
	@echo "make format   format Rust and Python, bring notebooks and crates in step"
	@echo "make clean    remove everything that was installed, built or generated, but keep runs in data/runs"

report:
	@$(WORKFLOW) report $(if $(RUN),--run "$(RUN)",--profile $(PROFILE)) $(CHOSEN)

measure:
	$(if $(RUN),$(error make measure makes a new run; to render one that is there: make report RUN=$(RUN)))
	@$(WORKFLOW) measure --profile $(PROFILE) $(CHOSEN)

# Cargo would take the variable RUSTC for its compiler.
sweep:
	$(if $(RUSTC),,$(error make sweep needs compilers: make sweep RUSTC="1.95.0 nightly"))
	@$(PYTHON_THERE); env -u RUSTC $(PYTHON) -m async_cost.workflow.commands sweep --profile $(PROFILE) $(if $(STUDIES),--studies "$(STUDIES)") "$(RUSTC)"

compare:
	$(if $(and $(A),$(B)),,$(error make compare needs two runs: make compare A=data/runs/... B=data/runs/...))
	@$(WORKFLOW) compare "$(A)" "$(B)"

contribute:
	$(if $(RUN),,$(error make contribute needs a run: make contribute RUN=data/runs/...))
	@$(WORKFLOW) contribute "$(RUN)"

fleet:
	@$(WORKFLOW) fleet $(or $(CONFIG),fleet/config.yaml)

comparisons: setup
	.venv/bin/python -m async_cost.workflow.declared

sample: setup
	.venv/bin/python -m async_cost.workflow.sample

experiments: setup
	.venv/bin/python -m async_cost.experiments.measure

lab:
	@$(WORKFLOW) lab

setup:
	@$(WORKFLOW) setup

site:
	@$(foreach run,$(wildcard data/runs/*/*/run.json),$(WORKFLOW) report --run "$(dir $(run))" &&) true

# Cargo builds and tests the crates while the set-up builds the kernel and fetches the packages.
test:
	@$(MAKE) --no-print-directory test-rust & rust=$$!; trap "kill $$rust; exit 130" INT TERM; \
	$(MAKE) --no-print-directory test-python; python=$$?; \
	wait $$rust; rust=$$?; [ $$rust = 0 ] || echo "make test-rust failed, see above" >&2; exit $$((rust + python))

test-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-features --all-targets --locked -- -D warnings
	cargo test --workspace --all-features --locked --no-fail-fast

test-python: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/python -m pytest --durations=20 -n 2

test-fast: setup
	cargo fmt --all --check
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/python -m pytest -q $(QUICK_TESTS) $(wildcard $(foreach study,$(STUDIES),tests/test_$(subst -,_,$(study))_analysis.py))
	cargo clippy $(CRATES) --all-features --all-targets --locked -- -D warnings
	cargo test $(CRATES) --all-features --locked

deny:
	cargo deny check

format:
	cargo fmt --all
	.venv/bin/ruff format .
	.venv/bin/jupytext --sync $(filter-out %/analysis.ipynb,$(wildcard notebooks/*/*.ipynb))
	.venv/bin/jupyter nbconvert --clear-output --inplace --log-level=WARN notebooks/*/*.ipynb

clean:
	rm -rf .venv .tools target reports data/runs/.partial fleet/.work async_cost.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
