# Every target sets up .venv by itself when needed, and only then.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TEST := .venv/.ready-test
DEV := .venv/.ready-dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
INSTALL = test -x $(BIN)/python || $(PYTHON) -m venv .venv; $(PIP) --no-compile --editable
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/(tests|pip|mypy|mypyc|setuptools|playwright|fontTools)/' .venv/lib  # with all cores; pip would with one
PYTEST := $(BIN)/python -m pytest -n auto --no-loadscope-reorder
# Compiling takes much of the tests' time, so most are compiled quickly; the others as users have it.
QUICKLY := JAX_DISABLE_MOST_OPTIMIZATIONS=1 XLA_FLAGS=--xla_cpu_use_fusion_emitters=false
AS_USERS_DO := optimised or paper_data
REAL_PARTS := paper_data or slow or browser or cluster
# Only files with such a test are collected: all of them take ten seconds.
WITH_USERS := $$(grep -lrE --include='*.py' 'mark\.(optimised|paper_data)' tests)
WITH_REAL := $$(grep -lrE --include='*.py' 'mark\.(paper_data|slow|browser|cluster)' tests)
unexport PYTHONDONTWRITEBYTECODE  # tests start hundreds of processes: what is compiled once serves them all

.NOTPARALLEL:  # targets share one .venv
.PHONY: demo test slow torture check format lint types bench docs picture clean

demo: $(READY)  ## audit embedded data; ends with the path of a report to open
	$(BIN)/seedscope audit breast-cancer --out runs/demo-report

test: $(TEST)  ## every test that needs nothing but this folder
	$(QUICKLY) $(PYTEST) --dist loadfile -m "not ($(AS_USERS_DO))"
	$(PYTEST) --dist worksteal -m "$(AS_USERS_DO)" $(WITH_USERS)

slow: $(DEV)  ## real parts that take long or need paper data, a browser, a cluster
	SEEDSCOPE_SLOW=1 $(QUICKLY) $(PYTEST) --dist worksteal -m "($(REAL_PARTS)) and not ($(AS_USERS_DO))" $(WITH_REAL)
	SEEDSCOPE_SLOW=1 $(PYTEST) --dist worksteal -m "($(REAL_PARTS)) and ($(AS_USERS_DO))" $(WITH_USERS)

torture: $(DEV)  ## stores under kills, faults, stalls and full disks for three minutes; one table
	$(BIN)/python -m tests.torture --minutes 3

check: lint types test  ## formatter, linter, types, tests

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(DEV)
	$(BIN)/mypy

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV)  ## ours and the peer in one run, a ratio each
	$(BIN)/python -m benchmarks

docs: $(DEV)  ## the documentation site, into site/; links are checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

picture: demo $(DEV)  ## the README's screenshot, with chromium
	$(BIN)/python docs/make_picture.py runs/demo-report/report.html docs/report.png

clean:
	rm -rf .venv runs site

$(READY): pyproject.toml constraints.txt
	$(INSTALL) '.[networks]'
	-$(COMPILE)
	touch $@

$(TEST): pyproject.toml constraints.txt
	$(INSTALL) '.[test]'
	-$(COMPILE)
	touch $(READY) $@

$(DEV): pyproject.toml constraints.txt
	$(INSTALL) '.[dev]'
	-$(COMPILE)
	touch $(READY) $(TEST) $@
