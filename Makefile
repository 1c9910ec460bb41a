# Run `make help` to list the targets. All except vulncheck work offline once the dependencies are downloaded.

GO ?= go
# All builds use the same setting, so that programs, tests and the linter share compiled packages.
export CGO_ENABLED = 0

MODULE := github.com/remit-olm/remit
MODULES := . controlplane hack/tools

# The tools are built once. The name of their directory contains a hash of the files that pin their versions.
TOOLS := $(CURDIR)/bin/tools-$(shell cat hack/tools/go.mod hack/tools/go.sum | git hash-object --stdin | cut -c1-12)
LINT := $(TOOLS)/golangci-lint
MOCKGEN := $(TOOLS)/mockgen
VULNCHECK := $(TOOLS)/govulncheck
CONTROLLERGEN := $(TOOLS)/controller-gen
GOTESTSUM := $(TOOLS)/gotestsum

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##
## Building
##

.PHONY: build
build: ## Build catalog, olm, extension, package-server, kubectl-remit, the sample operator and the sample registry into bin/.
	$(GO) build -o bin/ ./cmd/...
	$(GO) build -o bin/sample-operator ./test/operators/sample
	$(GO) build -o bin/sample-registry ./test/operators/registry

include controlplane/build.mk

.PHONY: run
run: build controlplane ## Start everything and demonstrate a bounded install. ARGS=--exit stops it at the end; BUNDLES=<dir> installs your bundles.
	bin/kubectl-remit run $(if $(BUNDLES),--bundles "$(BUNDLES)") $(ARGS)

##
## Testing
##

# STORIES are the packages under test/ that `make test` runs. `make test-rest` runs the others.
STORIES := ./test/docs ./test/e2e ./test/layers ./test/text ./test/env/... ./test/operators/...
REST = $(filter-out $(shell $(GO) list $(STORIES)) %/test/mutants %/test/injection %/test/escape,$(shell $(GO) list ./test/...))

# Without debugging information, linking takes half the time. `make lint` runs vet.
TEST_FLAGS = -vet=off -ldflags='-s -w' -timeout 40m
# The number of packages whose tests run at the same time. With 4 in all targets, two cores were overloaded: programs lost their leases,
# waits polled more often, and the whole run took a third longer. In test-rest, the packages in WAITING mostly wait, so it runs four.
REST_PACKAGES := $(or $(PACKAGES),4)
PACKAGES ?= 3
# -count=1 disables the cache: the go command does not track that these tests depend on bin/ and on other packages' files.
STORY_FLAGS = $(TEST_FLAGS) -count=1 -shuffle=on -p $(PACKAGES)
# GOGC=200 halves the frequency of garbage collection, which saves about 10% of the tests' CPU time.
STORY_ENV = GOGC=200
# A failed test is repeated once: GOTEST <name of the report> <packages> <flags>.
GOTEST = hack/gotest.sh $(GOTESTSUM)

# The parts run sequentially. Running them at the same time is faster, but raises the load average on two cores above 25.
.PHONY: test
test: unit stories ## Run the tests that every change must pass: unit tests, user stories, the documentation's examples, and a sample of the escape suite.

.PHONY: test-all
test-all: test test-rest ## Run all tests.

# Unit tests use little memory but spend much of their time on garbage collection. GOGC=400 makes some of them 25% faster.
.PHONY: unit
unit: build controlplane-verify $(GOTESTSUM) ## Run the tests of the packages and of the control plane.
	GOGC=400 $(GOTEST) unit "$$($(GO) list ./... | grep -v '^$(MODULE)/test/') ./test/mutants ./test/injection" $(TEST_FLAGS) -p 4 -parallel 8

.PHONY: stories
stories: build controlplane kubectl $(GOTESTSUM) ## Run the user stories on the embedded control plane, the documentation's examples, and a sample of the escape suite.
	$(STORY_ENV) ESCAPE_ROWS=sample $(GOTEST) stories "./test/escape $(STORIES)" $(STORY_FLAGS)

# These packages take the longest or mostly wait, so they come first: at the end, no other packages would be left to run beside them.
# PROFILE affects only test/e2e.
WAITING := ./test/corpus ./test/hooks ./test/silence ./test/kill ./test/bench ./test/replicas ./test/lockdown ./test/adopt \
	./test/registries ./test/extension ./test/packages ./test/olm ./test/e2e
# SHARD=2 selects every fourth package, escape row and fuzz target, beginning with the second; SHARD=all selects all.
SHARD ?= all
nth = $(if $(filter all,$(SHARD)),$(1),$(shell printf '%s\n' $(1) | awk 'NR % 4 == $(SHARD) % 4'))
ESCAPE_SHARD = $(if $(filter all,$(SHARD)),,$(SHARD)/4)
.PHONY: test-rest
test-rest: PACKAGES = $(REST_PACKAGES)
test-rest: build controlplane bin/differential $(GOTESTSUM) ## Run the tests that `make test` omits: all other escape rows, kills, registries, real operators, the user stories in the profile compat, and fuzzing. SHARD=1 to SHARD=4 run a quarter.
	$(STORY_ENV) PROFILE=compat ESCAPE_ROWS=rest ESCAPE_SHARD=$(ESCAPE_SHARD) $(GOTEST) rest-$(SHARD) \
		"./test/escape $(call nth,$(shell $(GO) list $(WAITING) $(REST) | awk '!seen[$$0]++'))" $(STORY_FLAGS)
	$(MAKE) fuzz FUZZTIME=2000x FUZZ='$(call nth,$(FUZZ))'

.PHONY: stories-compat
stories-compat: build controlplane $(GOTESTSUM) ## Run the user stories in the profile compat: as the default account, which is cluster-admin.
	$(STORY_ENV) PROFILE=compat $(GOTEST) stories-compat ./test/e2e $(STORY_FLAGS)

# Only the race detector needs cgo, and therefore a C compiler. Programs that run in Pods write race reports to their logs.
RACE := CGO_ENABLED=1 $(GO)

# These packages start no goroutines but account for much of the test time.
SEQUENTIAL := /pkg/(resolver|rbac|bundle|extension)(/|$$)

.PHONY: race
race: build controlplane race-stories ## Run the tests of all packages, and the user stories, with the race detector. Needs a C compiler.
	$(RACE) test -race -shuffle=on -timeout 40m $$($(GO) list ./cmd/... ./pkg/...)

# Shard 4 is the user stories, which test the programs themselves.
.PHONY: race-shard
race-shard: build controlplane ## Run a quarter of race, without the unit tests of packages that start no goroutines: SHARD=1 to SHARD=4.
	$(if $(filter 4,$(SHARD)),$(MAKE) race-stories,$(RACE) test -race -shuffle=on -timeout 40m $$($(GO) list ./cmd/... ./pkg/... | grep -vE '$(SEQUENTIAL)' | awk 'NR % 3 == $(SHARD) % 3'))

.PHONY: race-stories
race-stories: build controlplane ## Run the user stories with the race detector.
	rm -rf bin/race && mkdir -p bin/race && cp bin/sample-operator bin/sample-registry bin/race/
	$(RACE) build -race -o bin/race/ ./cmd/...
	REMIT_BIN=$(CURDIR)/bin/race E2E_DIR=$(CURDIR)/bin/race/clusters $(RACE) test -race -count=1 -shuffle=on -timeout 40m ./test/e2e
	test -d bin/race/clusters && ! grep -r -A 40 'WARNING: DATA RACE' bin/race/clusters

.PHONY: example-memcached
example-memcached: controlplane ## Run the example operator of scopedcache, and check each step of its demonstration.
	$(GO) build -o bin/example-memcached ./examples/memcached
	$(GO) build -o bin/example-memcached-standin ./examples/memcached/standin
	$(GO) run ./examples/memcached/walk

# Three processes share the rows. -v shows each row, and a count at the end of each process. ROWS selects rows, which run in one process.
.PHONY: escape
escape: build controlplane ## Run the escape suite: hostile inputs, each judged by its effect on the whole cluster. ROWS=44 runs one.
	$(GO) test -count=1 -timeout 45m -v $(if $(ROWS),-run 'TestEscape/^($(ROWS))_') ./test/escape

.PHONY: mutants
mutants: build controlplane ## Break one guard of the product at a time, and require that the named test fails. MUTANTS='name|name' selects some.
	$(GO) run ./test/mutants/run -run '$(MUTANTS)'

.PHONY: differential
differential: PAIRS ?= 1000000
differential: WRITES ?= 2000
differential: SEED ?= 1
differential: controlplane bin/differential ## Compare the rule engine with Kubernetes' own code: PAIRS=1000000 WRITES=2000 SEED=1.
	DIFFERENTIAL_PAIRS=$(PAIRS) DIFFERENTIAL_WRITES=$(WRITES) DIFFERENTIAL_SEED=$(SEED) $(GO) test -count=1 -timeout 60m -v ./test/differential

.PHONY: corpus
corpus: build controlplane ## Install every bundle of CORPUS_DIR (../shared/corpus) with exactly the permissions that `kubectl remit rbac` prints.
	$(GO) test -c -o bin/corpus.test ./test/corpus
	cd test/corpus && CORPUS=all ../../bin/corpus.test -test.timeout 3h

FUZZ_TEXT := ./pkg/lib/message:FuzzWhatIsApplied

# One <package>:<target> per run, as the go command requires.
FUZZ := ./pkg/catalog/fbc:FuzzFromFiles ./pkg/catalog/fbc:FuzzFromBundles ./pkg/catalog/configmap:FuzzLoadLegacy ./pkg/bundle:FuzzParse \
	./pkg/bundle/unpack:FuzzArchive ./pkg/catalog/layer:FuzzRead $(FUZZ_TEXT)

# By default, minimizing new inputs takes most of the time, so it is limited. FUZZTIME is a number of executions, because the go
# command sometimes reports a failure, "context deadline exceeded", when a duration has elapsed.
.PHONY: fuzz
fuzz: FUZZTIME ?= 50000x
fuzz: ## Fuzz the parsers of untrusted input (catalogs, ClusterServiceVersions, archives), two targets at a time: FUZZTIME=50000x for each.
	printf '%s\n' $(FUZZ) | xargs -P 2 -I '{}' sh -c 'f={}; $(GO) test -run "^$$" -fuzz "^$${f#*:}$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x -parallel 1 "$${f%:*}"'

.PHONY: fuzz-text
fuzz-text: ## Fuzz the writer of text that users paste into kubectl apply.
	$(MAKE) fuzz FUZZTIME=2000x FUZZ='$(FUZZ_TEXT)'

# test/bench runs last and alone, and ends with a table of all its results, which can be pasted into docs/benchmarks.md.
.PHONY: bench
bench: build controlplane ## Run the benchmarks, and print a table of results beside those of docs/benchmarks.md. BENCH_TOGETHER=50,400 BENCH_NAMESPACES=500,2000 BENCH_IDLE=5m.
	$(GO) test -run '^$$' -timeout 40m -bench . -benchmem $$($(GO) list ./... | grep -v '/test/bench$$')
	$(GO) test -run '^$$' -timeout 3h -bench . -benchtime 1x ./test/bench

##
## Code quality
##

.PHONY: generate
generate: $(MOCKGEN) generate-api ## Regenerate the mocks, deep copies and CRDs, and copy the CRDs of operator-framework/api.
	PATH="$(TOOLS):$$PATH" $(GO) generate ./...
	$(GO) mod download github.com/operator-framework/api
	rm -f manifests/crds/operators.coreos.com_*.yaml
	install -m 644 "$$($(GO) list -m -f '{{.Dir}}' github.com/operator-framework/api)"/crds/*.yaml manifests/crds/

.PHONY: generate-api
generate-api: $(CONTROLLERGEN) ## Regenerate the deep copies and CRDs of api/.
	rm -f manifests/extensions/crds/olm.operatorframework.io_*.yaml
	$(CONTROLLERGEN) object crd paths=./api/... output:crd:dir=manifests/extensions/crds

.PHONY: fmt
fmt: $(LINT) ## Format all Go files.
	$(LINT) fmt

.PHONY: lint
lint: $(LINT) ## Lint the product, including its layers, and the control plane.
	$(LINT) run
	cd controlplane && GOWORK=off $(LINT) run --disable depguard

.PHONY: verify
verify: generate lint ## Lint, and check that generated files, go.mod files and formatting are up to date.
	for module in $(MODULES); do $(GO) -C $$module mod tidy -diff || exit 1; done
	$(LINT) fmt --diff
	git diff --exit-code

.PHONY: vulncheck
vulncheck: $(VULNCHECK) ## Check the dependencies of the programs for known vulnerabilities. Succeeds with a note if the database is unreachable.
	for module in . controlplane; do (cd $$module && $(CURDIR)/hack/vulncheck.sh $(VULNCHECK)) || exit 1; done

$(LINT): ; $(call tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
$(MOCKGEN): ; $(call tool,github.com/golang/mock/mockgen)
$(VULNCHECK): ; $(call tool,golang.org/x/vuln/cmd/govulncheck)
$(CONTROLLERGEN): ; $(call tool,sigs.k8s.io/controller-tools/cmd/controller-gen)
$(GOTESTSUM): ; $(call tool,gotest.tools/gotestsum)

define tool
$(GO) -C hack/tools build -trimpath -ldflags '-s -w' -o $@ $(1)
endef
