# SPDX-License-Identifier: BSD-3-Clause
# make            build pasta and passt          make check   everything: lint, tests, sanitizers, fuzz
# make quick      no privileges, under a minute  make bench   figures against other programs
# make try        a connected namespace          make install DESTDIR= PREFIX=/usr/local
# O=DIR build folder, V=1 show commands, SAN=1 address and undefined-behaviour sanitizers
VERSION := 0.1
SAN ?= 0
O ?= $(if $(filter 1,$(SAN)),build-san,build)
Q := $(if $(V),,@)
CC ?= cc
PREFIX ?= /usr/local

# The rooms, in order: a room may use those before it (test/lint/layers has the exact table).
ROOMS := base wire port flow proto path l2 host ev conf box app

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wswitch-enum -Wvla -Werror
CFLAGS ?= -O2 -g
override CFLAGS += -std=gnu11 $(WARN) $(if $(filter 1,$(SAN)),-fsanitize=address -fsanitize=undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
override CPPFLAGS += -D_GNU_SOURCE -DGEMELLI_VERSION='"$(VERSION)"' -Iinclude
override LDFLAGS += $(if $(filter 1,$(SAN)),-fsanitize=address -fsanitize=undefined)
LDLIBS := -lmnl -lcap-ng

SRC := $(sort $(wildcard src/*/*.c src/*/*/*.c))
OBJ := $(SRC:%.c=$(O)/%.o)
room_obj = $(patsubst %.c,$(O)/%.o,$(sort $(wildcard src/$(1)/*.c src/$(1)/*/*.c)))
room_lib = $(O)/lib$(1).a

all: pasta passt

pasta: $(O)/pasta
	$(Q)ln -sf $< $@
passt: $(O)/pasta
	$(Q)ln -sf $< $@
ifneq ($(shell readlink pasta),$(O)/pasta)	# the other build, ordinary or SAN=1, came last
.PHONY: pasta passt
endif

$(O)/pasta: $(OBJ)
	@echo "  LD    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(OBJ) $(LDLIBS)

$(O)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

define room_rule
$(call room_lib,$(1)): $(call room_obj,$(1))
	@rm -f $$@ && mkdir -p $$(@D)
	$$(Q)$$(AR) rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room_rule,$(r))))

include test/test.mk

install: all
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(O)/pasta $(DESTDIR)$(PREFIX)/bin/pasta
	ln -sf pasta $(DESTDIR)$(PREFIX)/bin/passt

clean:
	rm -rf build build-san build-fuzz pasta passt

-include $(OBJ:.o=.d)
.PHONY: all install clean
