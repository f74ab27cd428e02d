# Everything a fresh machine needs: Python 3.11+ with venv, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint audit licences pins wheel bench bench-rivals bench-wide bench-learning clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,lint]'
	touch $(STAMP)

demo: $(STAMP)  ## a fictional table, released, with a report to open
	rm -rf demo-release
	$(BIN)/understudy demo --out demo-release
	$(BIN)/understudy verify demo-release/release

test: $(STAMP)  ## the quick half of the battery, under ten minutes
	$(BIN)/python -m pytest -n 2 -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check src tests bench tools
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/mypy

audit: $(STAMP)  ## the whole battery, and docs/audit.md from what it came to; under an hour
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	$(BIN)/python -m tools.audit

licences: $(STAMP)  ## docs/licences.md, from what is installed
	$(BIN)/python -m tools.licences

pins: $(STAMP)  ## everything needed is pinned, what is installed is what is pinned, and it fits together
	$(BIN)/python -m tools.requirements

wheel: $(STAMP)  ## dist/, built twice and compared
	$(BIN)/python -m tools.wheel

bench: $(STAMP)  ## each prints a table; ../shared/data is used when it is there
	$(BIN)/python -m bench.noise
	$(BIN)/python -m bench.sources
	$(BIN)/python -m bench.accuracy
	$(BIN)/python -m bench.matrix
	$(BIN)/python -m bench.oracles
	$(BIN)/python -m bench.dualquery
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.rap

bench-wide: $(STAMP)  ## 50 to 512,000 attributes, about half an hour and 7 GB
	$(BIN)/python -m bench.wide

bench-learning: $(STAMP)  ## private rules beside the best ones, about half an hour; needs OR-tools: pip install 'understudy[solvers]'
	$(BIN)/python -m bench.learning

bench-rivals: $(STAMP)  ## beside MST and AIM, about an hour; installs them into .venv-rivals
	$(BIN)/python -m bench.rivals

clean:
	rm -rf $(VENV) .venv-rivals demo-release .pytest_cache .mypy_cache .ruff_cache
