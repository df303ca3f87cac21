# Drover's commands. `make help` lists them; `make demo` and `make test` do all the set-up on a fresh Debian machine, as root.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.SUFFIXES:

# A Go that hack/setup.sh fetched, because the machine had none or one too old to fetch its own, goes before that one.
export PATH := /usr/local/lib/drover-go/bin:$(PATH)
export CGO_ENABLED := 0
# The same for builds and tests, so that nothing is compiled twice.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
KUBE_VERSION := v1.36.3
LOCALKUBE_LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION) -X k8s.io/client-go/pkg/version.gitVersion=$(KUBE_VERSION)
GO_BUILD := go build
# Ours; those in tools/ only pin what others made.
MODULES := . localkube hack/image e2e/conformance e2e/helm

IMAGE ?= drover.local/drover:dev
DROVER_STATE ?= .drover
TESTBED := bin/testbed --state-dir $(DROVER_STATE)

##@ Use

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*##/ {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Create a k3s cluster on real servers, show its Nodes, change it in place, delete it.
	@$(TESTBED) demo

.PHONY: demo-servers
demo-servers: build ## Create two servers without a cluster, log in, scale, delete.
	@$(TESTBED) demo-servers

.PHONY: up
up: build ## Leave the whole system running here: Kubernetes, a local cloud, Drover.
	@$(TESTBED) up

.PHONY: down
down: ## Remove every trace of `make up`.
	@if [ -x bin/testbed ]; then $(TESTBED) down; else echo "nothing to remove: bin/testbed was never built"; fi

##@ Build

.PHONY: setup
setup: # Install what building and testing need (Debian packages; Go if there is none); every target that needs it does it.
	@./hack/setup.sh

.PHONY: generate
generate: setup bin/controller-gen ## Write the generated files: deepcopy, CRDs, RBAC, driver flags, Cluster API's CRDs.
	bin/controller-gen object paths=./api/...
	bin/controller-gen crd paths=./api/... output:crd:dir=charts/drover/crds
	bin/controller-gen rbac:roleName=drover-manager paths="./controllers/...;./capi/...;./install/...;./cmd/manager/..." output:rbac:dir=charts/drover/rbac
	go run ./hack/genflags
	go run ./hack/capicrds

.PHONY: build
build: setup capi/crds/.done ## Build every binary and the image.
	@echo "building (the first time some 15 minutes on two cores, most of it Kubernetes)"
	$(GO_BUILD) -ldflags "$(LDFLAGS)" -o bin/ ./cmd/... ./e2e/cmd/...
	$(GO_BUILD) -ldflags "-s -w" -o bin/docker-machine-driver-drovertest ./e2e/plugin
	$(GO_BUILD) -ldflags "-s -w" -o bin/docker-machine-driver-hostile ./e2e/hostile
	@ln -sf drover bin/kubectl-drover && ln -sf drover bin/kubectl_complete-drover
	cd localkube && go generate ./node && $(GO_BUILD) -ldflags "$(LOCALKUBE_LDFLAGS)" -o ../bin/localkube .
	@$(MAKE) --no-print-directory agents image

# IMAGE_BASE is a folder whose files go into the image too (docs/install.md, "Drivers that need a libc").
IMAGE_BASE ?=
IMAGE_FLAGS = -tag $(IMAGE) -link mkisofs=machine -share bin/share $(if $(IMAGE_BASE),-base $(IMAGE_BASE))

# The agents that servers fetch from the manager; an image of either architecture has them all.
AGENTS := $(foreach arch,amd64 arm64,bin/share/agents/drover-agent-linux-$(arch))
.PHONY: agents
agents: # The agents that servers fetch.
	@rm -f $(AGENTS) && $(MAKE) --no-print-directory $(AGENTS)
bin/share/agents/drover-agent-linux-%:
	GOOS=linux GOARCH=$* $(GO_BUILD) -ldflags "$(LDFLAGS)" -o $@ ./cmd/agent

.PHONY: image
image: bin/drover-image.tar # Pack bin/manager, bin/machine and the agents into a container image tarball, without Docker.

.PHONY: image-amd64 image-arm64
image-amd64 image-arm64: image-%: bin/image agents capi/crds/.done # The same for one architecture, whatever this machine's: bin/drover-image-<arch>.tar.
	GOARCH=$* $(GO_BUILD) -ldflags "$(LDFLAGS)" -o bin/$*/ ./cmd/manager ./cmd/machine
	bin/image $(IMAGE_FLAGS) -arch $* -out bin/drover-image-$*.tar bin/$*/manager bin/$*/machine

bin/drover-image.tar: bin/manager bin/machine bin/image $(AGENTS)
	bin/image $(IMAGE_FLAGS) -out $@ bin/manager bin/machine

bin/image: $(wildcard hack/image/*.go) hack/image/go.mod hack/image/go.sum
	cd hack/image && $(GO_BUILD) -o ../../bin/image .

# clusterctl of the very version whose contract we hold, to look at our objects with.
CAPI_VERSION := 1.14.2
CLUSTERCTL_VERSION := sigs.k8s.io/cluster-api/version
bin/clusterctl: e2e/conformance/go.mod
	cd e2e/conformance && $(GO_BUILD) -o ../../bin/clusterctl -ldflags "-s -w -X $(CLUSTERCTL_VERSION).gitVersion=v$(CAPI_VERSION) \
		-X $(CLUSTERCTL_VERSION).gitMajor=1 -X $(CLUSTERCTL_VERSION).gitMinor=14" sigs.k8s.io/cluster-api/cmd/clusterctl

# Helm, to install the chart of a release with.
bin/helm: e2e/helm/go.mod
	cd e2e/helm && $(GO_BUILD) -ldflags "-s -w" -o ../../bin/helm helm.sh/helm/v3/cmd/helm

# The managers of that version, unmodified, as images and as a repository of clusterctl's; for the tests.
bin/upstream/.done: hack/upstream.sh e2e/conformance/go.mod | bin/image
	hack/upstream.sh $(CAPI_VERSION)
	@touch $@

# A release: images, the command line, the chart, manifests, clusterctl's files, checksums.
# REGISTRY is the host and prefix that `make push` pushes the image to. RELEASE_FLAGS are further flags of `manager manifests` for clusterctl.
RELEASE ?= v$(shell sed -n 's/^version: //p' charts/drover/Chart.yaml)
RELEASE_DIR ?= bin/release/$(RELEASE)
REGISTRY ?=
RELEASE_IMAGE = $(if $(REGISTRY),$(REGISTRY)/drover:$(RELEASE),$(IMAGE))
ARCHES ?= amd64 arm64
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
WRITE_RELEASE = RELEASE=$(RELEASE) IMAGE=$(RELEASE_IMAGE) LDFLAGS="$(LDFLAGS)" RELEASE_FLAGS="$(RELEASE_FLAGS)"
.PHONY: release
release: setup capi/crds/.done bin/image agents ## Write a release into bin/release: images, CLI, chart, manifests; REGISTRY=host/prefix names the image.
	$(GO_BUILD) -ldflags "$(LDFLAGS)" -o bin/ ./cmd/manager ./cmd/machine
	$(WRITE_RELEASE) ARCHES="$(ARCHES)" PLATFORMS="$(PLATFORMS)" hack/release.sh $(RELEASE_DIR)

# The release as the tests need it: this machine's architecture only.
.PHONY: release-here
release-here: build
	$(WRITE_RELEASE) ARCHES=$$(go env GOARCH) PLATFORMS= hack/release.sh $(RELEASE_DIR)

.PHONY: push
push: bin/image ## Push the images of bin/release to REGISTRY=host/prefix, without Docker.
	@[ -n "$(REGISTRY)" ] || { echo "name the registry: make push REGISTRY=registry.example.org/infra"; exit 2; }
	@ls $(RELEASE_DIR)/drover-image-linux-*.tar >/dev/null 2>&1 || { echo "no release in $(RELEASE_DIR): run 'make release REGISTRY=$(REGISTRY)' first"; exit 2; }
	@bin/image push $(RELEASE_IMAGE) $(RELEASE_DIR)/drover-image-linux-*.tar

# The CRDs of Cluster API come from its module and are not kept in git.
capi/crds/.done: go.mod hack/capicrds/main.go
	go run ./hack/capicrds
	@touch $@

bin/controller-gen: tools/codegen/go.mod
	cd tools/codegen && go build -o ../../bin/controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen

bin/golangci-lint: tools/lint/go.mod
	cd tools/lint && go build -o ../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

##@ Check

.PHONY: test
test: release-here bin/clusterctl bin/upstream/.done bin/helm ## Everything: linters, unit and API server tests, stories on real containers and servers.
	@./hack/test.sh

.PHONY: unit
unit: build bin/clusterctl # Unit tests and tests against a real API server only.
	@./hack/test.sh unit

.PHONY: e2e
e2e: release-here bin/clusterctl bin/upstream/.done bin/helm ## Stories on real containers and servers, Cluster API's validators; STORY=regexp picks some.
	@./hack/test.sh e2e

.PHONY: soak
soak: release-here bin/clusterctl bin/upstream/.done ## The long forms of the tests, for some hours: stories, faults, fuzzing.
	@./hack/test.sh soak

.PHONY: lint
lint: setup bin/golangci-lint ## Run golangci-lint.
	@code=0; for module in $(MODULES); do echo "linting $$module"; (cd $$module && $(CURDIR)/bin/golangci-lint run ./...) || code=1; done; exit $$code

.PHONY: verify
verify: lint ## Fail if generated files are stale, modules untidy, or the linters complain.
	@code=0; for module in $(MODULES); do (cd $$module && go mod tidy -diff) || code=1; done; exit $$code
	@before=$$(git diff | sha256sum) && $(MAKE) --no-print-directory generate && [ "$$before" = "$$(git diff | sha256sum)" ] || \
		{ echo "generated files were stale: commit what changed"; exit 1; }

.PHONY: bench
bench: build ## Measure our own overhead with 100, 1,000 and 5,000 machines, and print it.
	@./hack/test.sh bench

.PHONY: bench-check
bench-check: build ## Fail if a machine costs 10 % more requests or allocations than was written down (part of test).
	@go test -count=1 -run Cost ./e2e/bench

SEEDS ?= 2000
FIRST ?= 0
ONLY ?= -1
.PHONY: faults
faults: build ## Kill manager and pod and fail the cloud at every point: SEEDS=2000 runs from number FIRST on, or ONLY=n again.
	@mkdir -p $(DROVER_STATE) && rm -f $(DROVER_STATE)/faults*.txt
	@go test -count=1 -timeout 3h ./e2e/faults -faults.count=$(SEEDS) -faults.first=$(FIRST) -faults.only=$(ONLY) -faults.report=$(abspath $(DROVER_STATE))/faults.txt; \
		code=$$?; cat $(DROVER_STATE)/faults*.txt; \
		go test -count=1 -v -run '^Test(Killed|KilledInside|DiskFull|DiskStaysFull)$$' ./agent || code=1; exit $$code

.PHONY: fuzz
fuzz: setup ## Run every fuzz target for FUZZTIME (30s); TARGET=regexp picks some.
	@./hack/fuzz.sh $(if $(TARGET),'$(TARGET)')

.PHONY: clean
clean: down ## Remove the build outputs.
	rm -rf bin capi/crds/.done
