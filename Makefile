# Every target works on a fresh Debian or Ubuntu with Go: it first installs what
# it needs, see scripts/setup.

GO          := $(shell command -v go || echo /usr/local/go/bin/go)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
export PATH := $(dir $(GO)):$(PATH)

# The ranks may be more than the cores, and Open MPI refuses root by default.
MPIRUN := mpirun --oversubscribe $(if $(filter 0,$(shell id -u)),--allow-run-as-root)

# Packages for the race detector, and those of which some tests differ with MPI: those that
# start ranks by mpirun or as processes, and those of MPI as a peer and as a launcher. (TestMPI
# builds with MPI itself.)
RACE_PKGS ?= ./...
MPI_PKGS  ?= ./comm/bootstrap ./collectives ./examples/allreduce ./bench/internal/harness ./bench/perf ./bench/ring ./bench/tree
MPI_TESTS ?= Mpirun|TestRuns/mpirun|TestSameBits/mpirun|TestWeftRun|FabricProcesses|TestProcesses|Peer|Sources|PMIx
TESTFLAGS ?=

# What the soak counts is added to this file, as lines of JSON.
SOAK_RESULTS ?=

# How long ranks compete in make fairness, and the file for what comes of it.
FAIRNESS_TIME    ?= 10m
FAIRNESS_RESULTS ?=

# The sets of instructions below the best, which all other runs have. (The tests
# that hold each of them against plain Go are in all runs.)
TIERS     ?= go avx2

.PHONY: help setup build demo test bench model soak fairness asm kernels lint clean

help:
	@echo 'make demo    train a network on 4 ranks, started by mpirun'
	@echo 'make test    run all tests'
	@echo 'make bench   run all benchmarks, ours and the peers'"'"', and draw the pictures'
	@echo 'make model   check the rules of exactly once by all interleavings, further than the tests do'
	@echo 'make soak    a million collectives on a fabric that fails, SOAK_RESULTS=FILE for its counts'
	@echo 'make fairness 8 ranks make mixed calls for 10 minutes, FAIRNESS_RESULTS=FILE for what each got'
	@echo 'make asm     generate the vector kernels'
	@echo 'make kernels compile the CUDA kernels'
	@echo 'make lint    check formatting, vet, staticcheck, import direction'
	@echo 'make build   build the programs into bin/'
	@echo 'make setup   install what building needs (the others do it too)'
	@echo 'make clean   remove bin/'

setup:
	@scripts/setup

build: setup
	$(GO) build -o bin/ ./cmd/...
	$(GO) build -tags mpi -o bin/ ./examples/...

demo: build
	$(MPIRUN) -np 4 bin/allreduce </dev/null

test: setup
	$(GO) vet ./...
	$(GO) vet -tags mpi ./...
	$(GO) build -tags mpi ./...
	scripts/gotest $(TESTFLAGS) ./...
	scripts/gotest -tags mpi $(TESTFLAGS) -run '$(MPI_TESTS)' $(MPI_PKGS)
	scripts/gotest -tags rules $(TESTFLAGS) -run Without ./transport/progress
	$(GO) vet -tags noasm ./kernels
	scripts/gotest -tags noasm $(TESTFLAGS) ./kernels
	for tier in $(TIERS); do \
		WEFT_KERNELS=$$tier scripts/gotest $(TESTFLAGS) -run Reduce ./kernels || exit 1; \
	done
	scripts/gotest -race $(TESTFLAGS) $(RACE_PKGS)

bench: setup
	bench/run $(BENCHFLAGS)

model: setup
	$(GO) test -count=1 -timeout 20m ./transport/progress/lane -deep

soak: setup
	$(GO) test -count=1 -timeout 60m ./transport/progress -run Faults -soak 15
	$(GO) test -count=1 -timeout 60m -tags rules ./transport/progress -run Without
	WEFT_TEST_LONG=1 WEFT_TEST_RESULTS=$(abspath $(SOAK_RESULTS)) \
		scripts/gotest -count=1 -timeout 120m -run Fabric ./collectives

fairness: setup
	$(GO) build -o bin/ ./cmd/weft ./bench/fairness
	bin/weft run -n 8 -- bin/fairness -d $(FAIRNESS_TIME) -ratio 3 -stall 2s $(if $(FAIRNESS_RESULTS),-json $(abspath $(FAIRNESS_RESULTS)))

asm: setup
	cd kernels/gen && $(GO) run . -dir ..

kernels: setup
	scripts/cuda-kernels

lint: setup
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || \
		{ echo "not formatted:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags mpi ./...
	$(GO) vet -tags rules ./transport/progress/...
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(STATICCHECK) -tags mpi ./...
	$(GO) run ./internal/tools/importcheck "" mpi
	scripts/asm-check
	scripts/cuda-kernels -check

clean:
	rm -rf bin
