# SPDX-License-Identifier: Apache-2.0
#
# Short names for the builds in CMakePresets.json. `make help` lists them.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60

.PHONY: all check check-all asan tsan clang aarch64 fuzz bench compare coverage \
        docs format lint install clean help

# Two builds at once would only take turns on the cores.
.NOTPARALLEL:

all:  ## Build the library and the program in build/release
	cmake --preset release
	cmake --build --preset release \
	  --target lockstep lockstep_static lockstep_io lockstep_io_static \
	  lockstep_mpi lockstep_cli

check:  ## Build with warnings as errors and run every test once
	@$(MAKE) --no-print-directory test-dev

check-all: test-release asan clang  ## Tests: release, sanitizers, clang

asan: test-asan  ## Tests under AddressSanitizer and UBSan

tsan: test-tsan  ## Tests under ThreadSanitizer

clang: test-clang  ## Tests built with clang, warnings as errors

aarch64: test-aarch64  ## Tests for AArch64, in qemu (cmake/aarch64.cmake)

test-%:
	cmake --preset $*
	cmake --build --preset $*
	ctest --preset $*

coverage: test-coverage  ## Tests, then lines covered (needs gcovr)
	gcovr --root . --filter src/ --print-summary build/coverage

fuzz:  ## Run each libFuzzer target for FUZZ_SECONDS (60)
	cmake --preset fuzz
	cmake --build --preset fuzz
	@set -e; for target in build/fuzz/fuzz/*_fuzz; do \
	  noun=$$(basename "$$target" _fuzz); \
	  mkdir -p "build/fuzz/corpus/$$noun" "fuzz/corpus/$$noun"; \
	  echo "== $$noun"; \
	  "$$target" -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	    -artifact_prefix="build/fuzz/$$noun-" \
	    "build/fuzz/corpus/$$noun" "fuzz/corpus/$$noun"; \
	done

bench:  ## Build the benchmarks and run each one
	cmake --preset bench
	cmake --build --preset bench
	@set -e; for program in build/bench/bench/*; do \
	  echo "== $$(basename "$$program")"; "$$program"; \
	done

compare:  ## Time our steps against JAX, PyTorch and TensorFlow (from PyPI)
	bench/compare

docs:  ## Make the reference: web pages and pages of the manual
	cmake --preset release
	cmake --build --preset release --target docs
	@echo "build/release/share/doc/lockstep/reference/index.html"

format:  ## Format every C file with clang-format
	tools/format

lint:  ## Check the layers, the house rules and the format
	tools/lint
	tools/format --check

install: all docs  ## Install into $(DESTDIR)$(PREFIX)
	DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)" \
	  --strip
	@[ -n "$(DESTDIR)" ] || echo "Now run ldconfig as root, so that programs" \
	  "find the library in $(PREFIX); where that is none of its folders, set" \
	  "LD_LIBRARY_PATH."

clean:  ## Remove build/
	rm -rf build

help:  ## Say what each target does
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1|\2/p' Makefile | \
	  awk -F '|' '{ printf "%-18s %s\n", $$1, $$2 }'
