# Everything a fresh machine needs: Python 3.11+ with venv, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Each says that its packages are installed: what a user needs, and what those who work on Understudy need besides.
STAMP := $(VENV)/.installed
TOOLS := $(VENV)/.tools
# The variable, unlike -c, pins what builds the package as well.
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --disable-pip-version-check

.PHONY: demo test lint audit licences pins wheel bench bench-rivals bench-wide bench-learning clean

$(STAMP): pyproject.toml constraints.txt
	@echo "Installing what Understudy needs into $(VENV): about 0.6 GB."
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	touch $@

$(TOOLS): $(STAMP)
	@echo "Installing what the tests and linters need into $(VENV): about 1.2 GB more."
	$(INSTALL) 'pip>=25.1'  # the first that knows dependency groups
	$(INSTALL) --group test --group lint
	touch $@

demo: $(STAMP)  ## a fictional table, released, with a report to open
	rm -rf demo-release
	$(BIN)/understudy demo --out demo-release
	$(BIN)/understudy verify demo-release/release

test: $(TOOLS)  ## the quick half of the battery, under ten minutes
	$(BIN)/python -m pytest -n 2 -m "not slow"

lint: $(TOOLS)
	$(BIN)/ruff check src tests bench tools
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/mypy

audit: $(TOOLS)  ## the whole battery, and docs/audit.md from what it came to; under an hour
	$(INSTALL) --group fuzz
	$(BIN)/python -m tools.audit

licences: $(TOOLS)  ## docs/licences.md, from what is installed
	$(BIN)/python -m tools.licences

pins: $(TOOLS)  ## everything needed is pinned, what is installed is what is pinned, and it fits together
	$(BIN)/python -m tools.requirements

wheel: $(TOOLS)  ## dist/, built twice and compared
	$(BIN)/python -m tools.wheel

# What was measured before is kept: a run that was stopped goes on where it was.
SUITES := noise sources accuracy matrix oracles dualquery rap

bench: $(TOOLS)  ## tables of the shorter suites; ../shared/data is used when it is there
	for suite in $(SUITES); do $(BIN)/python -m bench run $$suite || exit 1; done
	for suite in $(SUITES); do $(BIN)/python -m bench report $$suite; done

bench-wide: $(TOOLS)  ## 50 to 512,000 attributes, about half an hour and 7 GB
	$(BIN)/python -m bench run wide
	$(BIN)/python -m bench report wide

bench-learning: $(TOOLS)  ## private rules beside the best ones, about an hour
	$(BIN)/python -m bench run learning
	$(BIN)/python -m bench report learning --figures docs

bench-rivals: $(TOOLS)  ## beside MST and AIM, about an hour; installs them into .venv-rivals
	$(BIN)/python -m bench run rivals
	$(BIN)/python -m bench report rivals --figures docs

clean:
	rm -rf $(VENV) .venv-rivals demo-release .pytest_cache .mypy_cache .ruff_cache
