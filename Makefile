# Needs Go, git and make. All other tools are built from the modules that
# tools/go.mod pins. The race detector is used if there is a C compiler.

GO        ?= go
MODULE    := github.com/kubectl-nodeupgrade/kubectl-nodeupgrade
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -X $(MODULE)/pkg/plugin.version=$(VERSION)
# The product, the demo, the tests and their control plane are built with the same flags, so that shared packages are compiled once.
# Without debug information the compiler needs a fifth less time.
export CGO_ENABLED ?= 0
export GOFLAGS     ?= -trimpath -gcflags=all=-dwarf=false
GOBIN      = $(or $(shell $(GO) env GOBIN),$(shell $(GO) env GOPATH)/bin)
TOOL      := $(GO) tool -modfile=tools/go.mod
MODULES    = $(dir $(wildcard go.mod */go.mod */*/go.mod */*/*/go.mod))
# GoReleaser is not in tools/go.mod, because its 380 modules would determine the versions of all other tools (docs/decisions/0051).
GORELEASER ?= $(GO) run github.com/goreleaser/goreleaser/v2@v2.15.1
# actionlint is not in tools/go.mod, because it does not compile with the YAML library that golangci-lint requires.
ACTIONLINT := $(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
SCRIPTS    = .ci/run .ci/install kubectl_complete-nodeupgrade
PURE      := ./pkg/drain/... ./pkg/preflight/... ./pkg/report/... ./pkg/simulate/... ./pkg/upgrade/...
# These packages start goroutines, so they are tested with the race detector.
RACED     := ./pkg/cluster ./pkg/runner ./pkg/plugin ./pkg/cloud/aws ./test/awscloud ./test/hostile
# More of these tests run in parallel than there are cores, because many tests only wait.
RACE      := $(if $(shell command -v gcc || command -v clang),CGO_ENABLED=1 $(GO) test -race,$(GO) test) -parallel 8
# Tests do not run go vet, because "make verify" does, and vetting a package also vets every library that it imports.
UNVETTED  := -vet=off
# These tests upgrade nodes of real control planes. The packages run in parallel, as many as there are cores, the longest first. They
# run the tool in a separate process, so the race detector would only check the tests.
LIVE      := $(addprefix ./test/,e2e crash rivals fixture fidelity controlplane gaps)
UNIT       = $(filter-out $(patsubst ./%,$(MODULE)/%,$(LIVE) $(RACED)),$(shell $(GO) list ./...))
FUZZTIME  ?= 30s
NODES     ?= 6
# The maximum size of the released binary, in bytes.
MOST_BYTES ?= 48000000
COUNT     ?= 1

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##### Build

.PHONY: build
build: ## Build bin/kubectl-nodeupgrade
	$(GO) build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/kubectl-nodeupgrade

.PHONY: install
install: ## Install the plugin and its completion script into GOBIN
	$(GO) install -ldflags "$(LDFLAGS)" ./cmd/kubectl-nodeupgrade
	install -m 755 kubectl_complete-nodeupgrade "$(GOBIN)/"

.PHONY: controlplane
controlplane: ## Build etcd, Kubernetes and KWOK for the tests (minutes, once)
	@$(GO) run ./test/controlplane/cmd/programs

.PHONY: tools
tools: ## Build the linters and validators that tools/go.mod pins (minutes, once)
	$(GO) build -C tools -o ../bin/ tool

.PHONY: clean
clean: ## Remove all built files
	rm -rf bin dist

##### Try

.PHONY: demo
demo: ## Upgrade a node group of a real control plane on this machine
	@$(GO) run ./test/controlplane/cmd/programs ./test/demo ./cmd/kubectl-nodeupgrade
	@bin/test/demo

.PHONY: cast
cast: ## Record the demo's plan and upgrade into docs/pictures/upgrade.svg
	@$(GO) run ./test/controlplane/cmd/programs ./test/demo ./cmd/kubectl-nodeupgrade
	@bin/test/demo -record docs/pictures/upgrade.svg

.PHONY: cluster
cluster: ## Run a control plane with NODES=6 nodes until Ctrl-C
	$(GO) run ./test/controlplane/cmd/cluster -nodes $(NODES)

##### Prove

.PHONY: test
test: controlplane ## Run all tests, and samples of the long ones, which "make prove" runs completely
	$(GO) test $(UNVETTED) -shuffle=on $(UNIT)
	$(GO) -C test/schedulerfit test $(UNVETTED) .
	$(RACE) $(UNVETTED) -shuffle=on $(RACED)
	$(GO) test $(UNVETTED) -shuffle=on -timeout 45m $(LIVE)

.PHONY: prove
prove: ## Run everything that proves the tool (hours), and print how long each part took
	@export NODEUPGRADE_PROVE=1; for part in "test" "worlds N=100000" "fit N=100000" "karpenter" "mutants" "rules CHECK=1" "fidelity" "rivals" "gaps" "crash"; do \
		start=$$(date +%s); $(MAKE) --no-print-directory $$part || exit 1; \
		echo "== make $$part: $$(($$(date +%s) - start)) s"; \
	done

.PHONY: worlds
worlds: ## Upgrade N=1000 random worlds from SEED=1, check all rules in each, and check that every kind of event occurred
	$(GO) run ./test/worlds/cmd/worlds -n $(or $(N),1000) -first $(or $(SEED),1)

.PHONY: fit
fit: ## Compare the placement of pods by the simulator and by kube-scheduler in N=1000 random clusters from SEED=1
	$(GO) -C test/schedulerfit test -count=1 -timeout 60m . -args -samples $(or $(N),1000) -first $(or $(SEED),1)

.PHONY: rules
rules: ## Print the upgrade rules of EKS and GKE with their tests and mutants; CHECK=1 checks that the tests fail with each mutant
	@$(GO) run ./test/house/cmd/rules $(if $(CHECK),-check)

.PHONY: karpenter
karpenter: controlplane ## Compare the reading of Karpenter's rules with Karpenter's own, and follow roll-outs of its controller (minutes)
	$(GO) -C test/karpenter vet .
	$(GO) -C test/karpenter test $(UNVETTED) -count=1 -parallel 8 -timeout 30m .

.PHONY: mutants
mutants: ## Add bugs, one at a time, and check that at most N=20000 random worlds find each
	$(GO) run ./test/worlds/cmd/mutants -n $(or $(N),20000)

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME=30s
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' cmd pkg test | \
	while IFS=: read -r file func; do \
		echo "== $$file $${func#func }"; \
		$(GO) test -run '^$$' -fuzz "^$${func#func }$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" || exit 1; \
	done

.PHONY: bench
bench: controlplane ## Run the benchmarks, COUNT=1 times each (10 for benchstat); BENCH=all for long ones, each drain three times
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) $(PURE) ./pkg/plugin
	$(GO) run ./test/bench $(if $(filter all,$(BENCH)),-all -runs 3)

.PHONY: fidelity
fidelity: controlplane ## Compare plans with upgrades of a real control plane: times, evictions, order of nodes
	$(GO) run ./test/fidelity

.PHONY: crash
crash: controlplane ## Kill the tool after each of its writes, lose answers, halt it until its lease expires, stop the API server, start it twice, change clocks, roll back
	$(GO) run ./test/crash
	$(GO) run ./test/crash -how lose
	$(GO) run ./test/crash -managed
	$(GO) run ./test/crash -managed -how lose
	$(GO) run ./test/crash -strategy blue-green
	$(GO) run ./test/crash -strategy blue-green -how lose
	$(GO) run ./test/crash -strategy blue-green -how rollback -few 20
	$(GO) run ./test/crash -gke all -at-once 6
	$(GO) run ./test/crash -gke all -at-once 6 -how lose
	$(GO) run ./test/crash -how stop -few 10 -from 4
	$(GO) run ./test/crash -how down -few 10 -from 5
	$(GO) run ./test/crash -how pair -few 10
	$(GO) run ./test/crash -how clock -few 10 -from 4
	$(GO) run ./test/crash -how back -few 10 -from 4
	$(GO) run ./test/crash -how ahead -few 10

.PHONY: denials
denials: controlplane ## Deny each AWS action permanently, one at a time, at each of its uses by a command
	NODEUPGRADE_TEST_DENIALS=all $(GO) test -count=1 -timeout 90m -run '^TestCommandsNameDeniedCloudAction$$' ./test/e2e

.PHONY: rivals
rivals: controlplane ## Upgrade N=20 groups of a real control plane from SEED=1 while a simulated autoscaler changes their size, and again with a lost record
	$(GO) run ./test/rivals -n $(or $(N),20) -seed $(or $(SEED),1)
	$(GO) run ./test/rivals -n $(or $(N),20) -seed $(or $(SEED),1) -lost

.PHONY: gaps
gaps: controlplane ## Measure how long Services have no ready endpoint, in LAYOUTS=5 from SEED=1, with the tool and with kubectl drain
	$(GO) run ./test/gaps -layouts $(or $(LAYOUTS),5) -seed $(or $(SEED),1) -flags "" -flags --move=surge
	$(GO) run ./test/gaps -layouts $(or $(LAYOUTS),5) -seed $(or $(SEED),1) -spread -alone -runs 3 -against "--implicit-budgets=false --ignore-unready=*"
	$(GO) run ./test/gaps -crash -seed $(or $(SEED),1)

.PHONY: update-golden
update-golden: ## Rewrite golden and scenario files from the output of the present code
	@rewrite() { \
		dirs=$$(grep -rl --include='*_test.go' -e "$$1" cmd pkg test | xargs -r -n 1 dirname | sort -u); \
		for dir in $$dirs; do $(GO) test "./$$dir" "$$2" || exit 1; done; \
	}; \
	rewrite 'flag.Bool("update"' -update && rewrite cockroachdb/datadriven -rewrite
	@echo "Review the diff before you commit it."

##### Verify

.PHONY: verify
verify: verify-format verify-scripts verify-modules verify-krew verify-house verify-pages verify-size vet lint ## Check everything except behaviour

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) golangci-lint fmt

.PHONY: vet
vet:
	$(GO) vet ./...
	$(GO) -C test/schedulerfit vet .

.PHONY: lint
lint: ## Run the linters, including staticcheck
	$(TOOL) golangci-lint run
	$(ACTIONLINT) -shellcheck= -pyflakes=

.PHONY: verify-format
verify-format:
	@files=$$($(TOOL) gofumpt -l .) && [ -z "$$files" ] || { echo "not formatted, run make fmt:" $$files >&2; exit 1; }

.PHONY: verify-scripts
verify-scripts:
	@for script in $(SCRIPTS); do sh -n "$$script" || exit 1; done

.PHONY: verify-modules
verify-modules:
	@for dir in $(MODULES); do (cd "$$dir" && $(GO) mod tidy -diff) || { echo "run go mod tidy in $$dir" >&2; exit 1; }; done
	@! grep -n '^replace' go.mod || { echo "go install refuses a module with replace lines" >&2; exit 1; }

# The validator requires that the file is named after the plugin.
.PHONY: verify-krew
verify-krew:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp krew.yaml "$$dir/nodeupgrade.yaml" && \
	$(TOOL) validate-krew-manifest -skip-install -manifest "$$dir/nodeupgrade.yaml"

# Checks import rules, sizes, plugins.yaml, krew.yaml and this file.
.PHONY: verify-house
verify-house:
	$(GO) test -count=1 ./test/house

.PHONY: verify-pages
verify-pages: ## Check README and docs: spelling, generated pages, and the commands and flags in them
	$(TOOL) misspell -error README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs
	$(GO) test -run '^Test(Readme|Reference|Docs)' -count=1 ./pkg/plugin

# If the program calls methods by names that are known only at run time, the linker keeps all exported methods of all libraries
# (docs/decisions/0021). Go's package plugin has the same effect in builds with cgo (0050). "go install" uses cgo on a machine with a C
# compiler. Listing packages with cgo needs no C compiler.
.PHONY: verify-size
verify-size:
	@importers=$$(CGO_ENABLED=1 $(GO) list -deps -f '{{$$path := .ImportPath}}{{range .Imports}}{{if eq . "plugin"}}{{$$path}}{{end}}{{end}}' ./cmd/kubectl-nodeupgrade | sort -u) && \
	if [ -n "$$importers" ]; then \
		echo "the binary links package plugin, which makes it four times as large with cgo; imported by:" $$importers >&2; \
		exit 1; \
	fi
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && link() { \
		$(GO) build -ldflags "-s -w $$1" -o "$$dir/" ./cmd/kubectl-nodeupgrade; \
	} && link && size=$$(wc -c < "$$dir/kubectl-nodeupgrade") && \
	if [ "$$size" -gt $(MOST_BYTES) ]; then \
		echo "the binary has $$size bytes, more than $(MOST_BYTES); methods are called by name in:" >&2; \
		link -dumpdep 2>&1 | sed -n 's/ <ReflectMethod> -> .*//p' | sort -u >&2; \
		exit 1; \
	fi; echo "the binary has $$size bytes, of $(MOST_BYTES)"

##### Release

.PHONY: release-snapshot
release-snapshot: ## Build the six archives into dist, and install one with krew and one by hand
	GORELEASER_CURRENT_TAG=$$(awk '$$1 == "version:" { print $$2 }' krew.yaml) $(GORELEASER) release --snapshot --clean --skip=sign,sbom --timeout=4h
	$(MAKE) --no-print-directory dist/krew.yaml
	$(GO) build -C tools -o ../bin/ sigs.k8s.io/krew/cmd/krew
	.ci/install dist

# A build must not depend on the folder of the sources.
.PHONY: verify-release
verify-release: ## Build the binary of HEAD in two clones at different paths, and compare the sums
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && for clone in "$$dir/a" "$$dir/another/folder"; do \
		git clone -q . "$$clone" && (cd "$$clone" && $(GO) build -ldflags "-s -w $(LDFLAGS)" -o "$$dir/built" ./cmd/kubectl-nodeupgrade) && \
		sha256sum < "$$dir/built" >> "$$dir/sums" || exit 1; \
	done && cat "$$dir/sums" && [ "$$(sort -u "$$dir/sums" | wc -l)" = 1 ] || { echo "two clones of one commit gave different binaries" >&2; exit 1; }

dist/krew.yaml: dist/checksums.txt krew.yaml
	awk 'FNR == NR { sum[$$2] = $$1; next } \
		/^ *uri: / { n = split($$2, part, "/"); file = part[n] } \
		/^ *sha256: / { if (!(file in sum)) { print "no checksum for " file > "/dev/stderr"; exit 1 } sub(/"[0-9a-f]*"/, "\"" sum[file] "\"") } \
		{ print }' dist/checksums.txt krew.yaml > $@

.PHONY: krew-sums
krew-sums: dist/krew.yaml ## Update the checksums in krew.yaml from dist/checksums.txt
	cp dist/krew.yaml krew.yaml
