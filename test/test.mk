# SPDX-License-Identifier: BSD-3-Clause
# Targets for tests; included by the Makefile. Unit tests link only the room they test and those below it.
UNIT_SRC := $(sort $(wildcard test/unit/test_*.c))
UNIT_BIN := $(UNIT_SRC:test/unit/%.c=$(O)/unit/%)
FAKES := $(patsubst %.c,$(O)/%.o,$(sort $(wildcard test/fake/*.c)))

# test_<room>_<file>: the room, and every room before it, last first for the linker
rooms_upto = $(if $(filter $(1),$(firstword $(2))),$(firstword $(2)),$(firstword $(2)) $(call rooms_upto,$(1),$(wordlist 2,99,$(2))))
reverse = $(if $(1),$(call reverse,$(wordlist 2,99,$(1))) $(firstword $(1)))
unit_room = $(word 2,$(subst _, ,$(notdir $(1))))
unit_libs = $(foreach r,$(call reverse,$(call rooms_upto,$(call unit_room,$(1)),$(ROOMS))),$(call room_lib,$(r)))

.SECONDEXPANSION:
$(O)/unit/%: $(O)/test/unit/%.o $(FAKES) $$(call unit_libs,$$*)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(FAKES) $(call unit_libs,$*) $(LDLIBS) -lcmocka

unit: $(UNIT_BIN)
	$(Q)set -e; for t in $^; do $$t; done

.PHONY: unit
-include $(UNIT_SRC:%.c=$(O)/%.d) $(FAKES:.o=.d)
-include test/bench/bench.mk
