/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as messages of sock_diag: what is taken has a port, is counted, and claims only what its family can have.
 */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/diag.h"
#include "host/nl_data.h"

static void must(int ok)
{
	if (!ok)
		abort();
}

static void parse(const void *data, size_t size, enum sk_proto proto, bool v6)
{
	struct diag_socks l = { .v = NULL };
	const struct nlmsghdr *nlh;
	size_t at = 0;

	while ((nlh = nl_msg_next(data, size, &at))) {
		const unsigned before = l.cnt;
		const int r = diag_parse(nlh, proto, v6, &l);

		must(r == 0 || r == -EBADMSG);
		must(l.cnt == before || (!r && l.cnt == before + 1));
	}
	for (unsigned i = 0; i < l.cnt; i++) {
		must(l.v[i].port && l.v[i].proto == proto);
		must(v6 || inaddr_is_v4(&l.v[i].addr));
		must(!l.v[i].both || (v6 && inaddr_is_unset(&l.v[i].addr)));
	}
	nl_list_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void *copy = malloc(size ? size : 1);	/* aligned as the kernel's answers are, and no byte longer than the input */

	must(copy != NULL);
	memcpy(copy, data, size);
	for (int i = 0; i < 4; i++)
		parse(copy, size, i & 1 ? SK_UDP : SK_TCP, i & 2);
	free(copy);
	return 0;
}
