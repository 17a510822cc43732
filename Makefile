# Holdfast. `make` alone lists the targets.
#
# Needs Go and make only. The linter is built from tools/go.mod; the server for the
# tests is installed by tools/setup.sh where there is none.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO       ?= go
DURATION ?= 10s
# What to benchmark, and how often: make bench BENCH=Pair COUNT=10
BENCH    ?= .
COUNT    ?= 1
# How many grants each history of make soak has at least.
OPS      ?= 1000000
# How often make flaky runs the tests.
TIMES    ?= 10
# The servers of make versions: names that tools/servers.sh knows, or paths of server binaries.
VERSIONS ?= redis-7.0 redis-8.0 valkey-8.1
# How long each benchmark of interop-bench runs.
SECONDS  ?= 5

# In a checkout that git does not trust (another user's, or no repository at all) the
# go command would refuse to stamp a binary instead of leaving the stamp out.
ifneq ($(shell git rev-parse --git-dir >/dev/null 2>&1; echo $$?),0)
export GOFLAGS += -buildvcs=false
endif

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## build the load generator: bin/loadgen
	$(GO) build -o bin/loadgen ./cmd/loadgen

# What the load generator is to do meanwhile: make profile RUN='--scenario contend'
.PHONY: profile
profile: build ## run the load generator under the CPU profiler; print who took the time (DURATION=10s, RUN=its flags)
	bin/loadgen run --duration $(DURATION) --cpuprofile bin/cpu.out $(RUN)
	$(GO) tool pprof -tags bin/loadgen bin/cpu.out
	$(GO) tool pprof -top -cum -nodecount 30 bin/loadgen bin/cpu.out

# What builds on one system may not on another: signals, process groups, clocks.
SYSTEMS = linux darwin windows freebsd

.PHONY: cross
cross: ## build everything for the systems that loadgen runs on: linux, darwin, windows, freebsd
	@set -e; for os in $(SYSTEMS); do echo "GOOS=$$os go build ./..."; GOOS=$$os CGO_ENABLED=0 $(GO) build ./...; done

.PHONY: run
run: build ## run the load generator on a server of its own (DURATION=10s)
	bin/loadgen run --duration $(DURATION)

.PHONY: setup
setup: ## install a redis-server if neither redis-server nor valkey-server is on PATH
	@tools/setup.sh server

# The engine with its larger suites and the load generator come last: three at a time, five tests that wait beside each
# other in each; one at a time and four under the race detector. More would starve each other's short leases. Each of the
# two lists begins with what takes longest, else one core would wait for it in the end.
LONG  = fault cluster
QUICK = family wait api
FULL  = $(LONG) $(QUICK)
HEAVY = ./cmd/loadgen $(LONG:%=./engine/internal/suite/%) ./engine $(QUICK:%=./engine/internal/suite/%)
LIGHT = $$($(GO) list ./... | grep -v -e '/engine$$' $(FULL:%=-e '/suite/%$$') -e '/cmd/loadgen$$' | sort -r)

.PHONY: test test-module test-family
.NOTPARALLEL:
test: test-module test-family examples adapters ## run every test, against real servers, and compile the benchmarks
	cd bench && $(GO) vet ./...

# Modules of their own: what they need, the engine does not.
ADAPTERS = $(patsubst %/go.mod,%,$(wildcard adapters/*/go.mod))
MODULES  = bench examples tools/containers tools/alerts $(ADAPTERS)

.PHONY: adapters
adapters: setup ## run the tests of the adapters: Prometheus, OpenTelemetry, go-redis, databases
	@set -e; for dir in $(ADAPTERS); do echo "cd $$dir && go test ./..."; (cd $$dir && $(GO) vet ./... && $(GO) test -timeout 5m $(TESTFLAGS) ./...); done

.PHONY: databases
databases: ## run the fence's tests on SQLite, PostgreSQL and MariaDB; installs the two (MYSQL=1: on MySQL, too, unpacked in bin/servers)
	@tools/setup.sh postgres mysql
	cd adapters/sqltest && HOLDFAST_DATABASES=required $(GO) test -count 1 -timeout 5m $(TESTFLAGS) ./...
ifeq ($(MYSQL),1)
	tools/servers.sh bin/servers mysql-next
	cd adapters/sqltest && HOLDFAST_DATABASES=required HOLDFAST_MYSQLD=$(CURDIR)/bin/servers/mysql-next/server $(GO) test -count 1 -timeout 5m $(TESTFLAGS) ./...
endif

test-module: setup
	$(GO) test $(LIGHT) $(HEAVY) -p 3 -parallel 5 -vet=off -timeout 20m $(TESTFLAGS)

# A family of locks that only this tag builds: what a further one takes is what it has (ARCHITECTURE.md, "To add a family").
test-family: setup
	$(GO) test -tags holdfast_family_demo ./engine/internal/suite/family -run '^TestAFamilyThatIsAddedIsALock$$' -timeout 5m $(TESTFLAGS)
	$(GO) test -tags holdfast_family_demo ./internal/house -run '^TestScriptsAreBoundedAndSeeEveryRefusal$$' $(TESTFLAGS)

# The output of each run stands in bin/flaky.
.PHONY: flaky
flaky: setup ## run every test ten times beside busy loops, or standing still now and then: which fails how often? (TIMES=10, STALL=1s)
	$(GO) build -o bin/flaky/flaky ./internal/flaky
	@exec bin/flaky/flaky -times $(TIMES) $(if $(STALL),-stall $(STALL)) -out bin/flaky $(MAKE) test-module TESTFLAGS=-count=1

.PHONY: unit
unit: ## run the tests that need no server, in seconds
	$(GO) test -short ./...

.PHONY: race
race: setup ## run every test under the race detector (needs a C compiler)
	@tools/setup.sh cc
	CGO_ENABLED=1 $(GO) test -race $(LIGHT) -p 2 -parallel 4 -timeout 30m
	CGO_ENABLED=1 $(GO) test -race $(HEAVY) -p 1 -parallel 4 -timeout 30m

# The versions are Debian packages, unpacked in bin/servers; another system names binaries: VERSIONS='/opt/redis/redis-server ...'.
.PHONY: versions
versions: ## test on several versions of Redis and Valkey (VERSIONS='redis-7.0 redis-8.0 valkey-8.1', SHORT=1, INTEROP=0)
	@$(if $(filter 0,$(INTEROP)),,tools/setup.sh java maven)
	@GO='$(GO)' SHORT='$(SHORT)' INTEROP='$(INTEROP)' TESTFLAGS='$(TESTFLAGS)' tools/versions.sh $(VERSIONS)

.PHONY: examples
examples: setup ## build and run every example on a server of its own
	cd examples && $(GO) vet ./... && $(GO) test ./... -timeout 10m $(TESTFLAGS)

.PHONY: interop
interop: setup ## run the tests against Redisson; installs Java and Maven
	@tools/setup.sh java maven
	HOLDFAST_INTEROP=required $(GO) test ./interop -count 1 -parallel 8 -timeout 20m
	cd examples && HOLDFAST_INTEROP=required $(GO) test ./gojava -count 1 -timeout 10m

.PHONY: interop-bench
interop-bench: setup ## one hot lock, Redisson beside the engine (BENCH=., SECONDS=5, COUNT=1)
	@tools/setup.sh java maven
	HOLDFAST_INTEROP=required HOLDFAST_INTEROP_SECONDS=$(SECONDS) $(GO) test ./interop \
		-run '^$$' -bench '$(BENCH)' -benchtime 1x -count $(COUNT) -timeout 60m

# The modfile must be an absolute path once the directory changes.
GOLANGCI := $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint

# With more grants come more blows. A failure prints its seed: make soak SEED=...
.PHONY: soak
soak: setup ## make long histories under a nemesis and check them (OPS=1000000, SEED=)
	HOLDFAST_OPS=$(OPS) HOLDFAST_SEED=$(SEED) $(GO) test ./engine -run '^TestHistory$$' -count=1 -v -timeout 2h

# SEED= runs one seed, TIME= goes on with the next until it is over. A failure prints its seed and a small story.
.PHONY: sim
sim: ## simulate the whole engine, with faults, and check its promises (SEED=, TIME=60s, OPS=400 a run at most, KINDS=, PROFILE=, WORKERS=1)
	@mkdir -p bin && rm -f bin/sim.txt
	@$(GO) test -c -o bin/sim.test ./engine
	@cd engine && ../bin/sim.test -test.run '^TestSim$$' -test.timeout 48h -sim.summary='$(CURDIR)/bin/sim.txt' \
		-sim.seed='$(SEED)' -sim.time='$(or $(TIME),$(if $(SEED),,60s))' -sim.kinds='$(KINDS)' -sim.profile='$(PROFILE)' \
		-sim.ops='$(if $(filter command environment,$(firstword $(origin OPS))),$(OPS))' -sim.workers='$(WORKERS)'; \
		status=$$?; cat '$(CURDIR)/bin/sim.txt' 2>/dev/null; exit $$status

# A find of the first four is a file below resp/testdata/fuzz that fails the tests from then on; the last prints its seed.
# The first four count runs, at about what this takes: a -fuzztime in seconds can end in "context deadline exceeded"
# without a find before Go 1.27 (go.dev/issue/75804).
.PHONY: fuzz
fuzz: setup ## change what servers say, at random: nothing ends the process or grants what is not so (TIME=60s in all, SEED=)
	@set -e; each=$$(( $(patsubst %s,%,$(or $(TIME),60s)) / 6 )); \
	$(GO) test ./resp -run '^$$' -fuzz '^FuzzReplyOfScripts$$' -fuzztime $$(( each * 8000 ))x -timeout 48h; \
	$(GO) test ./resp -run '^$$' -fuzz '^FuzzReplyOfNodes$$' -fuzztime $$(( each * 8000 ))x -timeout 48h; \
	$(GO) test ./resp -run '^$$' -fuzz '^FuzzReplyGuard$$' -fuzztime $$(( each * 1000 ))x -timeout 48h; \
	$(GO) test ./resp -run '^$$' -fuzz '^FuzzDirect$$' -fuzztime $$(( each * 3000 ))x -timeout 48h; \
	HOLDFAST_FUZZ=$${each}s HOLDFAST_SEED='$(SEED)' $(GO) test ./engine/internal/suite/fault -run '^TestMangledReplies$$' -count=1 -v -timeout 48h

.PHONY: mutants
mutants: setup ## break the code on purpose, one promise at a time: its tests must fail (RUN=, an id; SAMPLE=20, DATE=)
	$(GO) run ./internal/mutants -run '$(RUN)' $(if $(SAMPLE),-sample $(SAMPLE)) $(if $(DATE),-date $(DATE))

.PHONY: mutate
mutate: setup ## make small changes to a package and see which its tests do not notice (PKG=renew, IN=, N=200, SEED=, FILES=, TESTS=, LEAST=90)
	$(GO) run ./internal/mutants -generate '$(or $(PKG),renew)' -in '$(IN)' -n $(or $(N),200) -seed $(or $(SEED),1) \
		-files '$(or $(FILES),\.go$$)' -tests '$(or $(TESTS),.*)' -least $(or $(LEAST),90)

# actionlint needs another version of a library than golangci-lint, so it is no tool of tools/go.mod.
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: lint
lint: ## lint all modules with the pinned golangci-lint; check workflows, compose files, Dockerfiles, and that alerts fire
	$(GOLANGCI) run ./...
	@set -e; for dir in $(MODULES); do echo "cd $$dir && golangci-lint run"; \
		(cd $$dir && $(GOLANGCI) run --config $(CURDIR)/.golangci.yml ./...); done
	cd tools/containers && $(GO) test ./...
	cd tools/alerts && $(GO) test ./...
	$(GO) run $(ACTIONLINT)

.PHONY: vuln
vuln: ## look for known vulnerabilities; VULN_REQUIRED=1: fail where the database cannot be asked
	@GO="$(GO)" tools/vuln.sh

.PHONY: fmt
fmt: ## format the code: gofumpt, and imports in groups
	$(GOLANGCI) fmt ./...
	@set -e; for dir in $(MODULES); do (cd $$dir && $(GOLANGCI) fmt --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: bench
bench: setup ## run the benchmarks (BENCH=., COUNT=1); see bench/README.md
	cd bench && $(GO) test -run '^$$' -bench '$(BENCH)' -count $(COUNT) -timeout 60m .

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
