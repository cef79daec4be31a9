# Needs Go, git and make; every other tool is built from the modules that
# tools/go.mod pins. The race detector is used where there is a C compiler.

GO        ?= go
MODULE    := github.com/kubectl-nodeupgrade/kubectl-nodeupgrade
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -X $(MODULE)/pkg/plugin.version=$(VERSION)
# One set of flags for the product, the demo, the tests and their control plane: what they share is compiled once.
# Without tables for debuggers the compiler needs a fifth less time.
export CGO_ENABLED ?= 0
export GOFLAGS     ?= -trimpath -gcflags=all=-dwarf=false
GOBIN      = $(or $(shell $(GO) env GOBIN),$(shell $(GO) env GOPATH)/bin)
TOOL      := $(GO) tool -modfile=tools/go.mod
MODULES    = $(dir $(wildcard go.mod */go.mod */*/go.mod */*/*/go.mod))
# It is run by its version: its 380 modules would decide the versions of all other tools in tools/go.mod (docs/decisions/0051).
GORELEASER ?= $(GO) run github.com/goreleaser/goreleaser/v2@v2.15.1
# It does not compile with the YAML library that golangci-lint requires.
ACTIONLINT := $(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
SCRIPTS    = .ci/run .ci/install kubectl_complete-nodeupgrade
PURE      := ./pkg/drain/... ./pkg/preflight/... ./pkg/report/... ./pkg/simulate/... ./pkg/upgrade/...
# The packages that start goroutines are tested with the race detector, if there is a C compiler.
RACED     := ./pkg/cluster ./pkg/runner ./pkg/plugin ./pkg/cloud/aws ./test/awscloud ./test/hostile
# More of these tests run at once than there are cores, because many only wait.
RACE      := $(if $(shell command -v gcc || command -v clang),CGO_ENABLED=1 $(GO) test -race,$(GO) test) -parallel 8
# "make verify" vets the packages with more checks. To vet a package, go test first vets every library that it imports.
UNVETTED  := -vet=off
# These tests upgrade nodes of real control planes, as many packages at once as there are cores, the longest first. They run
# the tool as a process of its own, where the race detector would only watch the tests.
LIVE      := $(addprefix ./test/,e2e crash rivals fixture fidelity controlplane gaps)
UNIT       = $(filter-out $(patsubst ./%,$(MODULE)/%,$(LIVE) $(RACED)),$(shell $(GO) list ./...))
FUZZTIME  ?= 30s
NODES     ?= 6
# The largest that the binary may be as it is released.
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
clean: ## Remove what was built
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
test: controlplane ## Run every test, with samples of the long ones; "make prove" runs those whole
	$(GO) test $(UNVETTED) -shuffle=on $(UNIT)
	$(GO) -C test/schedulerfit test $(UNVETTED) .
	$(RACE) $(UNVETTED) -shuffle=on $(RACED)
	$(GO) test $(UNVETTED) -shuffle=on -timeout 45m $(LIVE)

.PHONY: prove
prove: ## Run everything that proves the tool (hours), and print how long each part took
	@export NODEUPGRADE_PROVE=1; for part in "test" "worlds N=100000" "fit N=100000" "mutants" "rules CHECK=1" "fidelity" "rivals" "gaps" "crash"; do \
		start=$$(date +%s); $(MAKE) --no-print-directory $$part || exit 1; \
		echo "== make $$part: $$(($$(date +%s) - start)) s"; \
	done

.PHONY: worlds
worlds: ## Upgrade N=1000 random worlds from SEED=1, check every rule in each and that all there is was met
	$(GO) run ./test/worlds/cmd/worlds -n $(or $(N),1000) -first $(or $(SEED),1)

.PHONY: fit
fit: ## Compare where the simulator and kube-scheduler place pods, in N=1000 random clusters from SEED=1
	$(GO) -C test/schedulerfit test -count=1 -timeout 60m . -args -samples $(or $(N),1000) -first $(or $(SEED),1)

.PHONY: rules
rules: ## Print the rules by which EKS and GKE upgrade, each with its tests and mutants; CHECK=1 plants the mutants and sees the tests fail
	@$(GO) run ./test/house/cmd/rules $(if $(CHECK),-check)

.PHONY: mutants
mutants: ## Plant bugs, one at a time, and see each found in at most N=20000 random worlds
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
fidelity: controlplane ## Hold plans against upgrades of a real control plane: times, evictions, order of nodes
	$(GO) run ./test/fidelity

.PHONY: crash
crash: controlplane ## Kill the tool after each of its writes, lose each answer, halt it past its lease, take the API server away, start it twice, set clocks forward and back, roll it back
	$(GO) run ./test/crash
	$(GO) run ./test/crash -how lose
	$(GO) run ./test/crash -managed
	$(GO) run ./test/crash -managed -how lose
	$(GO) run ./test/crash -strategy blue-green
	$(GO) run ./test/crash -strategy blue-green -how lose
	$(GO) run ./test/crash -strategy blue-green -how rollback -few 20
	$(GO) run ./test/crash -how stop -few 10 -from 4
	$(GO) run ./test/crash -how down -few 10 -from 5
	$(GO) run ./test/crash -how pair -few 10
	$(GO) run ./test/crash -how clock -few 10 -from 4
	$(GO) run ./test/crash -how back -few 10 -from 4
	$(GO) run ./test/crash -how ahead -few 10

.PHONY: denials
denials: controlplane ## Deny each AWS action for good, one at a time, at every moment at which a command uses it
	NODEUPGRADE_TEST_DENIALS=all $(GO) test -count=1 -timeout 90m -run '^TestCommandsNameDeniedCloudAction$$' ./test/e2e

.PHONY: rivals
rivals: controlplane ## Upgrade N=20 groups of a real control plane from SEED=1 while somebody else changes their size, and again with the record lost
	$(GO) run ./test/rivals -n $(or $(N),20) -seed $(or $(SEED),1)
	$(GO) run ./test/rivals -n $(or $(N),20) -seed $(or $(SEED),1) -lost

.PHONY: gaps
gaps: controlplane ## Sum the time in which Services have no ready endpoint, in LAYOUTS=5 from SEED=1, beside kubectl drain
	$(GO) run ./test/gaps -layouts $(or $(LAYOUTS),5) -seed $(or $(SEED),1) -flags "" -flags --move=surge
	$(GO) run ./test/gaps -layouts $(or $(LAYOUTS),5) -seed $(or $(SEED),1) -spread -alone -runs 3 -against "--implicit-budgets=false --ignore-unready=*"
	$(GO) run ./test/gaps -crash -seed $(or $(SEED),1)

.PHONY: update-golden
update-golden: ## Rewrite golden and scenario files from what the code does now
	@rewrite() { \
		dirs=$$(grep -rl --include='*_test.go' -e "$$1" cmd pkg test | xargs -r -n 1 dirname | sort -u); \
		for dir in $$dirs; do $(GO) test "./$$dir" "$$2" || exit 1; done; \
	}; \
	rewrite 'flag.Bool("update"' -update && rewrite cockroachdb/datadriven -rewrite
	@echo "Read the diff before you commit it."

##### Verify

.PHONY: verify
verify: verify-format verify-scripts verify-modules verify-krew verify-house verify-pages verify-size vet lint ## Check everything but behaviour

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) golangci-lint fmt

.PHONY: vet
vet:
	$(GO) vet ./...
	$(GO) -C test/schedulerfit vet .

.PHONY: lint
lint: ## Run the linters, staticcheck among them
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

# The validator compares the file's name with the plugin's.
.PHONY: verify-krew
verify-krew:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp krew.yaml "$$dir/nodeupgrade.yaml" && \
	$(TOOL) validate-krew-manifest -skip-install -manifest "$$dir/nodeupgrade.yaml"

# Import rules, sizes, plugins.yaml, krew.yaml, this file.
.PHONY: verify-house
verify-house:
	$(GO) test -count=1 ./test/house

.PHONY: verify-pages
verify-pages: ## Check README and docs: spelling, generated pages, commands and flags that they show
	$(TOOL) misspell -error README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs
	$(GO) test -run '^Test(Readme|Reference|Docs)' -count=1 ./pkg/plugin

# A method that is called by a name which only the running program knows has the linker keep every exported
# method of every library (docs/decisions/0021). So does Go's package plugin in a build with cgo, which is what
# "go install" makes on a machine with a C compiler (0050). Listing packages with cgo takes no C compiler.
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
	GORELEASER_CURRENT_TAG=$$(awk '$$1 == "version:" { print $$2 }' krew.yaml) $(GORELEASER) release --snapshot --clean --skip=sign,sbom
	$(MAKE) --no-print-directory dist/krew.yaml
	$(GO) build -C tools -o ../bin/ sigs.k8s.io/krew/cmd/krew
	.ci/install dist

# A build must not depend on the folder that it is made in.
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
krew-sums: dist/krew.yaml ## Fill krew.yaml's checksums in from dist/checksums.txt
	cp dist/krew.yaml krew.yaml
