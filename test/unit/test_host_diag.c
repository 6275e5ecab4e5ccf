/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who listens: messages of sock_diag to structs, the filter by ports as the kernel would run it, and the kernel itself.
 */
#include "host/diag.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/nl_data.h"

#define MSG_LEN	512

static struct nlmsghdr *msg(char *buf, int family, int state, const char *addr, uint16_t port)
{
	struct nlmsghdr *nlh;
	struct inet_diag_msg m = {
		.idiag_family = (uint8_t)family, .idiag_state = (uint8_t)state, .idiag_inode = 77,
		.id = { .idiag_sport = htons(port), .idiag_if = 3 },
	};
	struct inaddr a;

	assert_int_equal(inaddr_parse(addr, &a), 0);
	if (family == AF_INET)
		memcpy(m.id.idiag_src, a.b + 12, 4);
	else
		memcpy(m.id.idiag_src, a.b, 16);
	memset(buf, 0, MSG_LEN);
	nlh = mnl_nlmsg_put_header(buf);
	nlh->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	memcpy(mnl_nlmsg_put_extra_header(nlh, sizeof(m)), &m, sizeof(m));
	return nlh;
}

static void assert_sock(const struct diag_sock *s, const char *addr, uint16_t port, bool both)
{
	struct inaddr a;

	assert_int_equal(inaddr_parse(addr, &a), 0);
	assert_true(inaddr_eq(&s->addr, &a));
	assert_true(s->port == port && s->both == both && s->ifindex == 3 && s->inode == 77);
}

static void test_parse(void **state)
{
	char buf[MSG_LEN] __attribute__((aligned(8)));
	struct diag_socks l = { .v = NULL };
	struct nlmsghdr *nlh;

	(void)state;
	assert_int_equal(diag_parse(msg(buf, AF_INET, TCP_LISTEN, "127.0.0.53", 53), SK_TCP, false, &l), 0);
	assert_int_equal(diag_parse(msg(buf, AF_INET, TCP_CLOSE, "0.0.0.0", 123), SK_UDP, false, &l), 0);
	assert_int_equal(l.cnt, 2);
	assert_sock(&l.v[0], "127.0.0.53", 53, false);
	assert_sock(&l.v[1], "0.0.0.0", 123, false);
	assert_true(l.v[0].proto == SK_TCP && l.v[1].proto == SK_UDP);

	/* another family, another state, no port */
	assert_int_equal(diag_parse(msg(buf, AF_INET, TCP_LISTEN, "0.0.0.0", 53), SK_TCP, true, &l), 0);
	assert_int_equal(diag_parse(msg(buf, AF_INET6, TCP_LISTEN, "::", 53), SK_TCP, false, &l), 0);
	assert_int_equal(diag_parse(msg(buf, AF_INET, TCP_ESTABLISHED, "0.0.0.0", 53), SK_TCP, false, &l), 0);
	assert_int_equal(diag_parse(msg(buf, AF_INET, TCP_ESTABLISHED, "0.0.0.0", 53), SK_UDP, false, &l), 0);
	assert_int_equal(diag_parse(msg(buf, AF_INET, TCP_LISTEN, "0.0.0.0", 0), SK_TCP, false, &l), 0);
	nlh = msg(buf, AF_INET, TCP_LISTEN, "0.0.0.0", 53);
	nlh->nlmsg_type = NLMSG_DONE;
	assert_int_equal(diag_parse(nlh, SK_TCP, false, &l), 0);
	nlh = msg(buf, AF_INET, TCP_LISTEN, "0.0.0.0", 53);
	nlh->nlmsg_len--;
	assert_int_equal(diag_parse(nlh, SK_TCP, false, &l), -EBADMSG);
	assert_int_equal(l.cnt, 2);
	nl_list_free(&l);
}

/* An IPv6 wildcard serves IPv4 unless it says otherwise; an address of IPv6 never does, a mapped one is IPv4 */
static void test_both_families(void **state)
{
	static const struct {
		const char *addr;
		int v6only;		/* -1: not told, -2: a broken attribute */
		bool both;
	} table[] = {
		{ "::", 0, true }, { "::", 1, false }, { "::", -1, true }, { "::", -2, true }, { "::1", 0, false },
		{ "2001:db8::1", -1, false }, { "::ffff:0.0.0.0", 0, false }, { "::ffff:127.0.0.1", 0, false },
	};
	char buf[MSG_LEN] __attribute__((aligned(8)));
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct nlmsghdr *nlh = msg(buf, AF_INET6, TCP_LISTEN, table[i].addr, 80);
		struct diag_socks l = { .v = NULL };

		mnl_attr_put_u8(nlh, INET_DIAG_SHUTDOWN, 1);
		if (table[i].v6only >= 0)
			mnl_attr_put_u8(nlh, INET_DIAG_SKV6ONLY, (uint8_t)table[i].v6only);
		else if (table[i].v6only == -2)
			mnl_attr_put(nlh, INET_DIAG_SKV6ONLY, 0, NULL);
		assert_int_equal(diag_parse(nlh, SK_TCP, true, &l), 0);
		assert_int_equal(l.cnt, 1);
		assert_sock(&l.v[0], table[i].addr, 80, table[i].both);
		nl_list_free(&l);
	}
}

/* As the kernel does it (net/ipv4/inet_diag.c, by its effect): jumps to the end accept, beyond it reject */
static bool program_run(const uint32_t *w, unsigned words, uint16_t port)
{
	long left = (long)words * 4;

	while (left > 0) {
		struct inet_diag_bc_op op[2] = { { 0 } };
		bool yes = false;

		memcpy(op, w, left >= 8 ? 8 : 4);
		if (op[0].code == INET_DIAG_BC_S_GE)
			yes = port >= op[1].no;
		else if (op[0].code == INET_DIAG_BC_S_LE)
			yes = port <= op[1].no;
		else
			assert_int_equal(op[0].code, INET_DIAG_BC_JMP);
		left -= yes ? op[0].yes : op[0].no;
		w += (yes ? op[0].yes : op[0].no) / 4;
	}
	assert_true(left == 0 || left == -4);
	return left == 0;
}

static void test_program(void **state)
{
	static const struct diag_ports some[] = { { 61000, 65535 }, { 80, 80 }, { 1, 21 }, { 23, 32767 } };
	static uint32_t w[DIAG_PROGRAM_LEN];
	struct diag_ports most[DIAG_PORTS_MAX];
	unsigned n, port, i;

	(void)state;
	n = diag_program(some, 4, w);
	for (port = 0; port < 65536; port++)
		assert_int_equal(program_run(w, n, (uint16_t)port), (port && port <= 32767 && port != 22) || port >= 61000);
	n = diag_program(some, 1, w);
	assert_true(program_run(w, n, 61000) && program_run(w, n, 65535) && !program_run(w, n, 60999));
	for (i = 0; i < DIAG_PORTS_MAX; i++)
		most[i] = (struct diag_ports){ (uint16_t)(10 * i + 10), (uint16_t)(10 * i + 12) };
	n = diag_program(most, DIAG_PORTS_MAX, w);
	assert_true(n <= DIAG_PROGRAM_LEN);
	for (port = 0; port < 3000; port++)
		assert_int_equal(program_run(w, n, (uint16_t)port), port >= 10 && port < 2560 && port % 10 < 3);
}

struct bound {
	int fd;
	uint16_t port;
	uint32_t inode;
};

static struct bound bind_new(int family, int type, bool v6only)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a = { .sa.sa_family = (sa_family_t)family };
	struct bound b = { .fd = socket(family, type, 0) };
	socklen_t len = sizeof(a);
	const int on = v6only;
	struct stat st;

	assert_true(b.fd >= 0);
	if (family == AF_INET)
		a.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		setsockopt(b.fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	assert_int_equal(bind(b.fd, &a.sa, family == AF_INET ? sizeof(a.v4) : sizeof(a.v6)), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(b.fd, 1), 0);
	assert_int_equal(getsockname(b.fd, &a.sa, &len), 0);
	b.port = ntohs(family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
	assert_int_equal(fstat(b.fd, &st), 0);
	b.inode = (uint32_t)st.st_ino;
	return b;
}

static const struct diag_sock *find(const struct diag_socks *l, const struct bound *b)
{
	unsigned i;

	for (i = 0; i < l->cnt; i++)
		if (l->v[i].inode == b->inode)
			return &l->v[i];
	return NULL;
}

/* The kernel: what is bound is seen, by the inode of its descriptor; what is connected, closed or not asked for is not */
static void test_kernel(void **state)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct err e;
	struct diag *d;
	unsigned i, p;

	(void)state;
	assert_int_equal(diag_open(&d, &e), 0);
	for (i = 0; i < 2; i++) {
		for (p = 0; p < 2; p++) {
			const enum sk_proto proto = p ? SK_UDP : SK_TCP;
			struct bound b = bind_new(families[i], p ? SOCK_DGRAM : SOCK_STREAM, false);
			struct bound c = bind_new(families[i], p ? SOCK_DGRAM : SOCK_STREAM, true);
			const struct diag_ports only_b = { b.port, b.port }, all = { 1, 65535 };
			struct diag_socks l = { .v = NULL };
			const struct diag_sock *s;

			diag_ports(d, &all, 1);
			assert_int_equal(diag_dump(d, proto, i == 1, &l), 0);
			s = find(&l, &b);
			assert_non_null(s);
			assert_true(s->port == b.port && s->proto == proto && s->both == (i == 1) && !s->ifindex);
			assert_int_equal(inaddr_is_loopback(&s->addr), i == 0);
			assert_true(find(&l, &c) && !find(&l, &c)->both);
			l.cnt = 0;
			assert_int_equal(diag_dump(d, proto, i == 0, &l), 0);
			assert_null(find(&l, &b));
			l.cnt = 0;
			diag_ports(d, &only_b, 1);
			assert_int_equal(diag_dump(d, proto, i == 1, &l), 0);
			assert_true(find(&l, &b) && !find(&l, &c));
			close(b.fd);
			l.cnt = 0;
			assert_int_equal(diag_dump(d, proto, i == 1, &l), 0);
			assert_null(find(&l, &b));
			close(c.fd);
			nl_list_free(&l);
		}
	}
	diag_close(d);
}

/* Answers in several parts, and the longest question */
static void test_kernel_many(void **state)
{
	struct diag_ports most[DIAG_PORTS_MAX];
	struct diag_socks l = { .v = NULL };
	struct bound b[700];
	struct diag *d;
	struct err e;
	unsigned i, n = 0;

	(void)state;
	for (i = 0; i < DIAG_PORTS_MAX; i++)
		most[i] = (struct diag_ports){ (uint16_t)(i * 257 + 1), (uint16_t)(i * 257 + 257) };
	assert_int_equal(diag_open(&d, &e), 0);
	diag_ports(d, most, DIAG_PORTS_MAX);
	for (i = 0; i < 700; i++)
		b[i] = bind_new(AF_INET, SOCK_STREAM, false);
	assert_int_equal(diag_dump(d, SK_TCP, false, &l), 0);
	for (i = 0; i < 700; i++)
		n += !!find(&l, &b[i]);
	assert_int_equal(n, 700);
	for (i = 0; i < 700; i++)
		close(b[i].fd);
	nl_list_free(&l);
	diag_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_both_families),
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_kernel_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
