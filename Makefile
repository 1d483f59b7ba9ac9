# Everything that a person runs here; continuous integration runs the very same (.ci/run).
PYTHON ?= python3.11
TORCH  ?= torch==2.13.0
DATA   ?= ../shared/data
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
# The tests must pass without a network: nothing may be fetched from a model hub. They start many processes, so what
# Python compiles is kept, even where the environment says otherwise.
OFFLINE := HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE=
# They write many small files and wait for each to be on the disk, so they write into memory where there is room.
SHM    := $(shell [ -w /dev/shm ] && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 4000000 {print "TMPDIR=/dev/shm"}')
BENCHES := sentence_retrieval index
# The Hugging Face folder of the bundled model: bench/encode.py measures against it.
HF     ?= .cache/bundled

.DEFAULT_GOAL := help
.PHONY: help demo programs test test-slow test-cluster test-data test-pythons check format docs pages site deploy bench crash damage fuzz lock licences audit wheel clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.base ## index the bundled sample and answer 40 marked queries in six languages
	@rm -rf demo-index
	@$(BIN)/phrasemate demo --dir demo-index

PROGRAMS := fonts-liberation groovy libreoffice-calc-nogui libreoffice-impress-nogui libreoffice-writer-nogui omegat xvfb
programs: ## install OmegaT and LibreOffice, with which some tests compare (Debian, as root); else these are skipped
	@apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends $(PROGRAMS) >/dev/null

PYTEST := $(OFFLINE) $(SHM) OMP_NUM_THREADS=1 $(BIN)/python -m pytest --ignore tests/cluster --numprocesses auto --dist loadfile --no-loadscope-reorder --durations 10

test: $(VENV)/.dev ## run the unit tests, offline
	@$(PYTEST) -m "not data and not browser and not slow"

test-slow: $(VENV)/.dev ## run the tests in a browser, with processes or kills, of other encoders, and of the commands on pages
	@$(PYTEST) -m "browser or slow"

test-cluster: $(VENV)/.ray ## run the tests that need Ray and Lance, on a cluster of this machine
	@$(OFFLINE) $(SHM) OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/cluster --numprocesses 2 --dist loadfile

test-data: $(VENV)/.dev ## run the checks that need the corpora in DATA
	@$(OFFLINE) $(BIN)/python -m pytest -m data || [ $$? -eq 5 ]  # 5: there is none yet

test-pythons: $(VENV)/.dev ## try the lock, the wheel and some tests in each Python from 3.11 on that is installed
	@deploy/pythons.sh

check: $(VENV)/.dev ## lint, format check, types, prose of the pages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python docs/lint.py

format: $(VENV)/.dev ## fix what lint and format check can fix
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(VENV)/.dev ## write the generated pages of the reference, the figures of the bundled model, and the tables as CSV
	@$(BIN)/python docs/generate.py

pages: $(VENV)/.dev ## run the commands on the pages, and write what they print into them
	@PAGES=write $(OFFLINE) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/docs

site: $(VENV)/.site docs ## build the documentation as a website in site/, and look at every page
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@$(BIN)/python docs/check_site.py
	@echo "open site/index.html, or: $(BIN)/python -m http.server --directory site 8080"

deploy: $(VENV)/.dev ## start the server in a container and behind nginx and Caddy, as far as they are installed, and ask it
	@deploy/check.sh

bench: $(VENV)/.dev $(HF)/model.safetensors ## run every benchmark (needs the corpora in DATA; some 15 minutes)
	@echo "encode" && $(BIN)/python bench/encode.py --data $(DATA) --hf $(HF)
	@echo "evaluate ccpr" && $(BIN)/phrasemate evaluate ccpr --data $(DATA)
	@for name in $(BENCHES); do echo && echo "$$name" && $(BIN)/python bench/$$name.py --data $(DATA) || exit 1; done

KILLS   ?= 60
FUZZ    ?= 60

crash: $(VENV)/.dev ## kill every job KILLS times, then full disks, lost folders, little memory
	@$(BIN)/python bench/crash.py --kills $(KILLS)
	@$(BIN)/python bench/crash.py --faults

damage: $(VENV)/.dev ## damage every kind of file in a thousand ways
	@$(BIN)/python bench/damage.py

fuzz: $(VENV)/.dev ## fuzz every reader and parser for FUZZ seconds each
	@$(PIP) install 'atheris>=2.3' || echo "no atheris for this Python: mutation at random"
	@for target in $$($(BIN)/python bench/fuzz.py --list --plain); do \
	  echo "$$target" && $(BIN)/python bench/fuzz.py $$target --seconds $(FUZZ) || exit 1; done

LOCKED := --universal --python-version 3.11 --generate-hashes --no-header --quiet

lock: $(VENV)/.dev ## pin all dependencies with their hashes
	@$(PIP) install uv
	@$(BIN)/uv pip compile pyproject.toml $(LOCKED) --output-file requirements.lock >/dev/null
	@$(BIN)/uv pip compile pyproject.toml --extra dev $(LOCKED) --output-file requirements-dev.lock >/dev/null

# eflomal is an extra that the user chooses; the other two are for tests only, and nothing of them is in the package.
# axe-playwright-python does not say that its licence is MIT.
COPYLEFT := eflomal odfpy translate-toolkit
licences: $(VENV)/.dev ## list the licences of all dependencies; fail for one that would bind who ships phrasemate, or for none
	@$(PIP) install pip-licenses
	@$(BIN)/pip-licenses --partial-match --fail-on 'GNU General Public;GNU Affero;GPL-2;GPL-3;UNKNOWN' \
	  --ignore-packages phrasemate axe-playwright-python $(COPYLEFT)

audit: $(VENV)/.dev ## what is installed fits together, and has no known vulnerability (the second needs a network)
	@$(BIN)/python -m pip check
	@$(PIP) install pip-audit
	@$(BIN)/python -m pip_audit --requirement requirements.lock --disable-pip --require-hashes --strict || \
	  { echo "the list of vulnerabilities could not be asked, or names some: see above" >&2; exit 1; }

wheel: $(VENV)/.dev ## build the wheel twice: both must be the same to the byte
	@rm -rf build/wheels
	@for n in 1 2; do mkdir -p build/wheels/$$n && cp -r src pyproject.toml README.md LICENSE build/wheels/$$n && \
	  find build/wheels/$$n -exec touch -d "2024-01-0$$n" {} + && (umask 02$$n; \
	  $(BIN)/python -m build --wheel --outdir build/wheels/$$n/dist build/wheels/$$n >/dev/null) || exit 1; done
	@sha256sum build/wheels/*/dist/*.whl && cmp build/wheels/1/dist/*.whl build/wheels/2/dist/*.whl && echo "the same to the byte"

$(HF)/model.safetensors: | $(VENV)/.dev
	@$(BIN)/phrasemate model unpack -o $(HF)

clean: ## remove all that was built here
	@rm -rf $(VENV) build dist demo-index site docs/reference/generated bench/out .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.base: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
	  echo "error: $(PYTHON) was not found; on Debian: sudo apt-get install python3.11 python3.11-venv" \
	       "(or name another Python of 3.11 or later: make $(MAKECMDGOALS) PYTHON=python3)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is older than 3.11; on Debian: sudo apt-get install python3.11 python3.11-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "error: $(PYTHON) cannot make virtual environments; on Debian: sudo apt-get install python3.11-venv" >&2; exit 1; }
	@echo "Installing phrasemate into $(VENV) (once; about 150 MB of packages, no torch) ..."
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "Installing what the tests need into $(VENV) (once; torch is the large one) ..."
	@$(PIP) install --no-compile '$(TORCH)'
	@$(PIP) install --no-compile --editable '.[dev]'
	@touch $@

$(VENV)/.site: $(VENV)/.dev
	@$(PIP) install --no-compile --editable '.[docs]'
	@touch $@

$(VENV)/.ray: $(VENV)/.dev
	@echo "Installing Ray and Lance into $(VENV) (once; about 350 MB) ..."
	@$(PIP) install --no-compile --editable '.[ray]' 'moto[server]>=5.0'
	@touch $@
