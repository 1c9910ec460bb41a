# Included by the root Makefile: the embedded control plane, which is a separate module.

.PHONY: controlplane controlplane-verify kubectl bin/differential

controlplane: ## Build bin/controlplane, unless it is up to date with its sources and the Go version.
	@controlplane/build.sh

kubectl: ## Build bin/kubectl at the control plane's version, for machines without kubectl.
	cd controlplane && GOWORK=off CGO_ENABLED=0 go build -ldflags "$$(./build.sh ldflags)" -o ../bin/kubectl k8s.io/kubernetes/cmd/kubectl

bin/differential: # Build Kubernetes' own RBAC code as a program, for test/differential.
	cd controlplane && GOWORK=off CGO_ENABLED=0 go build -o ../bin/differential ./differential

controlplane-verify: controlplane $(GOTESTSUM) ## Vet and test the control plane's own module.
	cd controlplane && GOWORK=off CGO_ENABLED=0 go vet ./... && GOWORK=off CGO_ENABLED=0 ../$(GOTEST) controlplane ./... -timeout 40m
