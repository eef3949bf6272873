SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Every module of the repository.
MODULES := $(sort $(patsubst %/go.mod,%,$(shell find . \( -name '.?*' -o -name testdata -o -name node_modules \) -prune -o -name go.mod -print)))
# SKIP=./bench leaves modules out of test and lint. UNRACED lists modules that are tested without the
# race detector, in addition to those in PLAIN.
SKIP    ?=
UNRACED ?=
NESTED  := $(filter-out . $(SKIP),$(MODULES))

# The race detector needs cgo, and cgo a C compiler; `make test RACE=` does without.
RACE     ?= $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)
# These modules are tested without it: they start no goroutines, or they test something outside
# the program, such as peers (bench) or the page (tests/browser), or something that is tested with
# the race detector in its own package, such as streamer (tests/clients) and openai
# (tests/recordings).
PLAIN    := ./bench ./snapshot/storekit/sqlitestore ./tests/browser ./tests/clients ./tests/recordings ./tests/types ./tools $(UNRACED)
FUZZTIME ?= 10s
FUZZPART ?= 1/1
LINT     := $(CURDIR)/.bin/golangci-lint

.PHONY: help test lint vet fmt tidy bench fuzz cover tools clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

test: ## Test every module, with the race detector where anything is concurrent
	@$(if $(RACE),,echo "test: no race detector$(if $(filter 0,$(shell go env CGO_ENABLED)), (cgo is off: is there a C compiler?))")
	@tools/test.sh "$(RACE)" "$(PLAIN)" . $(NESTED)

# The linter compiles all packages and tests. With the flags of `make test`, it finds them in the
# build cache.
lint: $(LINT) ## Formatting, tidy modules and golangci-lint in every module
	@tools/lint.sh "$(RACE)" "$(PLAIN)" "$(LINT) run --config $(CURDIR)/.golangci.yml ./..." . $(NESTED)

vet: ## The same with go vet in place of golangci-lint
	@tools/lint.sh "$(RACE)" "$(PLAIN)" "go vet ./..." . $(NESTED)

fmt: $(LINT) ## Format every Go file
	@for m in . $(NESTED); do ( cd $$m && $(LINT) fmt --config $(CURDIR)/.golangci.yml ./... ); done

tidy: ## go mod tidy in every module
	@for m in $(MODULES); do echo "--- go mod tidy $$m"; ( cd $$m && go mod tidy ); done

bench: ## Measure Reprise beside its peers (the module bench/)
	@cd bench && go run .

fuzz: ## Run every Fuzz function for FUZZTIME (10s), or those of FUZZPART (as 2/4)
	@tools/fuzz.sh $(FUZZTIME) $(FUZZPART)

cover: ## Coverage of all packages by all tests, as .cover/cover.html
	@mkdir -p .cover
	@go test -coverpkg=./... -coverprofile=.cover/cover.out ./...
	@go tool cover -html=.cover/cover.out -o .cover/cover.html
	@go tool cover -func=.cover/cover.out | tail -n 1

tools: $(LINT) ## Build golangci-lint and benchstat into .bin/

# Rebuilt when the versions in tools/ change.
$(LINT) .bin/benchstat &: tools/go.mod tools/go.sum
	@echo "--- building the tools (a minute or two from a cold cache)"
	@mkdir -p .bin
	@cd tools && go mod download && go build -buildvcs=false -o ../.bin/ tool
	@touch .bin/golangci-lint .bin/benchstat

clean: ## Remove .bin/ and .cover/
	@rm -rf .bin .cover
