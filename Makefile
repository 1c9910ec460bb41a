# Remit. `make help` lists the targets; all but vulncheck work offline after one fetch.

GO ?= go
# One setting for every build: what is compiled for a program serves its tests and the linter too.
export CGO_ENABLED = 0

MODULE := github.com/remit-olm/remit
MODULES := . controlplane hack/tools

# The tools are built once, under a key of what pins them.
TOOLS := $(CURDIR)/bin/tools-$(shell cat hack/tools/go.mod hack/tools/go.sum | git hash-object --stdin | cut -c1-12)
LINT := $(TOOLS)/golangci-lint
MOCKGEN := $(TOOLS)/mockgen
VULNCHECK := $(TOOLS)/govulncheck

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##
## Building
##

.PHONY: build
build: ## Build catalog, olm, kubectl-remit, the sample operator and the sample registry into bin/.
	$(GO) build -o bin/ ./cmd/...
	$(GO) build -o bin/sample-operator ./test/operators/sample
	$(GO) build -o bin/sample-registry ./test/operators/registry

include controlplane/build.mk

.PHONY: run
run: build controlplane ## Start everything and show a bounded install. ARGS=--exit ends after it; BUNDLES=<dir> installs your own.
	bin/kubectl-remit run $(if $(BUNDLES),--bundles "$(BUNDLES)") $(ARGS)

##
## Testing
##

# What `make test` runs under test/; `make test-rest` runs all other packages there.
STORIES := ./test/docs ./test/e2e ./test/layers ./test/env/... ./test/operators/...
REST = $(filter-out $(shell $(GO) list $(STORIES)) %/test/mutants %/test/escape,$(shell $(GO) list ./test/...))

# Linking takes half the time without debugging information. `make lint` vets.
GO_TEST = $(GO) test -vet=off -ldflags='-s -w'
# The tests of these packages run at the same time. They mostly wait, so there are more of them than cores.
PACKAGES ?= 4
# The go command does not see that these depend on bin/ and on other packages' files: never cached.
# Control planes and tests take a tenth less processor time when garbage is collected half as often as by default.
GO_STORIES = GOGC=200 $(GO_TEST) -count=1 -shuffle=on -timeout 40m -p $(PACKAGES)

.PHONY: test
test: unit stories ## Run the tests that every change must pass: unit tests, user stories, the documentation's examples, a sample of the escape suite.

.PHONY: test-all
test-all: test test-rest ## Run all tests.

.PHONY: unit
unit: build controlplane-verify ## Run the tests of the packages and of the control plane.
	$(GO_TEST) $$($(GO) list ./... | grep -v '^$(MODULE)/test/') ./test/mutants

.PHONY: stories
stories: build controlplane kubectl ## Run the user stories on the embedded control plane, the documentation's examples, a sample of the escape suite.
	ESCAPE_ROWS=sample $(GO_STORIES) ./test/escape $(STORIES)

# The packages that take the longest come first, also those that only wait; the go command runs a package once, however
# often it is named.
.PHONY: test-rest
test-rest: build controlplane bin/differential ## Run what `make test` leaves out: all other escape rows, kills, registries, real operators, fuzzing.
	ESCAPE_ROWS=rest $(GO_STORIES) ./test/escape ./test/corpus ./test/hooks ./test/silence ./test/registries ./test/olm $(REST)
	$(MAKE) fuzz FUZZTIME=10s

# Only the race detector needs cgo, and with it a C compiler. Programs of Pods write reports of races into their logs.
RACE := CGO_ENABLED=1 $(GO)

# These start no goroutines, and take much of the time.
SEQUENTIAL := /pkg/(resolver|rbac|bundle)(/|$$)

.PHONY: race
race: build controlplane race-stories ## Run the tests of all packages, and the user stories, with the race detector. Needs a C compiler.
	$(RACE) test -race -shuffle=on -timeout 40m $$($(GO) list ./cmd/... ./pkg/...)

.PHONY: race-concurrent
race-concurrent: build controlplane race-stories ## The same for the packages that start goroutines.
	$(RACE) test -race -shuffle=on -timeout 40m $$($(GO) list ./cmd/... ./pkg/... | grep -vE '$(SEQUENTIAL)')

.PHONY: race-stories
race-stories: build controlplane ## Run the user stories with the race detector.
	rm -rf bin/race && mkdir -p bin/race && cp bin/sample-operator bin/sample-registry bin/race/
	$(RACE) build -race -o bin/race/ ./cmd/...
	REMIT_BIN=$(CURDIR)/bin/race E2E_DIR=$(CURDIR)/bin/race/clusters $(RACE) test -race -count=1 -shuffle=on -timeout 40m ./test/e2e
	test -d bin/race/clusters && ! grep -r -A 40 'WARNING: DATA RACE' bin/race/clusters

# The example operator of pkg/lib/scopedcache.
.PHONY: example-memcached
example-memcached: controlplane ## Run the example operator of scopedcache, and check each step of its demonstration.
	$(GO) build -o bin/example-memcached ./examples/memcached
	$(GO) build -o bin/example-memcached-standin ./examples/memcached/standin
	$(GO) run ./examples/memcached/walk

# Two processes share the rows; -v shows each row, with a count at the end of each process. ROWS names some, for one process.
.PHONY: escape
escape: build controlplane ## Run the escape suite: hostile inputs, each judged by its effect on the whole cluster. ROWS=44 runs one.
	$(GO) test -count=1 -timeout 45m -v $(if $(ROWS),-run 'TestEscape/^($(ROWS))_') ./test/escape

.PHONY: mutants
mutants: build controlplane ## Break one guard of the product at a time: the named test must fail. MUTANTS='name|name' selects some.
	$(GO) run ./test/mutants/run -run '$(MUTANTS)'

.PHONY: differential
differential: PAIRS ?= 1000000
differential: WRITES ?= 2000
differential: SEED ?= 1
differential: controlplane bin/differential ## Compare the rule engine with Kubernetes' own code: PAIRS=1000000 WRITES=2000 SEED=1.
	DIFFERENTIAL_PAIRS=$(PAIRS) DIFFERENTIAL_WRITES=$(WRITES) DIFFERENTIAL_SEED=$(SEED) $(GO) test -count=1 -timeout 60m -v ./test/differential

.PHONY: corpus
corpus: build controlplane ## Install every bundle of CORPUS_DIR (../shared/corpus) with just what `kubectl remit rbac` prints.
	$(GO) test -c -o bin/corpus.test ./test/corpus
	cd test/corpus && CORPUS=all ../../bin/corpus.test -test.timeout 3h

# One <package>:<target> per run, as the go command requires.
FUZZ := ./pkg/catalog/fbc:FuzzFromFiles ./pkg/catalog/fbc:FuzzFromBundles ./pkg/catalog/configmap:FuzzLoadLegacy ./pkg/bundle:FuzzParse \
	./pkg/bundle/unpack:FuzzArchive ./pkg/catalog/layer:FuzzRead

# Minimizing new inputs takes most of the time by default, so it is limited.
.PHONY: fuzz
fuzz: FUZZTIME ?= 60s
fuzz: ## Fuzz the parsers of untrusted input (catalogs, ClusterServiceVersions, archives), two targets at a time: FUZZTIME=60s for each.
	printf '%s\n' $(FUZZ) | xargs -P 2 -I '{}' sh -c 'f={}; $(GO) test -run "^$$" -fuzz "^$${f#*:}$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x -parallel 1 "$${f%:*}"'

.PHONY: bench
bench: build controlplane ## Run the benchmarks.
	$(GO) test -run '^$$' -timeout 40m -bench . -benchmem ./...

##
## Keeping it clean
##

.PHONY: generate
generate: $(MOCKGEN) ## Regenerate the mocks and copy the CRDs of operator-framework/api.
	PATH="$(TOOLS):$$PATH" $(GO) generate ./...
	$(GO) mod download github.com/operator-framework/api
	rm -f manifests/crds/operators.coreos.com_*.yaml
	install -m 644 "$$($(GO) list -m -f '{{.Dir}}' github.com/operator-framework/api)"/crds/*.yaml manifests/crds/

.PHONY: fmt
fmt: $(LINT) ## Format all Go files.
	$(LINT) fmt

.PHONY: lint
lint: $(LINT) ## Lint the product, including its layers, and the control plane.
	$(LINT) run
	cd controlplane && GOWORK=off $(LINT) run --disable depguard

.PHONY: verify
verify: generate lint ## Lint, and check that generated files, go.mod files and formatting are as committed.
	for module in $(MODULES); do $(GO) -C $$module mod tidy -diff || exit 1; done
	$(LINT) fmt --diff
	git diff --exit-code

.PHONY: vulncheck
vulncheck: $(VULNCHECK) ## Look for known vulnerabilities in what the programs use. Succeeds with a note if the database is unreachable.
	for module in . controlplane; do (cd $$module && $(CURDIR)/hack/vulncheck.sh $(VULNCHECK)) || exit 1; done

$(LINT): ; $(call tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
$(MOCKGEN): ; $(call tool,github.com/golang/mock/mockgen)
$(VULNCHECK): ; $(call tool,golang.org/x/vuln/cmd/govulncheck)

define tool
$(GO) -C hack/tools build -trimpath -ldflags '-s -w' -o $@ $(1)
endef
