/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What connect() of host/sk.c makes of a guest's wishes, on real sockets over loopback: the SYN as the kernel sent it.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "ev/ev.h"
#include "host/sk.h"

#define IP6_LEN		40u
#define LEAST		88u		/* that Linux takes */

static struct ev *loop;
static struct sk_host host;

static int setup(void **state)
{
	const struct sk_host_settings none = { .no_peek_off = false };
	struct err e;

	(void)state;
	return ev_epoll_open(&loop, &e) || sk_host_open(&host, loop, &none, &e);
}

/* A listener that keeps the SYNs of its connections */
static int server(int af, struct sk_addr *ret)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(af, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr *sa = af == AF_INET ? (void *)&v4 : (void *)&v6;
	socklen_t len = af == AF_INET ? sizeof(v4) : sizeof(v6);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on)), 0);
	assert_int_equal(bind(fd, sa, len), 0);
	assert_int_equal(listen(fd, 10), 0);
	assert_int_equal(getsockname(fd, sa, &len), 0);
	*ret = (struct sk_addr){ .a = inaddr_loopback(af == AF_INET), .port = ntohs(af == AF_INET ? v4.sin_port : v6.sin6_port) };
	return fd;
}

/* The MSS option of an IP packet with a SYN, 0: none */
static unsigned mss_of(const uint8_t *p, size_t len)
{
	const uint8_t *o = p + (p[0] >> 4 == 4 ? (p[0] & 15u) * 4 : IP6_LEN) + sizeof(struct tcphdr);

	for (; o + 4 <= p + len && *o != TCPOPT_EOL; o += *o == TCPOPT_NOP ? 1 : BYTES_MAX(o[1], 1))
		if (*o == TCPOPT_MAXSEG)
			return bytes_get16(o + 2);
	return 0;
}

static void mss(int af)
{
	static const struct { uint16_t wish; unsigned syn; } rows[] = { { 1220, 1220 }, { 536, 536 }, { LEAST, LEAST }, { 48, LEAST } };
	static const struct inaddr any;
	struct sk *sk = &host.sk;
	struct sk_addr to;
	int srv = server(af, &to);

	for (unsigned i = 0; i <= BYTES_COUNT(rows); i++) {
		const struct sk_syn syn = { .mss = i < BYTES_COUNT(rows) ? rows[i].wish : 0 };
		int h = sk->ops->connect(sk, (struct ev_ref){ 0 }, &to, &any, syn), fd, seg = 0;
		uint8_t packet[256];
		socklen_t len = sizeof(packet), seg_len = sizeof(seg);

		assert_true(h >= 0);
		fd = accept(srv, NULL, NULL);
		assert_true(fd >= 0);
		assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, packet, &len), 0);
		assert_int_equal(getsockopt(h, IPPROTO_TCP, TCP_MAXSEG, &seg, &seg_len), 0);
		if (i < BYTES_COUNT(rows)) {
			assert_int_equal(mss_of(packet, len), rows[i].syn);
			assert_true(seg <= (int)rows[i].syn);	/* what we send as well */
		} else {
			assert_true(mss_of(packet, len) > 1440);
		}
		close(fd);
		sk->ops->close(sk, h, SK_END_RESET);
	}
	close(srv);
}

static void test_mss_v4(void **state)
{
	(void)state;
	mss(AF_INET);
}

static void test_mss_v6(void **state)
{
	(void)state;
	mss(AF_INET6);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_mss_v4), cmocka_unit_test(test_mss_v6) };

	return cmocka_run_group_tests_name("host/sk connect", tests, setup, NULL);
}
