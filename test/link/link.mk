# SPDX-License-Identifier: BSD-3-Clause
# testlink: a bad link between two network namespaces (testlink --help), for tests and for figures; link: its own test
LINK_SRC := test/link/link.c src/base/rng.c

$(O)/testlink $(O)/test_link: $(LINK_SRC) test/link/link.h include/base/rng.h
$(O)/testlink: test/link/testlink.c
	@mkdir -p $(@D)
	@echo "  CC    $@"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -Itest/link -o $@ $< $(LINK_SRC)

$(O)/test_link: test/link/test_link.c
	@mkdir -p $(@D)
	@echo "  CC    $@"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -Itest/link -o $@ $< $(LINK_SRC) -lcmocka

link: $(O)/testlink $(O)/test_link
	$(Q)$(O)/test_link

.PHONY: link
