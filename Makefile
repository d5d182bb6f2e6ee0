# Lateen. `make help` lists what there is.

GO       ?= go
BIN      := bin/lateen
DISCOVERY := bin/lateen-discovery
AGENT    := bin/lateen-agent
INSTALLER := bin/lateen-installer
LOADTEST := bin/lateen-perf
TOOLS    := $(CURDIR)/.tools
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
DIR      ?= examples/bookinfo
LINT     := $(TOOLS)/golangci-lint
LINT_VERSION := v2.15.0
BENCHSTAT := $(TOOLS)/benchstat
BENCHSTAT_VERSION := v0.0.0-20260908200009-22c9c6c9d4da
VULNCHECK := $(TOOLS)/govulncheck
VULNCHECK_VERSION := v1.9.0
SBOM     := $(TOOLS)/cyclonedx-gomod
SBOM_VERSION := v1.10.0
CRANE    := $(TOOLS)/crane
CRANE_VERSION := v0.22.1
HELM     := $(TOOLS)/helm
HELM_VERSION := v4.2.4
COSIGN   := $(TOOLS)/cosign
COSIGN_VERSION := v3.1.3
REGISTRY ?=
FUZZTIME ?= 10s
SOAK     ?= 1h
STREAMS  ?= 1000
LABS     ?= book bookinfo-20 kubecon aks-churn aks-services dns phantom data-plane app gateway around

# One way of building for all programs: what they share is compiled once. They hold no paths of this machine, and no C.
GOBUILD  := CGO_ENABLED=0 $(GO) build -tags grpcnotrace -trimpath
STAMP    := -ldflags "-X github.com/lateen-mesh/lateen/internal/cli/build.Version=$(VERSION)"

.DEFAULT_GOAL := help
.PHONY: help always clean-commit modules build images envoy kube-modules kube istioctl istiod clients ratelimit estate prometheus jmeter rsyslogd dashboards dashboards-sdk dashboard-pictures demo up check test test-all test-rest test-short linter lint vulncheck release-check publish publish-tools sbom golden calibrate mutants fuzz bench bench-compare bench-baseline bench-wire flame scale constants sizing beside-istiod soak conformance conformance-core conformance-modules book-lab seeds history changelog clean

help: ## show this
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

modules: # fetches what everything is built from, before it is needed: networks fail, and go asks once
	@hack/retry.sh $(GO) list -deps -test ./... >/dev/null

# grpcnotrace leaves grpc-go's debug pages out, which are templates: they call methods by name, so with them the linker keeps every
# method of every type that the agent links (test/imports sees to it that it stays so).
build: $(BIN) ## build the programs: bin/lateen, bin/lateen-discovery, bin/lateen-agent, and what lateen runs for charts and load
	@$(GOBUILD) $(STAMP) -o bin/ ./cmd/lateen-discovery ./cmd/lateen-installer ./cmd/lateen-perf
	@$(GOBUILD) -ldflags "-s -w -X github.com/lateen-mesh/lateen/internal/agent/command.version=$(VERSION)" -o $(AGENT) ./cmd/lateen-agent

$(BIN): always
	@echo "building $(BIN) (the first time this compiles all dependencies: a minute or two)"
	@$(GOBUILD) $(STAMP) -o $(BIN) ./cmd/lateen

images: ## build the container images for amd64 and arm64 as OCI layouts into bin/images (needs Debian 12)
	@for arch in amd64 arm64; do \
		hack/fetch-envoy.sh $(TOOLS) $$arch && hack/fetch-libc.sh $(TOOLS) $$arch || exit 1; \
	done
	@cd hack/images && $(GO) run . -source $(CURDIR) -tools $(TOOLS) -out $(CURDIR)/bin/images -version $(VERSION)

envoy: ## fetch the pinned Envoy into .tools/
	@hack/fetch-envoy.sh

kube-modules: # fetches what the Kubernetes control plane is built from
	@cd test/kube && ../../hack/retry.sh $(GO) list -deps . >/dev/null

# Of vet, without what looks through all that is imported for functions like Printf and functions that never return.
kube: ## build the Kubernetes control plane that tests run into .tools/ (four to five minutes the first time)
	@GO=$(GO) BEFORE='$(GO) vet -printf=false -lostcancel=false .' hack/retry.sh hack/build-tool.sh kube test/kube .

istioctl: ## build Istio's own istioctl, which a test runs, into .tools/ (minutes the first time)
	@GO=$(GO) hack/retry.sh hack/build-tool.sh istioctl test/istioctl .

istiod: ## build Istio's own control plane, from which a test migrates, into .tools/ (minutes the first time)
	@GO=$(GO) hack/retry.sh hack/build-tool.sh istiod test/istioctl istio.io/istio/pilot/cmd/pilot-discovery

beside-istiod: build kube istiod ## measure Istio's own control plane and Lateen after it (five minutes of an idle machine), into bin/beside.json
	LATEEN_KUBE=$(TOOLS)/kube LATEEN_KUBE_REQUIRED=1 LATEEN_ISTIOD=$(TOOLS)/istiod $(GO) test -count=1 -timeout 1h \
		./internal/cli/loadtest -run '^TestBesideIstiod$$' -args -programs=$(CURDIR)/bin -report=$(CURDIR)/bin/beside.json
	@$(BIN) perf compare bin/beside.json

clients: ## build kubectl and Helm, with which a test types the commands of the guides, into .tools/ (two minutes the first time)
	@GO=$(GO) hack/retry.sh hack/build-tool.sh clients test/clients .

ratelimit: ## build Envoy's rate limit service, which tests of global limits run, into .tools/ (a minute the first time)
	@GO=$(GO) hack/retry.sh hack/build-tool.sh ratelimit test/ratelimit .

estate: kube envoy prometheus ## build Flagger and Argo Rollouts, and run them and the objects of other programs against Lateen (root, Linux; half an hour the first time)
	@GO=$(GO) TOOLS=$(TOOLS) hack/estate.sh

demo: envoy $(BIN) ## run the bookinfo mesh on this machine
	@$(BIN) up $(DIR)

up: demo ## the same for another directory: make up DIR=path

check: envoy $(BIN) ## run the mesh, send requests through its gateway, exit 0 or 1
	@$(BIN) up $(DIR) --check

prometheus: ## fetch Prometheus and promtool, which tests run, into .tools/ (built where the distribution has none)
	@GO=$(GO) hack/fetch-prometheus.sh

jmeter: ## fetch Apache JMeter, which lateen perf jmeter runs, into .tools/ (needs Java and Maven)
	@hack/fetch-jmeter.sh

rsyslogd: ## fetch rsyslogd, whose shipping of access logs a lab measures, into .tools/ (Debian and Ubuntu; elsewhere it is left out)
	@hack/fetch-rsyslogd.sh

dashboards-sdk: # fetches what dashboards are written with
	@test -x $(TOOLS)/dashboards/bin/python || python3 -m venv $(TOOLS)/dashboards
	@hack/retry.sh $(TOOLS)/dashboards/bin/pip install -q --disable-pip-version-check -r hack/dashboards/requirements.txt

dashboards: dashboards-sdk ## write the chart's dashboards of Grafana anew, from hack/dashboards
	@$(TOOLS)/dashboards/bin/python hack/dashboards/dashboards.py charts/lateen/files/monitoring/dashboards

dashboard-pictures: prometheus ## draw the dashboards from a loaded control plane, into docs/pictures
	@test -x $(TOOLS)/pictures/bin/python || python3 -m venv $(TOOLS)/pictures
	@hack/retry.sh $(TOOLS)/pictures/bin/pip install -q --disable-pip-version-check -r hack/dashboards/requirements-pictures.txt
	@$(GO) test -count 1 -timeout 30m ./test/observe -run TestEachPanel -pictures $(CURDIR)/docs/pictures -python $(TOOLS)/pictures/bin/python

test: ## unit, golden and property tests, a checked mesh and a live test of each feature with real Envoys (under 15 minutes)
	@GO=$(GO) hack/test.sh

test-all: test test-rest ## what CI runs, as root all of it: also lint, race detector, all live tests, API servers, planted faults, fuzzing

test-rest: # what test-all runs beside test
	@GO=$(GO) hack/test-rest.sh $(FUZZTIME)

test-short: ## unit, property and golden tests, without the live ones
	$(GO) test -short ./internal/...

linter: $(LINT) # builds the linter

lint: $(LINT) ## vet and lint, with the directions of imports
	$(LINT) run ./...

$(LINT):
	@echo "building golangci-lint $(LINT_VERSION)"
	@GOBIN=$(TOOLS) hack/retry.sh $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

release-check: ## what has to hold before a version is published: advisories of Envoy that were looked up lately, no known vulnerability
	hack/advisories.sh 30
	@GO=$(GO) LATEEN_VULNCHECK_REQUIRED=1 hack/vulncheck.sh $(VULNCHECK)

publish: ## push and sign images and charts: make publish REGISTRY=registry.example.com/mesh VERSION=v1.2.3; DRY_RUN=1 prints the commands
	@PATH="$(TOOLS):$$PATH" hack/publish.sh $(if $(DRY_RUN),--dry-run) '$(REGISTRY)' '$(VERSION)'

publish-tools: $(CRANE) $(HELM) $(COSIGN) ## build crane, Helm and cosign, which make publish runs, into .tools/ (minutes the first time)

$(CRANE):
	@echo "building crane $(CRANE_VERSION)"
	@GOBIN=$(TOOLS) CGO_ENABLED=0 hack/retry.sh $(GO) install github.com/google/go-containerregistry/cmd/crane@$(CRANE_VERSION)

$(HELM):
	@echo "building Helm $(HELM_VERSION)"
	@GOBIN=$(TOOLS) CGO_ENABLED=0 hack/retry.sh $(GO) install helm.sh/helm/v4/cmd/helm@$(HELM_VERSION)

$(COSIGN):
	@echo "building cosign $(COSIGN_VERSION)"
	@GOBIN=$(TOOLS) CGO_ENABLED=0 hack/retry.sh $(GO) install github.com/sigstore/cosign/v3/cmd/cosign@$(COSIGN_VERSION)

vulncheck: ## look for known vulnerabilities in what Lateen calls (fails where the database cannot be reached)
	@GO=$(GO) hack/vulncheck.sh $(VULNCHECK)

$(VULNCHECK):
	@echo "building govulncheck $(VULNCHECK_VERSION)"
	@GOBIN=$(TOOLS) hack/retry.sh $(GO) install golang.org/x/vuln/cmd/govulncheck@$(VULNCHECK_VERSION)

sbom: build $(SBOM) ## list what the binaries are made of, as CycloneDX (bin/*.cdx.json); the same for the same binary
	@for program in $(BIN) $(DISCOVERY) $(INSTALLER) $(LOADTEST) $(AGENT); do \
		$(SBOM) bin -json -std -noserial -notimestamp -version $(VERSION) -output $$program.cdx.json $$program || exit 1; \
	done

$(SBOM):
	@echo "building cyclonedx-gomod $(SBOM_VERSION)"
	@GOBIN=$(TOOLS) hack/retry.sh $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(SBOM_VERSION)

golden: ## write the golden files anew (look at the difference before you commit it)
	hack/golden.sh

calibrate: envoy ## play all recorded scripts to the real Envoy and to its model (after a change of Envoy's version)
	LATEEN_ENVOY=$(TOOLS)/envoy LATEEN_ENVOY_REQUIRED=1 $(GO) test -parallel 4 -run TestRealEnvoy ./internal/testkit/envoymodel -all

mutants: ## plant each fault of test/mutants: the property tests must find it
	LATEEN_MUTANTS_ALL=1 $(GO) test -count=1 -timeout 6h ./test/mutants

fuzz: ## run each fuzz target for FUZZTIME
	@hack/fuzz.sh $(FUZZTIME)

bench: ## measure each stage: all, or as make bench BENCH=Apply COUNT=1
	@BENCH='$(BENCH)' COUNT='$(COUNT)' BENCHTIME='$(BENCHTIME)' hack/bench.sh run

bench-compare: $(BENCHSTAT) ## compare the latest make bench with the baseline
	@hack/bench.sh compare

bench-baseline: ## measure the baseline anew, and the table in docs/performance.md from it
	@BENCH= COUNT='$(COUNT)' BENCHTIME='$(BENCHTIME)' hack/bench.sh run bin/baseline.txt
	@cp bin/baseline.txt test/bench/baseline.txt
	$(GO) test ./test/bench -run '^TestPerformancePageShowsTheBaseline$$' -update

bench-wire: ## measure what a stream and a push cost, next to a bare server of grpc-go: make bench-wire STREAMS=5000
	@mkdir -p bin
	$(GO) test -run '^$$' -bench . -benchtime 11x -timeout 30m ./test/wire -streams $(STREAMS) | tee bin/bench-wire.txt

flame: build ## draw where the CPU of the control plane goes, into docs/flame
	@$(BIN) perf namespaces --namespaces 50 --services 1000 --pods 2000 --virtual-services 1 --sidecars 800 --changes 60 --rate 5 --profile bin/flame
	@$(BIN) perf restart --sidecars 800 --profile bin/flame/restart
	@mkdir -p docs/flame
	cp bin/flame/connect.svg bin/flame/endpoints.svg bin/flame/routes.svg bin/flame/create-services.svg bin/flame/restart/restart.svg docs/flame/

scale: build ## 19,000 sidecars of 1,000 services, then two replicas with 15,000 each: 200 GB over loopback, six minutes of an idle machine
	@mkdir -p bin/scale
	GOMEMLIMIT=1400MiB $(BIN) perf services --services 1000 --sidecars 19000 --connect-rate 150 --patience 5m -o json > bin/scale/19000.json
	@for replica in 1 2; do \
		GOMEMLIMIT=1400MiB $(BIN) perf services --services 1000 --pods 30000 --sidecars 15000 --connect-rate 75 --patience 5m \
			-o json > bin/scale/15000-$$replica.json & done; wait
	@$(BIN) perf compare bin/scale/15000-1.json bin/scale/15000-2.json

constants: build ## measure the constants of lateen perf model anew (two minutes of an idle machine), and the table in docs/performance.md
	@$(BIN) perf constants --services 1000 --sidecars 2000 -o json > bin/constants.json
	@cp bin/constants.json internal/perf/sizing/constants.json
	$(GO) test ./internal/cli/perf -run '^TestDocsShowTheModel$$' -update
	$(GO) test ./internal/perf/sizing -run '^TestSizingPageIsCurrent$$' -update

sizing: build ## measure what requests cost proxies anew (six minutes of an idle machine), and write docs/sizing.md
	@hack/sizing.sh
	$(GO) test ./internal/perf/sizing -run '^TestSizingPageIsCurrent$$' -update

soak: ## an hour of pushes to proxies that come and go, or SOAK=10m; the heap must be flat
	$(GO) test -count=1 -run '^TestSoakLeavesNothingBehind$$' -v -timeout 0 ./test/wire -soak $(SOAK)

# A module of its own, so that `go test ./...` and the linter do not see it.
conformance: kube envoy ## run the conformance tests of the Gateway API (root, Linux), and write docs/reference/gateway-api-conformance.yaml
	LATEEN_CONFORMANCE_REQUIRED=1 LATEEN_VERSION=$(VERSION) GO=$(GO) \
		hack/conformance.sh -report $(CURDIR)/docs/reference/gateway-api-conformance.yaml
	$(GO) test ./test/docs -run '^TestConformanceTableIsCurrent$$' -update

conformance-core: kube envoy ## run the core conformance tests of each profile of the Gateway API (root, Linux)
	@GO=$(GO) hack/conformance.sh -core

conformance-modules: # fetches what they are built from
	@cd test/conformance && ../../hack/retry.sh $(GO) list -deps -test . tool >/dev/null

book-lab: kube ## run the lab of the book "Istio in Action" (three minutes), and write docs/book-lab.md
	LATEEN_KUBE=$(TOOLS)/kube LATEEN_KUBE_REQUIRED=1 $(GO) test -count=1 -timeout 10m ./test/booklab -full -v

# What the labs need: that of gateways, an API server; that of what stands around, also a Prometheus and rsyslogd.
LAB_PARTS := build envoy $(if $(filter gateway around,$(LABS)),kube) $(if $(filter around,$(LABS)),prometheus rsyslogd)

# Figures of a tree that nobody can check out are no figures.
clean-commit:
	@case "$(VERSION)" in *-dirty) echo "this tree has changes that are not committed ($(VERSION)): commit them first, so that others can measure the same" >&2; exit 1;; esac

# istiod's own figures stand on the page where make istiod has built it.
BESIDE_ISTIOD := $(if $(wildcard $(TOOLS)/istiod),$(filter aks-services,$(LABS)))
BESIDE_REPORT := $(if $(BESIDE_ISTIOD),-args -beside=$(CURDIR)/bin/beside.json)

seeds: clean-commit $(LAB_PARTS) ## run all published tests (twenty minutes of an idle machine, five more with istiod), and write docs/seeds.md; FULL=1: at the published size (an hour); LABS=dns: one
	@mkdir -p docs/seeds
	@failed=; if [ -n "$(BESIDE_ISTIOD)" ]; then $(MAKE) beside-istiod || failed=" beside-istiod"; fi; \
	for lab in $(LABS); do \
		echo "lab $$lab"; \
		SCALE= FULL=$(FULL) GO=$(GO) hack/lab.sh $$lab bin/lab.json && \
		cp bin/lab.json docs/seeds/$$lab.json || failed="$$failed $$lab"; \
	done; \
	$(GO) test -short ./internal/perf/lab -run '^TestSeedsPageIsCurrent$$' -update $(BESIDE_REPORT) && \
	if [ -n "$$failed" ]; then echo "these labs failed, and their tables are as they were:$$failed" >&2; exit 1; fi

history: ## measure this version three times, draw the history of versions, fail if a figure became worse (hack/perf-history.sh)
	@GO=$(GO) hack/perf-history.sh

changelog: ## join the fragments of changes/ into CHANGELOG.md: make changelog RELEASE=v1.2.0
	@hack/changelog.sh $(RELEASE)

$(BENCHSTAT):
	@echo "building benchstat"
	@GOBIN=$(TOOLS) hack/retry.sh $(GO) install golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)

clean: ## remove what was built, and the state of local meshes
	rm -rf bin .lateen
