# `make` lists the targets. Everything runs from .venv, which `setup` makes from the lock in requirements/.

PYTHON ?= python3
UV ?= uv
PORT ?=
ARGS ?=
TORCH ?=
ATTACK ?=
# More than there are cores: most tests wait for a process or a disk most of the time.
JOBS ?= 4

# Some machines switch bytecode off for all; start-up takes more than twice as long without it.
export PYTHONDONTWRITEBYTECODE :=

PY := .venv/bin/python
READY := .venv/.ready
COMPILED := .venv/.compiled
# Of the frameworks, those that `make test` serves; the heavy ones have an environment of their own.
EXTRAS := sklearn xgboost lightgbm onnx environments tensorboard
HEAVY := sklearn xgboost onnx tensorflow mlflow
SOURCES := $(shell find src -name '*.py')
CODE := src tests bench tools examples

# An editable install holds the checkout's path, so a moved or copied checkout is set up anew.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
MOVED := moved
endif

# PORT=n is the control API, n + 1 the inference API, n + 2 the same over gRPC, n + 3 the control API with TLS; PORT=0 lets the system pick all.
ifeq ($(PORT),0)
PORTS := --port 0 --inference-port 0 --grpc-port 0 --tls-port 0
else ifneq ($(PORT),)
PORTS := --port $(PORT) --inference-port $(shell expr $(PORT) + 1) --grpc-port $(shell expr $(PORT) + 2) --tls-port $(shell expr $(PORT) + 3)
endif

.DEFAULT_GOAL := help
.PHONY: help setup run test test-properties test-faults test-conformance test-attack test-ml check gen clients lock bench bench-core bench-scale bench-peers bench-graphs bench-footprint bench-training clean moved

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) $(COMPILED) ## Make .venv from the lock, with mizzen, the test tools and the frameworks it serves
	@:

$(READY): requirements/dev.txt pyproject.toml tools/setup.sh $(MOVED)
	@PYTHON="$(PYTHON)" tools/setup.sh "$@"

$(COMPILED): $(READY) $(SOURCES)
	@$(PY) -m compileall -q src
	@touch $@

run: setup ## Start a plane with a demo model, in the foreground (PORT=0 picks free ports)
	@MIZZEN_LAUNCHER=./mizzen ./mizzen up --demo --data-dir .mizzen-demo $(PORTS)

test: setup ## Run all tests but the long tiers (ARGS="-k name" is handed to pytest; JOBS=n runs n at once)
	@$(PY) -m pytest tests --ignore=tests/faults --ignore=tests/attack --ignore=tests/conformance --ignore=tests/ml -n $(JOBS) --dist worksteal $(ARGS)

test-properties: setup ## Run the property tests with all examples, as CI does (`make test` tries a fifth of them)
	@TEST_EXAMPLES=full $(PY) -m pytest tests --ignore=tests/faults --ignore=tests/attack --ignore=tests/conformance --ignore=tests/ml -m hypothesis -n $(JOBS) --dist worksteal $(ARGS)

test-faults: setup ## Run the tests that kill processes under load
	@$(PY) -m pytest tests/faults -n 2 --dist loadfile $(ARGS)

test-attack: setup ## Attack a plane: hostile models, requests and damaged files (ATTACK=long also fuzzes for longer)
	@ATTACK="$(ATTACK)" $(PY) -m pytest tests/attack -n 2 --dist loadfile $(ARGS)

test-conformance: setup ## Run the README, and unmodified clients of others, such as kubectl, each in .venvs/<name>
	@PYTHON="$(PYTHON)" tools/clients.sh
	@$(PY) -m pytest tests/conformance -n $(JOBS) --dist loadfile $(ARGS)

test-ml: setup ## Serve TensorFlow, PyTorch and MLflow models, in .venvs/ml (TORCH=torch==2.13.0 names another build)
	@PYTHON="$(PYTHON)" TORCH="$(TORCH)" tools/ml.sh
	@.venvs/ml/bin/python -m pytest tests/ml -W default -p no:cacheprovider $(ARGS)

check: setup ## Lint, format, types, layers, sizes and names, generated files
	@$(PY) -m ruff check $(CODE)
	@$(PY) -m ruff format --check --quiet $(CODE) || { echo "Not formatted: run '$(PY) -m ruff format $(CODE)'."; exit 1; }
	@$(PY) -m mypy $(CODE)
	@.venv/bin/lint-imports --no-logo
	@$(PY) -m tools.lint
	@$(PY) -m tools.gen --check

gen: setup ## Write what is derived from the code: docs/reference/, deploy/crds/, deploy/grafana/, the OpenAPI documents
	@$(PY) -m tools.gen

clients: setup ## Write clients in Python and types for TypeScript into build/clients, from the OpenAPI documents
	@PYTHON="$(PYTHON)" tools/clients.sh openapi-python-client typescript
	@$(PY) -m tools.generated_clients

lock: ## Resolve the dependencies of pyproject.toml into requirements/ (ARGS=--upgrade takes newer ones)
	@command -v $(UV) >/dev/null || { echo "make lock needs uv: 'pipx install uv', or name it with UV=path/to/uv." >&2; exit 1; }
	@$(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" pyproject.toml $(foreach extra,$(EXTRAS),--extra $(extra)) --group dev -o requirements/dev.txt $(ARGS)
	@$(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" pyproject.toml $(foreach extra,$(HEAVY),--extra $(extra)) --group dev -o requirements/ml.txt $(ARGS)
	@for folder in tests/conformance/requirements bench/peers/requirements; do (cd $$folder && for file in *.in; do \
		$(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
			--custom-compile-command "make lock" $$file -o $${file%.in}.txt $(ARGS) || exit 1; done) || exit 1; done
	@cd tests/conformance/requirements/typescript && npm install --package-lock-only --no-audit --no-fund --loglevel=error

bench: setup ## Measure what a request costs: predictions beside nginx and FastAPI, then the control API
	@$(PY) -m bench.run $(ARGS)
	@$(PY) -m bench.core

bench-scale: setup ## Starts and changes of a whole plane over 100 and 10,000 models (some minutes; ARGS="--models 1000")
	@$(PY) -m bench.core_whole $(ARGS)

bench-core: setup ## The control API alone, over a small and a large store (ARGS="--rounds 3")
	@$(PY) -m bench.core $(ARGS)

bench-peers: setup ## Mizzen beside other model servers, each in .venvs/bench-<name> (ARGS="--only mizzen,mlserver --cases iris")
	@$(PY) -m bench.peers.run $(ARGS)

bench-graphs: setup ## What a request through a graph costs, beside one model alone and nginx (ARGS="--only nginx,model,ensemble --sizes 0")
	@$(PY) -m bench.graphs $(ARGS)

bench-training: setup ## What a training job and its logs cost beside its own code (ARGS="--jobs 50 --seconds 10")
	@$(PY) -m bench.training $(ARGS)

bench-footprint: setup ## What Mizzen weighs: installed size, start and memory of a runtime beside a bare process
	@$(PY) -m bench.footprint $(ARGS)

clean: ## Remove .venv, caches and build output (data dirs stay)
	@rm -rf .venv .venvs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench/results
	@find src tests bench tools examples -name __pycache__ -prune -exec rm -rf {} +
