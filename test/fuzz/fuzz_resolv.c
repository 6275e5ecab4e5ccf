/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as a resolver file: what comes out is bounded, terminated and of the right family.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "host/resolv.h"

static void must(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct resolv r;
	unsigned i;

	resolv_parse((const char *)data, size, &r);
	must(r.v4_cnt <= RESOLV_SERVERS && r.v6_cnt <= RESOLV_SERVERS && r.search_cnt <= RESOLV_SEARCH);
	for (i = 0; i < r.v4_cnt; i++)
		must(inaddr_is_v4(&r.v4[i]) && inaddr_is_unicast(&r.v4[i]));
	for (i = 0; i < r.v6_cnt; i++)
		must(!inaddr_is_v4(&r.v6[i]) && inaddr_is_unicast(&r.v6[i]) && strnlen(r.v6_scope[i], RESOLV_SCOPE_LEN) < RESOLV_SCOPE_LEN);
	for (i = 0; i < r.search_cnt; i++)
		must(r.search[i][0] && strnlen(r.search[i], RESOLV_NAME_LEN) < RESOLV_NAME_LEN && !strpbrk(r.search[i], " \t\r\n#;"));
	return 0;
}
