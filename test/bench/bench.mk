# SPDX-License-Identifier: BSD-3-Clause
# make bench         figures of our program beside reference versions and two yardsticks, into $(O)/bench; test/bench/README.md explains
# make bench-stall   many transfers each way: does one of them stall?
# make bench-fair    round trips beside bulk flows: does anything starve?
# make bench-start   how long a start takes, beside the reference versions
# make bench-peek    our program with and without peek offsets: throughput, processor time and system calls for each GB
# All need root. Variables, for example  make bench BENCH_ROUNDS=1 BENCH_SECS=1 BENCH_ONLY=rr,out4_send BENCH_PROFILES=mtu1500-bbr
#   BENCH_ROUNDS BENCH_SECS   rounds, and seconds of each run          BENCH_ONLY   names of tests (bench, bench-peek) or sets (bench-stall)
#   BENCH_PROFILES            default-cubic mtu1500-cubic default-bbr mtu1500-bbr
#   BENCH_OURS                our program as NAME=PATH[,OPTION...] words, more than one to compare its options:
#                             BENCH_OURS='ours=./pasta ours-nogso=./pasta,--no-tap-gso'
#   BENCH_SUITES              Debian suites whose version is the reference   BENCH_PEERS   where they are unpacked
#   BENCH_FLAGS               more options for sidebyside or stall, such as --prof ours
BENCH_ROUNDS ?= 3
BENCH_SECS ?= 2
BENCH_ONLY ?=
BENCH_PROFILES ?= default-cubic mtu1500-cubic default-bbr mtu1500-bbr
BENCH_OURS ?= ours=./pasta
BENCH_SUITES ?= bookworm trixie forky
BENCH_PEERS ?= $(O)/peers
BENCH_FLAGS ?=

# Built from our tree only when it is what gets measured
bench_needs := $(if $(findstring =./pasta,$(BENCH_OURS)),pasta)

$(O)/bench/%: test/bench/%.c
	@mkdir -p $(@D)
	@echo "  CC    $@"
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) -O2 -g -pthread -o $@ $<

# A profile's name is MTU-CONGESTION; each is one interleaved run. A profile that cannot run does not keep the others from running.
bench: $(bench_needs) $(O)/bench/nb $(O)/bench/floor
	$(Q)peers=$$(test/bench/peers $(BENCH_PEERS) $(BENCH_SUITES)) || exit 1; rc=0; \
	for p in $(BENCH_PROFILES); do \
		mtu=$${p%-*}; mtu=$${mtu#mtu}; [ $$mtu != default ] || mtu=0; \
		echo; echo "== $$p"; \
		test/bench/sidebyside --nb $(O)/bench/nb --floor $(O)/bench/floor --rounds $(BENCH_ROUNDS) --secs $(BENCH_SECS) \
			--only '$(BENCH_ONLY)' --mtu $$mtu --cc $${p##*-} --out $(O)/bench/$$p $(BENCH_FLAGS) \
			$$peers $(BENCH_OURS) veth floor || rc=$$?; \
		[ $$rc -lt 128 ] || exit $$rc; \
	done; exit $$rc

bench-stall: $(bench_needs) $(O)/bench/nb
	$(Q)test/bench/stall --nb $(O)/bench/nb --only '$(BENCH_ONLY)' --out $(O)/bench/stall $(BENCH_FLAGS) $(BENCH_OURS)

bench-fair: $(bench_needs) $(O)/bench/nb
	$(Q)peers=$$(test/bench/peers $(BENCH_PEERS) $(BENCH_SUITES)) || exit 1; \
	test/bench/fair --nb $(O)/bench/nb --rounds $(BENCH_ROUNDS) --secs $(BENCH_SECS) --out $(O)/bench/fair $(BENCH_FLAGS) \
		$$peers $(BENCH_OURS) veth

bench-start: $(bench_needs) $(O)/bench/nb
	$(Q)peers=$$(test/bench/peers $(BENCH_PEERS) $(BENCH_SUITES)) || exit 1; \
	test/bench/start --nb $(O)/bench/nb --out $(O)/bench/start $(BENCH_FLAGS) $$peers $(BENCH_OURS)

bench-peek: pasta $(O)/bench/nb
	$(Q)test/bench/peek --nb $(O)/bench/nb --rounds $(BENCH_ROUNDS) --secs $(BENCH_SECS) --only '$(BENCH_ONLY)' \
		--out $(O)/bench/peek $(BENCH_FLAGS) ./pasta

.PHONY: bench bench-stall bench-fair bench-start bench-peek
