# SPDX-License-Identifier: BSD-3-Clause
# Targets for tests; included by the Makefile. Unit tests link only the room they test and those below it.
#   lint, unit, sim, link, fuzz-corpus   no privileges; together: quick
#   sim-long   random conversations until SIM_EVENTS events
#   fuzz       libFuzzer, FUZZ_SECS seconds for each target (needs clang)
#   netns      namespaces on a real kernel, against PASTA (default ./pasta); needs root or sudo; NETNS_ARGS="-k NAME"
#   check      everything
PASTA ?= ./pasta
FUZZ_SECS ?= 5
SIM_EVENTS ?= 2000000
# Namespace tests at the same time: twice as many as two cores, for most of their time they wait.
NETNS_JOBS ?= 4
CLANG ?= clang
# The packaged pytest and scapy belong to the system's interpreter, whatever python3 comes first in PATH.
PYTEST ?= /usr/bin/python3 -m pytest
LINTS := $(sort $(wildcard test/lint/check-*))

UNIT_SRC := $(sort $(wildcard test/unit/test_*.c))
UNIT_BIN := $(UNIT_SRC:test/unit/%.c=$(O)/unit/%)
FAKES := $(patsubst %.c,$(O)/%.o,$(sort $(wildcard test/fake/*.c)))

# A simulation is a program test/sim/test_<what>.c; other C files there are linked into each of them.
SIM_SRC := $(sort $(wildcard test/sim/test_*.c))
SIM_BIN := $(SIM_SRC:test/sim/%.c=$(O)/sim/%)
SIM_AID := $(patsubst %.c,$(O)/%.o,$(sort $(filter-out $(SIM_SRC),$(wildcard test/sim/*.c))))

# A fuzz target is test/fuzz/fuzz_<what>.c with its corpus in test/fuzz/corpus/<what>/.
FUZZ_SRC := $(sort $(wildcard test/fuzz/fuzz_*.c))
FUZZ_BIN := $(FUZZ_SRC:test/fuzz/fuzz_%.c=$(O)/fuzz/%)
FUZZ_MAIN := $(if $(FUZZER),,$(O)/test/fuzz/replay_main.o)
override CFLAGS += $(if $(FUZZER),-fsanitize=fuzzer-no-link)

$(O)/test/%.o: override CPPFLAGS += -Itest

# test_<room>_<file>: the room, and every room before it, last first for the linker
rooms_upto = $(if $(filter $(1),$(firstword $(2))),$(firstword $(2)),$(firstword $(2)) $(call rooms_upto,$(1),$(wordlist 2,99,$(2))))
reverse = $(if $(1),$(call reverse,$(wordlist 2,99,$(1))) $(firstword $(1)))
unit_room = $(word 2,$(subst _, ,$(notdir $(1))))
unit_libs = $(foreach r,$(call reverse,$(call rooms_upto,$(call unit_room,$(1)),$(ROOMS))),$(call room_lib,$(r)))
# Simulations see the pure rooms, fuzz targets each room that a test can link (app has main).
sim_libs := $(foreach r,$(call reverse,$(call rooms_upto,path,$(ROOMS))),$(call room_lib,$(r)))
fuzz_libs := $(foreach r,$(call reverse,$(filter-out app,$(ROOMS))),$(call room_lib,$(r)))

.SECONDEXPANSION:
$(O)/unit/%: $(O)/test/unit/%.o $(FAKES) $$(call unit_libs,$$*)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(FAKES) $(call unit_libs,$*) $(LDLIBS) -lcmocka

$(O)/sim/%: $(O)/test/sim/%.o $(SIM_AID) $(FAKES) $(sim_libs)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(SIM_AID) $(FAKES) $(sim_libs) $(LDLIBS) -lcmocka

$(O)/fuzz/%: $(O)/test/fuzz/fuzz_%.o $(FUZZ_MAIN) $(FAKES) $(fuzz_libs)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(if $(FUZZER),-fsanitize=fuzzer) -o $@ $< $(FUZZ_MAIN) $(FAKES) $(fuzz_libs) $(LDLIBS)

# Every lint runs, so that one run shows everything; sizes and names are about the ordinary build.
lint: $(OBJ)
	$(Q)failed=0; for l in $(LINTS); do CC="$(CC)" $$l . $(O) || failed=1; done; \
		test/lint/selftest || failed=1; \
		[ $$failed = 0 ] && echo "lint: $(words $(LINTS)) lints passed"

unit: $(UNIT_BIN)
	$(Q)set -e; for t in $^; do $$t; done

sim: $(SIM_BIN)
	$(Q)set -e; for t in $^; do $$t; done

# More than a million events, of other conversations than those of sim
sim-long: $(O)/sim/test_model
	$(Q)SIM_BASE=1000000 SIM_EVENTS=$(SIM_EVENTS) $<

fuzz-corpus: $(FUZZ_BIN)
	$(Q)set -e; for t in $^; do test/fuzz/replay $$t test/fuzz/corpus/$${t##*/}; done

# libFuzzer needs every room built with its counters: a build folder of its own.
fuzz: fuzz-corpus
	$(Q)if ! test/fuzz/have-libfuzzer $(CLANG); then \
		echo "fuzz: $(CLANG) cannot link libFuzzer (packages clang, libclang-rt-*-dev): only the corpus was replayed"; \
	else \
		$(MAKE) --no-print-directory O=$(O)-fuzz CC=$(CLANG) SAN=1 FUZZER=1 CFLAGS="-O1 -g" fuzz-bin && \
		test/fuzz/run $(O)-fuzz $(FUZZ_SECS); \
	fi

fuzz-bin: $(FUZZ_BIN)

quick: lint unit sim link fuzz-corpus

# The labs are built as root; the program in them runs as an ordinary user.
netns: all
	$(Q)sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo env PASTA="$(abspath $(PASTA))" $(PYTEST) -q -n $(NETNS_JOBS) $(NETNS_ARGS) test/netns

# One after the other, whatever -j says: the namespace tests measure time.
check:
	$(Q)$(MAKE) --no-print-directory quick
	$(Q)$(MAKE) --no-print-directory sim-long
	$(Q)$(MAKE) --no-print-directory SAN=1 O=$(O)-san unit sim link fuzz-corpus
	$(Q)$(MAKE) --no-print-directory fuzz
	$(Q)$(MAKE) --no-print-directory netns
	$(Q)$(MAKE) --no-print-directory SAN=1 O=$(O)-san $(O)-san/pasta
	$(Q)$(MAKE) --no-print-directory netns PASTA=$(O)-san/pasta
	@echo "check: everything passed"

try: all
	$(Q)PASTA="$(PASTA)" contrib/try-run

.PHONY: lint unit sim sim-long fuzz fuzz-bin fuzz-corpus quick netns check try
# To be kept, although only pattern rules name them. Not for all targets: make would then not miss build-san/pasta behind ./pasta.
.SECONDARY: $(patsubst %.c,$(O)/%.o,$(UNIT_SRC) $(SIM_SRC) $(FUZZ_SRC))
-include $(UNIT_SRC:%.c=$(O)/%.d) $(SIM_SRC:%.c=$(O)/%.d) $(FUZZ_SRC:%.c=$(O)/%.d) $(FAKES:.o=.d) $(SIM_AID:.o=.d) $(FUZZ_MAIN:.o=.d)
-include test/bench/bench.mk
include test/link/link.mk
