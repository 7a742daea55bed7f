# Every target prepares .venv by itself, once. `make demo` and `make test` are all a newcomer needs.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
RUN_STAMP := .venv/.ready-to-run

.PHONY: demo test test-slow test-elsewhere attack audit check docs format bench chromium clean

# Without the tools of developers, which take longer to install than the demo to run.
demo: $(RUN_STAMP)
	rm -rf build/demo
	$(BIN)/remnant reproduce demo --out build/demo
	@echo "Open build/demo/demo-mini/index.html in a browser."

# Threads of several test processes would fight over the cores.
test: $(STAMP) chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-slow: $(STAMP) chromium
	$(BIN)/python -m pytest -m slow

# As if on other processors, with other threads and seeds; VARIANT=name runs one of them.
test-elsewhere: $(STAMP)
	$(BIN)/python tests/elsewhere.py $(VARIANT)

# Crashes, failing disks, kills, damaged and hostile files, with new seeds for MINUTES minutes.
MINUTES ?= 10
attack: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/attacks.py --scale 0.05 --minutes $(MINUTES) --seed $$(date +%s)

# Known advisories for what requirements.lock pins.
audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/pip install -q pip-audit
	@build/audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements.lock || { \
		echo "The audit failed: where no advisory is listed above, the service that knows them did not answer, and nothing is known."; \
		exit 1; }

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright

# The site, strictly: a broken link or a page without a place in zensical.toml ends it.
docs: $(STAMP)
	$(BIN)/zensical build --strict --clean
	$(BIN)/python benchmarks/check_site.py
	@echo "Open build/site/index.html in a browser."

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/remnant bench

# Browser tests use Debian's Chromium; elsewhere they skip and say so.
chromium:
	@command -v chromium >/dev/null || ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ] || \
		{ apt-get update -q && apt-get install -q -y --no-install-recommends chromium; } >/dev/null || \
		echo "Chromium could not be installed; tests that need it will skip."

$(RUN_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e .
	@touch $@

# LOCKED=1, as CI does: the very packages of requirements.lock.
$(STAMP): pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -m venv .venv
ifdef LOCKED
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q --require-hashes --no-deps -r requirements.lock
	$(BIN)/pip install -q --no-deps -e .
else
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
endif
	@touch $@

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
