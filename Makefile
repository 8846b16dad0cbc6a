# SPDX-License-Identifier: Apache-2.0
#
# Every task is one word; `make` alone lists them. The words only start CMake, Ninja, CTest and the scripts of tools/.

BUILD  ?= build
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
PORT   ?= 8080
PREFIX ?= /usr/local
# One test by its name: make test T=siphash
T      ?=

CONFIGURE = mkdir -p $(BUILD) && cmake -S . -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS) \
	>$(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help deps build run test fmt lint bench fuzz proof sim docs clean install package

help: ## list these words
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 18

deps: ## install what building, testing and linting need
	@tools/deps build run test lint docs

build: ## leaves the program in build/weir, the libraries beside it
	@tools/deps build
	@$(CONFIGURE)
	@ninja -C $(BUILD) -j $(JOBS) --quiet product

run: ## build, then serve examples/weir.yaml on 127.0.0.1:8080 (PORT=N for another port)
	@tools/deps build run
	@$(MAKE) --no-print-directory build
	@BUILD=$(BUILD) PORT=$(PORT) tools/run

test: ## build and run the whole test suite, or one test: make test T=NAME
	@tools/deps build test
	@$(CONFIGURE)
	@ninja -C $(BUILD) -j $(JOBS) --quiet
	@$(if $(T),ctest --test-dir $(BUILD) -N -R '^$(T)$$' | grep -q 'Total Tests: [1-9]' || { \
		echo "there is no test '$(T)'; these have it in their names (all: ctest --test-dir $(BUILD) -N):"; \
		ctest --test-dir $(BUILD) -N | sed -n 's/^ *Test *#[0-9]*: /  /p' | grep -F '$(T)'; exit 1; } >&2)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) --no-tests=error $(if $(T),-R '^$(T)$$')

fmt: ## format every C file
	@tools/deps lint
	@tools/lint --fix-format

lint: ## format, warnings of gcc and clang, include arrows, clang-tidy
	@tools/deps build test lint
	@tools/lint

bench: ## measure, and print each figure beside its bar (bench/README.md)
	@tools/deps build bench
	@bench/run

fuzz: ## run each fuzzer for FUZZ_SECONDS (60)
	@tools/deps build fuzz
	@tools/fuzz

proof: ## check the models of insertion, waiting, permits and leases with Spin, and that their mutants fail
	@tools/deps proof build
	@proof/run

sim: ## fleets in virtual time with every fault: SIM_SCHEDULES (100000) runs from SIM_SEED (1) on
	@tools/deps build test
	@$(CONFIGURE)
	@ninja -C $(BUILD) -j $(JOBS) --quiet test_sim_lease
	@SIM_SCHEDULES=$${SIM_SCHEDULES:-100000} $(BUILD)/test/test_sim_lease

docs: ## build the manual pages, check them and the links of the documents
	@tools/deps build docs
	@tools/docs

clean: ## remove everything that was built
	rm -rf build build-lint-* build-asan* build-tsan* build-fuzz* build-bench* build-package

install: build ## install below PREFIX (/usr/local), or below DESTDIR for packagers
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX) | sed 's/^-- //'

package: ## build the Debian packages weir, libweir0 and libweir-dev in build-package
	@tools/deps build docs package
	@tools/package build-package
