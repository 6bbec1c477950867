# Everything is set up on first use: a virtual environment from hashed lock files.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Only from the command line of `make`: PORT or DATA in the environment is meant for other programs. Without them the
# environment (PLAUDIT_*) and .env apply.
told = $(if $(filter command,$(origin $(1))),$($(1)))
CHOSEN = $(if $(call told,PORT),PLAUDIT_HTTP__PORT='$(PORT)') $(if $(call told,DATA),PLAUDIT_DATA='$(DATA)')
MANIFESTS := deploy/kubernetes/plaudit.yaml
CHART := deploy/helm/plaudit
# Keep compiled bytecode whatever the shell sets: without it each command takes a second longer to start.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help up demo test test-more test-slow lint bench chaos bad-input mutants docs client manifests screenshots sbom pin audit lock clean

up: $(VENV)/run.stamp ## run the service with its servers on this machine: PORT, DATA, BROKER
	@$(CHOSEN) $(if $(call told,BROKER),PLAUDIT_BROKER=$(BROKER)) exec $(BIN)/plaudit up

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/run.stamp ## a tour of the running service; FILL=500 fills the shop at /demo with that many reviews
	@$(CHOSEN) exec $(BIN)/plaudit demo $(if $(call told,FILL),--fill $(FILL))

# In the order of the folders: the longest files have few tests, and would come last by themselves. Four at a time keep
# two cores busy while some of them wait. The JVM's second compiler would cost Kafka more than it gains in so short a life.
tests = JDK_JAVA_OPTIONS="$$JDK_JAVA_OPTIONS -XX:TieredStopAtLevel=1" \
  $(BIN)/pytest --numprocesses=4 --dist=loadfile --no-loadscope-reorder --broker=$(or $(BROKER),auto) -m "$(1)" $(ARGS)

test: $(VENV)/dev.stamp ## tests on real servers, takes minutes: ARGS; BROKER=tansu for the fallback broker
	@$(call tests,not slow and not long)

test-more: $(VENV)/dev.stamp ## the longer tests, takes about 15 minutes: ARGS, BROKER
	@$(call tests,long and not slow)

# Tests that take minutes, and full-size versions of tests that `make test` runs with small data.
test-slow: $(VENV)/dev.stamp ## the slowest tests: TLS, imports, privacy, bad input, outages at full size
	@PLAUDIT_TEST_SUBMISSIONS=20000 PLAUDIT_TEST_VOTES=100000 PLAUDIT_TEST_EXPORTED=2000 PLAUDIT_TEST_OUTAGE_S=30 PLAUDIT_TEST_KILLS=60 \
	  $(BIN)/pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder --broker=$(or $(BROKER),auto) -m "slow or scaled" $(ARGS)

lint: $(VENV)/dev.stamp ## ruff, mypy, import rules, Kubernetes schemas
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
# The oldest and the newest supported Kubernetes; the chart's other values: tests/unit/test_helm.py.
	$(BIN)/kubernetes-validate --strict --quiet -k 1.28 $(MANIFESTS)
	$(BIN)/kubernetes-validate --strict --quiet -k 1.37 $(MANIFESTS)

bench: $(VENV)/bench.stamp ## benchmarks against limits and alternatives: QUICK=1, ARGS=<group>
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(ARGS)

# SEED, FAULTS, COMMANDS, SECONDS, KINDS, BEFORE and the others of `python -m tests.chaos --help`.
chaos: $(VENV)/dev.stamp ## the fault suite at full length: SEED, FAULTS, COMMANDS, SECONDS, KINDS
	@$(BIN)/python -m tests.chaos $(foreach flag,SEED FAULTS COMMANDS SECONDS KINDS BEFORE REVIEWERS IMPORTERS BUYERS AUDIENCES DECIDERS BATCH KEEP RESULTS,$(if $($(flag)),--$(shell echo $(flag) | tr A-Z a-z)=$($(flag))))

bad-input: $(VENV)/dev.stamp ## fuzz tests with bad requests and messages: SEED, REQUESTS, MESSAGES, EXAMPLES
	@$(BIN)/python -m tests.chaos.bad_input $(foreach flag,SEED REQUESTS MESSAGES EXAMPLES,$(if $($(flag)),--$(shell echo $(flag) | tr A-Z a-z)=$($(flag))))

# Takes most of an hour on two cores. `ARGS=moderation` tests one module, `ARGS=--report` reports the last run again.
mutants: $(VENV)/mutants.stamp ## mutation tests: small changes of the domain that its unit tests must detect
	@$(BIN)/python -m tests.mutants $(ARGS)

docs: $(VENV)/dev.stamp ## write docs/asyncapi.json and docs/settings.md
	$(BIN)/python docs/write_asyncapi.py
	$(BIN)/python docs/write_settings.py

client: $(VENV)/dev.stamp ## generate the types of clients/typescript; needs npm
	cd clients/typescript && npm ci --silent && ../../$(BIN)/plaudit openapi | npm run --silent generate
	@$(BIN)/plaudit openapi | sha256sum | cut -d' ' -f1 > clients/typescript/openapi.sha256

manifests: ## write deploy/kubernetes/plaudit.yaml from the chart; needs helm
	helm template plaudit $(CHART) --values deploy/kubernetes/values.yaml > $(MANIFESTS).new && mv $(MANIFESTS).new $(MANIFESTS)

screenshots: $(VENV)/dev.stamp ## write docs/console and docs/storefront from a running `make up`; needs chromium: PORT, DATA, ARGS
	@$(CHOSEN) $(BIN)/python docs/write_screenshots.py $(ARGS)

# The service's packages, from the lock file.
sbom: $(VENV)/release.stamp ## write a CycloneDX SBOM of the service into dist/
	@mkdir -p dist
	$(VENV)-release/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/sbom.cdx.json requirements/service.lock

pin: ## write the digest of the base image into the Dockerfile; needs docker buildx and the registry
	@tag=$$(sed -nE 's/^ARG PYTHON=([^@]+).*/\1/p' Dockerfile) && \
	  digest=$$(docker buildx imagetools inspect "python:$$tag" --format '{{.Manifest.Digest}}') && \
	  sed -i -E "s/^ARG PYTHON=.+/ARG PYTHON=$$tag@$$digest/" Dockerfile && grep '^ARG PYTHON=' Dockerfile

audit: $(VENV)/release.stamp ## known vulnerabilities of the service's packages; needs the internet
	$(VENV)-release/bin/pip-audit --require-hashes --disable-pip --requirement requirements/service.lock

lock: ## resolve the dependencies again
	$(BIN)/python requirements/lock.py

clean: ## remove environments, data and caches
	rm -rf $(VENV) $(VENV)-peer $(VENV)-release .plaudit .mutants dist

# An environment contains its own path: moved, it doesn't start; copied, it runs the code of the original folder.
ifneq ($(file <$(VENV)/bootstrap.stamp),$(CURDIR))
.PHONY: $(VENV)/bootstrap.stamp
endif

$(VENV)/bootstrap.stamp: requirements/bootstrap.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(PYTHON) is Python %d.%d, but Plaudit needs 3.11 or later: choose another one with PYTHON=python3.12" % sys.version_info[:2])'
	@echo "Setting up the virtual environment"
# Uses the existing pip if there is one: installing pip into the environment takes longer than all the rest.
	@$(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --require-hashes -r requirements/bootstrap.lock 2> /dev/null \
	  || { $(PYTHON) -m venv --clear $(VENV) && $(BIN)/pip install --quiet --require-hashes -r requirements/bootstrap.lock; }
	@echo "$(CURDIR)" > $@

$(VENV)/run.stamp: $(VENV)/bootstrap.stamp requirements/run.lock pyproject.toml
	@echo "Installing the locked packages"
	@$(BIN)/uv pip install --quiet --require-hashes -r requirements/run.lock
	@$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# The stream library used for comparison has its own environment.
$(VENV)/bench.stamp: $(VENV)/dev.stamp requirements/bench.lock requirements/peer.lock
	@$(BIN)/uv pip install --quiet --require-hashes -r requirements/bench.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-peer
	@$(BIN)/uv pip install --quiet --python $(VENV)-peer/bin/python --require-hashes -r requirements/peer.lock
	@touch $@

$(VENV)/mutants.stamp: $(VENV)/dev.stamp requirements/mutants.lock
	@$(BIN)/uv pip install --quiet --require-hashes -r requirements/mutants.lock
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements/dev.lock
	@$(BIN)/uv pip install --quiet --require-hashes -r requirements/dev.lock
	@touch $@

# A separate environment: these tools bring packages that the service must not rely on.
$(VENV)/release.stamp: $(VENV)/bootstrap.stamp requirements/release.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-release
	@$(BIN)/uv pip install --quiet --python $(VENV)-release/bin/python --require-hashes -r requirements/release.lock
	@touch $@
