# Included by the root Makefile: the embedded control plane, a module of its own.

.PHONY: controlplane controlplane-verify

controlplane: ## Build bin/controlplane (skipped when its sources and Go have not changed)
	@controlplane/build.sh

controlplane-verify: controlplane ## Vet and test the control plane's own module
	cd controlplane && GOWORK=off CGO_ENABLED=0 go vet ./... && GOWORK=off CGO_ENABLED=0 go test ./...
