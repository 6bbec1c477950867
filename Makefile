# The first use sets up a virtual environment from lock files with hashes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Only from the command line of `make`: PORT or DATA in the environment may belong to another program. By default the
# settings come from the environment (PLAUDIT_*) and .env.
given = $(if $(filter command,$(origin $(1))),$($(1)))
# The value as it was typed, in quotes for the shell.
quoted = '$(subst ','\'',$(value $(1)))'
CHOSEN = $(if $(call given,PORT),PLAUDIT_HTTP__PORT=$(call quoted,PORT)) $(if $(call given,DATA),PLAUDIT_DATA=$(call quoted,DATA))
MANIFESTS := deploy/kubernetes/plaudit.yaml
CHART := deploy/helm/plaudit
# Bytecode is cached even if the shell disables that: without it each command starts a second later.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help up demo test test-more test-slow lint bench chaos bad-input mutants docs client manifests screenshots sbom pin audit lock clean

up: $(VENV)/run.stamp ## the service on this machine, with its servers: PORT, DATA, BROKER
	@$(CHOSEN) $(if $(call given,BROKER),PLAUDIT_BROKER=$(BROKER)) exec $(BIN)/plaudit up

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/run.stamp ## a tour through the running service; FILL=500: its shop at /demo with so many reviews
	@$(CHOSEN) exec $(BIN)/plaudit demo $(if $(call given,FILL),--fill $(FILL))

# In the order of folders: the slowest files have few tests, and xdist would run them last. Four processes keep two cores
# busy while some tests wait. Kafka lives too briefly to gain from the JVM's second compiler.
tests = JDK_JAVA_OPTIONS="$$JDK_JAVA_OPTIONS -XX:TieredStopAtLevel=1" \
  $(BIN)/pytest --numprocesses=4 --dist=loadfile --no-loadscope-reorder --broker=$(or $(BROKER),auto) -m "$(1)" $(ARGS)

test: $(VENV)/dev.stamp ## tests on real servers, takes minutes: ARGS; BROKER=tansu for the fallback broker
	@$(call tests,not slow and not long)

test-more: $(VENV)/dev.stamp ## the longer tests, about 15 minutes: ARGS, BROKER
	@$(call tests,long and not slow)

# Tests that take minutes, and those of `make test` that scale, at full size.
test-slow: $(VENV)/dev.stamp ## the slowest tests, about an hour: TLS, imports, privacy, bad input, outages at full size
	@PLAUDIT_TEST_SUBMISSIONS=20000 PLAUDIT_TEST_VOTES=100000 PLAUDIT_TEST_EXPORTED=2000 PLAUDIT_TEST_OUTAGE_S=30 PLAUDIT_TEST_KILLS=60 \
	  $(BIN)/pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder --broker=$(or $(BROKER),auto) -m "slow or scaled" $(ARGS)

lint: $(VENV)/dev.stamp ## ruff, mypy, import rules, Kubernetes schemas
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
# The oldest and newest supported Kubernetes. Other values of the chart: tests/unit/test_helm.py.
	$(BIN)/kubernetes-validate --strict --quiet -k 1.28 $(MANIFESTS)
	$(BIN)/kubernetes-validate --strict --quiet -k 1.37 $(MANIFESTS)

bench: $(VENV)/bench.stamp ## benchmarks against bare loops and alternatives, up to half an hour: QUICK=1, ARGS=<group>
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(ARGS)

# `python -m tests.chaos --help` explains all options.
chaos: $(VENV)/dev.stamp ## the fault suite at full length: SEED, FAULTS, COMMANDS, SECONDS, KINDS
	@$(BIN)/python -m tests.chaos $(foreach flag,SEED FAULTS COMMANDS SECONDS KINDS BEFORE REVIEWERS IMPORTERS BUYERS AUDIENCES DECIDERS BATCH KEEP RESULTS,$(if $($(flag)),--$(shell echo $(flag) | tr A-Z a-z)=$($(flag))))

bad-input: $(VENV)/dev.stamp ## fuzzing of HTTP and Kafka: SEED, REQUESTS, MESSAGES, EXAMPLES
	@$(BIN)/python -m tests.chaos.bad_input $(foreach flag,SEED REQUESTS MESSAGES EXAMPLES,$(if $($(flag)),--$(shell echo $(flag) | tr A-Z a-z)=$($(flag))))

# Most of an hour on two cores. `ARGS=moderation` runs one module, `ARGS=--report` repeats the last report.
mutants: $(VENV)/mutants.stamp ## mutation testing of the domain by its unit tests
	@$(BIN)/python -m tests.mutants $(ARGS)

docs: $(VENV)/dev.stamp ## write docs/asyncapi.json and docs/settings.md
	$(BIN)/python docs/write_asyncapi.py
	$(BIN)/python docs/write_settings.py

client: $(VENV)/dev.stamp ## generate the types of clients/typescript; needs npm
	cd clients/typescript && npm ci --silent && ../../$(BIN)/plaudit openapi | npm run --silent generate
	@$(BIN)/plaudit openapi | sha256sum | cut -d' ' -f1 > clients/typescript/openapi.sha256

manifests: ## render the chart into deploy/kubernetes/plaudit.yaml; needs helm
	helm template plaudit $(CHART) --values deploy/kubernetes/values.yaml > $(MANIFESTS).new && mv $(MANIFESTS).new $(MANIFESTS)

screenshots: $(VENV)/dev.stamp ## take the pictures of docs/ from a running `make up`; needs chromium: PORT, DATA, ARGS
	@$(CHOSEN) $(BIN)/python docs/write_screenshots.py $(ARGS)

# From the service's lock file.
sbom: $(VENV)/release.stamp ## write the software bill of materials (CycloneDX) into dist/
	@mkdir -p dist
	$(VENV)-release/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/sbom.cdx.json requirements/service.lock

pin: ## pin the base image in the Dockerfile by digest; needs docker buildx and the registry
	@tag=$$(sed -nE 's/^ARG PYTHON=([^@]+).*/\1/p' Dockerfile) && \
	  digest=$$(docker buildx imagetools inspect "python:$$tag" --format '{{.Manifest.Digest}}') && \
	  sed -i -E "s/^ARG PYTHON=.+/ARG PYTHON=$$tag@$$digest/" Dockerfile && grep '^ARG PYTHON=' Dockerfile

audit: $(VENV)/release.stamp ## check the locked packages for known vulnerabilities; needs the internet
	$(VENV)-release/bin/pip-audit --require-hashes --disable-pip --requirement requirements/service.lock

lock: ## update the lock files
	$(BIN)/python requirements/lock.py

clean: ## remove environments, data and caches
	rm -rf $(VENV) $(VENV)-peer $(VENV)-release .plaudit .mutants dist

# Two at once would destroy each other's environment. Who waited looks again at what is left to do. The lock is opened for
# writing too, which NFS requires.
ifndef LOCKED
.PHONY: looked-at
looked-at:
again = $(MAKE) --silent --no-print-directory --makefile=$(firstword $(MAKEFILE_LIST)) LOCKED=1 $@
$(VENV)/%.stamp: looked-at
	+@$(again) --question || { exec 9<> $(firstword $(MAKEFILE_LIST)); \
	  flock -n 9 || { echo "Waiting for another make that sets up the virtual environment"; flock 9; } && $(again); }
else

# A virtual environment contains its own path: moved, it doesn't start; copied, it runs the code of the original folder.
ifneq ($(file <$(VENV)/bootstrap.stamp),$(CURDIR))
.PHONY: $(VENV)/bootstrap.stamp
endif

$(VENV)/bootstrap.stamp: requirements/bootstrap.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(PYTHON) is Python %d.%d, but Plaudit needs 3.11 or later: choose another one with PYTHON=python3.12" % sys.version_info[:2])'
	@echo "Setting up the virtual environment"
# Uses an existing pip if there is one: installing pip into the environment takes longer than everything else.
	@$(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --require-hashes -r requirements/bootstrap.lock 2> /dev/null \
	  || { $(PYTHON) -m venv --clear $(VENV) && $(BIN)/pip install --quiet --require-hashes -r requirements/bootstrap.lock; }
	@printf '%s\n' $(call quoted,CURDIR) > $@

# An installation that is cut short can leave half a package, which the installer can't read any more. Without the stamp
# the next run makes a new environment.
install = @trap 'exit 130' INT TERM HUP; \
  trap 'rm -f $(VENV)/bootstrap.stamp; echo "The virtual environment is incomplete: repeat the command to make it anew." >&2' EXIT; \
  $(BIN)/uv pip install --quiet --require-hashes -r $(1) $(if $(2),&& $(2)) && trap - EXIT

$(VENV)/run.stamp: $(VENV)/bootstrap.stamp requirements/run.lock pyproject.toml
	@echo "Installing the locked packages"
	$(call install,requirements/run.lock,$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .)
	@touch $@

# The stream library to compare with has its own environment.
$(VENV)/bench.stamp: $(VENV)/dev.stamp requirements/bench.lock requirements/peer.lock
	$(call install,requirements/bench.lock)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-peer
	@$(BIN)/uv pip install --quiet --python $(VENV)-peer/bin/python --require-hashes -r requirements/peer.lock
	@touch $@

$(VENV)/mutants.stamp: $(VENV)/dev.stamp requirements/mutants.lock
	$(call install,requirements/mutants.lock)
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements/dev.lock
	$(call install,requirements/dev.lock)
	@touch $@

# A separate environment: the service must not rely on the packages of these tools.
$(VENV)/release.stamp: $(VENV)/bootstrap.stamp requirements/release.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-release
	@$(BIN)/uv pip install --quiet --python $(VENV)-release/bin/python --require-hashes -r requirements/release.lock
	@touch $@

endif
