# Two commands do all the set-up: `make train` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
RUN ?= runs/connect_four-$(shell date +%Y%m%d-%H%M%S)

.PHONY: install train play test coverage check clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

# about three minutes of training on two cores, then what it learned
train: $(READY)
	$(BIN)/senju train connect_four --run $(RUN) --workers 0

# against the newest agent
play: $(READY)
	$(BIN)/senju play connect_four --run $(shell ls -dt runs/connect_four-* 2>/dev/null | head -1)

# everything: format, lint, types, all tests; one more process than cores, since many tests wait for processes
# without cached bytecode, each of some hundred processes would compile the package again
unexport PYTHONDONTWRITEBYTECODE
FAST := -m 'not slow' -n logical --dist loadfile
test: $(READY) lint
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -n $(shell expr $$(nproc) + 1) --dist loadfile

# the lines that the fast tests reach; it takes twice their time
coverage: $(READY)
	$(BIN)/python -m pytest $(FAST) --cov --cov-report=term

# the fast part, while working
check: $(READY) lint
	$(BIN)/python -m pytest $(FAST) -q

.PHONY: lint
lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .coverage*
