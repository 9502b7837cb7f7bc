# Each target is one plain command; `make -n target` shows it.

BENCH    ?= .
COUNT    ?= 6
BASE     ?= $(shell git merge-base HEAD origin/main 2>/dev/null)
FUZZTIME ?= 20s
SOAK     ?= 60s

GOLANGCI = go tool -modfile=tools/go.mod golangci-lint
GOSEC    = go tool -modfile=tools/go.mod gosec -quiet -exclude=G104 -exclude-dir=e2e \
	-nosec-require-rules -nosec-require-justification

.DEFAULT_GOAL := help
.PHONY: help build test race lint gosec vuln fmt fuzz soak bench bench-proxy detect-eval e2e demo ci

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/doomproxy
	go build -trimpath -o bin/doomproxy ./cmd/doomproxy

test: ## all tests
	go test ./...

race: ## all tests under the race detector
	go test -race ./...

lint: ## golangci-lint, at the version that tools/go.mod pins
	$(GOLANGCI) run

gosec: ## gosec, as .ci/check runs it
	$(GOSEC) ./...

vuln: ## govulncheck; it asks vuln.go.dev, so no part of ci
	go tool -modfile=tools/go.mod govulncheck ./...

fmt: ## format all code
	$(GOLANGCI) fmt

fuzz: ## each fuzz target for FUZZTIME (20s)
	FUZZTIME=$(FUZZTIME) .ci/check fuzz

soak: ## 500 streams at a time with loops, faults and cancels, for SOAK (60s)
	go test -count 1 -run '^TestSoak$$' -v ./proxy -soak $(SOAK)

bench: ## benchmarks that match BENCH (all), COUNT (6) times, compared with BASE
	bench/compare '$(BASE)' '$(BENCH)' '$(COUNT)'

bench-proxy: ## doomproxy beside other proxies, in one run of some twenty minutes
	go run ./bench

detect-eval: ## what the loop detector finds, flags and costs, on this machine's text
	go run ./detect/eval

e2e: ## real agents and client libraries, which it installs
	.ci/e2e

demo: ## a loop, its cut and the recovery, in one process
	go run ./cmd/doomproxy demo

ci: ## all that a change must pass
	.ci/run
