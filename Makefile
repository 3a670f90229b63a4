# Everything happens inside this folder; `make clean` undoes it.
#
# Any make can read this: GNU's and BSD's have no conditions in common, so the shell decides. It finds what was given to make
# as PROFILE=quick in its environment.
PYTHON ?= python3
PYTHON_THERE = command -v $(PYTHON) >/dev/null || { echo "PYTHON=$(PYTHON) is not there: name a Python 3.11 to 3.13" >&2; exit 2; }
# Without the variables and packages of a user's own Python (-E, -s).
WORKFLOW = $(PYTHON_THERE); $(PYTHON) -Es -m async_cost.workflow
CHOSEN = $${PROFILE:+--profile "$$PROFILE"} $${STUDIES:+--studies "$$STUDIES"} $${ONLY:+--only "$$ONLY"} $${NATIVE:+--native}
# A program in the environment that the workflow has.
TOOL = @$(WORKFLOW) tool
# ruff looks at what git knows: a notebook of one's own may hold anything.
RUFF = @ruff() { git ls-files '*.py' '*.ipynb' | { $(WORKFLOW) tool ruff "$$@" @/dev/stdin; }; }; ruff

# What a change of one notebook can break without its study being measured. STUDIES= tests these crates alone.
QUICK_TESTS = tests/test_in_step.py tests/test_notebook_table.py tests/test_pins.py tests/test_repository.py tests/test_words.py
CRATES = $$(if [ "$$STUDIES" ]; then printf ' -p %s' $$STUDIES; else echo --workspace; fi)

.PHONY: help report measure contribute ro-crate fleet comparisons findings sample experiments site test test-all test-rust test-python test-python-all test-miri lint-python crates-exist test-fast deny lab setup packages format clean

help:
	@echo "make report [PROFILE=quick|standard|thorough] [RUN=data/runs/...]   measure, analyse, publish under reports/"
	@echo "make measure [PROFILE=...]   only measure, into data/runs/: one sitting, some twenty minutes of measuring"
	@echo "             STUDIES=\"zero-cost ladder\" with either measures these studies alone"
	@echo "             ONLY=\"nonbox; box\" with one study measures these variants, their baselines and controls"
	@echo "             NATIVE=1 with either measures programs instead of cells, and builds no Rust kernel"
	@echo "make measure RUN=data/runs/...   measure the same again at another hour, as another sitting of the series of that run"
	@echo "make contribute RUN=data/runs/...   check a run, pack it, say how to offer it"
	@echo "make ro-crate RUN=data/runs/...   describe the files of a run, as RO-Crate 1.1, for an archive"
	@echo "make fleet [MACHINES=fleet/machines]   measure several machines by Slurm, and make one site of them"
	@echo "make comparisons  write data/comparisons.csv, what the studies declare that they compare; of STUDIES= alone where named"
	@echo "make findings  write data/findings.csv, how findings are defined, and data/judged.csv, what committed series say"
	@echo "make sample      write docs/sample, the report of the reference run as pages for where the repository is hosted"
	@echo "make experiments  measure the measuring, for the page on trust: some 25 minutes, into data/experiments/"
	@echo "make lab      open JupyterLab with both kernels; as root LAB_OPTIONS=--allow-root"
	@echo "make setup    install packages, JupyterLab and the Rust kernel into the clone; make packages: without the kernel"
	@echo "make test-fast  formatting, pairing, lints, tests of the crates: after a change of a notebook"
	@echo "             STUDIES=\"zero-cost\" tests these crates alone"
	@echo "make test     test crates and Python"
	@echo "make test-all  that, whole runs of programs and in cells, JupyterLab, AddressSanitizer, valgrind, loom, random programs and a fleet on Slurm"
	@echo "make test-miri  sets of a few tests under Miri, on a nightly compiler that it installs, and a count to its end on 32 bits"
	@echo "make site     render all runs under data/runs, a series once, as the public pages are; the reference is the front"
	@echo "make deny     licences, sources and advisories of the crates; needs cargo-deny"
	@echo "make format   format Rust and Python, bring notebooks and crates in step"
	@echo "make clean    remove everything that was installed, built or generated, but keep runs in data/runs"

report:
	@$(WORKFLOW) report $${RUN:+--run "$$RUN"} $(CHOSEN)

measure:
	@$(WORKFLOW) measure $${RUN:+--run "$$RUN"} $(CHOSEN)

contribute:
	@: "$${RUN:?make contribute needs a run: make contribute RUN=data/runs/...}"
	@$(WORKFLOW) setup --native
	$(TOOL) python -m async_cost.workflow.contribute "$$RUN"

ro-crate: packages
	@: "$${RUN:?make ro-crate needs a run: make ro-crate RUN=data/runs/...}"
	$(TOOL) python -m async_cost.report.ro_crate "$$RUN"

fleet:
	@$(WORKFLOW) fleet "$${MACHINES:-fleet/machines}" $(CHOSEN)

comparisons: packages
	$(TOOL) python -m async_cost.workflow.definitions comparisons $$STUDIES

findings: packages
	$(TOOL) python -m async_cost.workflow.definitions

sample: packages
	$(TOOL) python -m async_cost.workflow.sample

experiments: setup
	$(TOOL) python -m experiments

# The extensions of JupyterLab are configured by its packages.
lab: setup
	$(TOOL) env -u JUPYTER_NO_CONFIG python -m jupyterlab --ServerApp.root_dir=. --LabApp.news_url=None \
		--LabApp.default_url=/lab/tree/notebooks/start-here.ipynb \
		--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate $$LAB_OPTIONS

setup:
	@$(WORKFLOW) setup

# What needs no Rust kernel needs these alone.
packages:
	@$(WORKFLOW) setup --native

site:
	@first=data/runs/$$(head -n 1 data/runs/REFERENCE)/run.json; \
	for run in $$first $$(grep -L '"series": "' data/runs/*/*/run.json | grep -vx $$first); do $(WORKFLOW) report --run "$${run%/run.json}" || exit; done

# Cargo builds and tests the crates while pytest runs, which for `test-all` builds in other folders of target/.
BOTH = rm -f target/tested.txt; \
	$(MAKE) --no-print-directory test-rust & rust=$$!; trap "kill $$rust; exit 130" INT TERM; \
	$(MAKE) --no-print-directory $$tests; python=$$?; \
	wait $$rust; rust=$$?; [ $$rust = 0 ] || echo "make test-rust failed, see above" >&2; [ $$((rust + python)) = 0 ] || exit 1; \
	echo "rustfmt, clippy, the tests of all crates, ruff, mypy and pytest passed."; cat target/tested.txt

test:
	@tests=test-python; $(BOTH)

test-all:
	@tests=test-python-all; $(BOTH)

test-rust:
	$(TOOL) cargo fmt --all --check
	$(TOOL) cargo clippy --workspace --all-features --all-targets --locked -- -D warnings
	$(TOOL) cargo test --workspace --all-features --locked --no-fail-fast

PYTEST = $(TOOL) python -m pytest -rs --durations=20 -n 2

test-python: packages lint-python
	$(PYTEST) -m "not (native or kernel or address_sanitizer or valgrind or loom or soak or slurm)"

test-python-all: setup lint-python
	$(PYTEST)

lint-python: packages
	$(RUFF) check
	$(RUFF) format --check
	$(TOOL) mypy

# Before anything is installed.
crates-exist:
	@for study in $$STUDIES; do cargo pkgid --quiet --locked --offline "$$study" >/dev/null || exit; done

test-fast: crates-exist packages
	$(TOOL) cargo fmt --all --check
	$(RUFF) check
	$(RUFF) format --check
	$(TOOL) python -m pytest -q -m "not kernel" $(QUICK_TESTS)
	$(TOOL) cargo clippy $(CRATES) --all-features --all-targets --locked -- -D warnings
	$(TOOL) cargo test $(CRATES) --all-features --locked

deny:
	$(TOOL) cargo deny check

# A crate's set for Miri is its tests/miri.rs: few and small tests, since Miri interprets. Tree Borrows, since the other
# model refuses crossbeam-epoch, which also keeps some memory to the end: leaks are seen by AddressSanitizer.
NIGHTLY = nightly-2026-05-20

test-miri:
	rustup toolchain install $(NIGHTLY) --profile minimal --component miri,rust-src
	MIRIFLAGS="-Zmiri-tree-borrows -Zmiri-ignore-leaks"; export MIRIFLAGS; for set in $$(git ls-files 'rust-kernels/*/tests/miri.rs'); do \
		cargo +$(NIGHTLY) miri test --locked --target-dir target/miri --manifest-path "$${set%/tests/miri.rs}/Cargo.toml" --test miri || exit; \
	done
	rustup target add i686-unknown-linux-musl
	cargo test --locked --release --target i686-unknown-linux-musl -p runtimes-executor -p thread-pools-lean --test overflow --test destructors

format:
	$(TOOL) cargo fmt --all
	$(TOOL) ruff format .
	$(TOOL) python -m async_cost.workflow.pairing tidy $$(git ls-files 'notebooks/*.ipynb')
	$(TOOL) jupytext --sync $$(ls notebooks/*/*.ipynb | grep -v /analysis.ipynb)

clean:
	rm -rf .venv .tools target reports data/runs/.partial fleet/.work async_cost.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
