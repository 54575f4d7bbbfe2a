# Every target says in one line what it does; plain "make" prints them.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/countersign/countersign/pkg/daemon.version=$(VERSION)
PROGRAMS := ./cmd/countersign ./services/api ./services/continuer ./services/worker

.DEFAULT_GOAL := help
.PHONY: help dev test failpoints model lint build bench
.PHONY: nemesis nemesis-bugs without-nats

help: ## Print this list.
	@sed -n 's/^\([a-z-]*\): .*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r target text; do printf 'make %-12s %s\n' "$$target" "$$text"; done

dev: ## Run everything in one process with a demo; ARGS="--listen 127.0.0.1:9000" passes flags.
	@scripts/setup.sh postgres redis
	@go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/countersign
	bin/countersign dev $(ARGS)

test: ## Vet, check the format, and run every test under the race detector, on real servers.
	@scripts/setup.sh postgres redis compiler node python curl spin faketime pgbouncer chromium
	go vet ./...
	@unformatted=$$(gofmt -l $$(ls -d */ | grep -v node_modules)); if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go test -race -shuffle=on -count=1 -timeout=30m ./...

# What is about NATS itself: hints, signals in time, traces over it, and streams of chunks, which no row holds.
ABOUT_NATS := PublishedClients|WaysOfTheModelLoop|Hint|Stream|Signal|Trace|Measured|WorkerEndsWhatItHasBegun|Window|Chat|Readme|AuditIsLinked|ReachTheirSinks/a_JetStream

without-nats: ## Run the tests of the services with NATS switched off from the start; it takes longer.
	@scripts/setup.sh postgres redis
	COUNTERSIGN_TEST_WITHOUT_NATS=1 go test -count=1 -timeout=60m -skip '$(ABOUT_NATS)' ./services

failpoints: ## Play every fail point with every action; ARGS="-only ^run" plays some, "-update" writes their table.
	@scripts/setup.sh postgres redis
	go test ./test/failpoints -count=1 -timeout=60m -v -args -matrix $(ARGS)

model: ## Check the protocol's model and its seeded bugs with Spin, and every small world of the rules.
	@scripts/setup.sh compiler spin
	go test -count=1 -v -run 'TestSpin' ./docs/model
	go test -count=1 -v -run 'TestEveryReachableWorld|TestSeededBugs' ./pkg/model

lint: ## Run golangci-lint; the first time it is built, which takes minutes.
	go build -C tools/lint -o ../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	bin/golangci-lint run ./...

.PHONY: faults
faults: ## Run the tests of faults as long as docs/faults.md says, and those that mount a disk; needs root.
	@scripts/setup.sh postgres redis compiler faketime pgbouncer
	COUNTERSIGN_FAULTS_LONG=1 go test -race -tags mount -count=1 -timeout=60m -v ./test/faults

build: ## Build static programs into bin/.
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ $(PROGRAMS)

bench: ## Measure round trips per second beside the limit of this machine's Postgres; ARGS passes flags.
	@scripts/setup.sh postgres redis
	@go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/countersign
	bin/countersign bench $(ARGS)

nemesis: ## Torment a whole system for 5 minutes and check every invariant; SEED=random MINUTES=30 for another run.
	@scripts/setup.sh postgres redis
	go run ./test/nemesis $(if $(SEED),-seed $(SEED)) $(if $(MINUTES),-minutes $(MINUTES))

nemesis-bugs: ## Build each known bug in, and see that the same checks find it.
	@scripts/setup.sh postgres redis
	go run ./test/nemesis -bugs $(or $(BUG),all)
