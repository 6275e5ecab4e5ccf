/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command `sk` of scenario files: the host's kernel and the peer of the
 * present connection. Events are delivered as the kernel would report them.
 */
#include "scn.h"

static const struct { const char *name; int code; } scn_errno[] = {
	{ "ECONNREFUSED", ECONNREFUSED }, { "ECONNRESET", ECONNRESET }, { "ETIMEDOUT", ETIMEDOUT }, { "EPIPE", EPIPE }, { "EINTR", EINTR },
	{ "EHOSTUNREACH", EHOSTUNREACH }, { "ENETUNREACH", ENETUNREACH }, { "EMFILE", EMFILE }, { "EACCES", EACCES }, { "EPERM", EPERM },
	{ "EINVAL", EINVAL }, { "EADDRNOTAVAIL", EADDRNOTAVAIL }, { "ENOPROTOOPT", ENOPROTOOPT }, { "EHOSTDOWN", EHOSTDOWN }, { "ENONET", ENONET }, { "EAGAIN", EAGAIN },
	{ "none", 0 },
};

static int scn_code(struct scn *s)
{
	const char *text = scn_next(s);

	for (size_t i = 0; i < BYTES_COUNT(scn_errno); i++)
		if (!strcmp(scn_errno[i].name, text))
			return scn_errno[i].code;
	scn_fail(s, "no error is called '%s' here", text);
}

/* The connection's socket, open or not any more */
static struct fake_sk_sock *scn_sock(struct scn *s)
{
	struct scn_conn *c = s->c;

	if (!c->handle_known) {
		struct flow_key key = world_key(&s->w, c->guest_port, 80);
		struct flow *f = flow_find(&s->w.flows, &key);

		if (!f || f->h < 0)
			scn_fail(s, "the connection has no socket");
		c->h = f->h;
		c->handle_known = true;
	}
	return &s->w.sk.s[c->h];
}

static void scn_event(struct scn *s, uint32_t mask)
{
	struct fake_sk_sock *k = scn_sock(s);

	if (!k->watched)
		scn_fail(s, "the socket's events are not watched");
	scn_quiet(s);
	world_forget(&s->w);
	if (mask & EV_OUT)
		k->armed = false;
	world_event(&s->w, k->ref, mask);
}

/* peer-class N: traffic class of those that connect from now on */
static void sk_peer_class(struct scn *s)
{
	s->w.sk.peer_tos = (uint8_t)scn_num(s, scn_next(s));
}

/* The host accepted a connection from far port 80 to the guest's port */
static void sk_accept(struct scn *s)
{
	struct flow_key key = world_key(&s->w, s->c->guest_port, 80);
	struct tcp_incoming in = { .peer = { .a = key.far, .port = 80 }, .port = s->c->guest_port };

	scn_quiet(s);
	s->c->h = fake_sk_accepted(&s->w.sk);
	s->c->handle_known = true;
	tcp_accepted(&s->w.path.p, s->c->h, &in);
}

static void sk_connected(struct scn *s)
{
	struct fake_sk_sock *k = scn_sock(s);

	k->result = 0;
	scn_event(s, EV_OUT | (k->rx.len ? EV_IN : 0) | (k->eof ? EV_IN | EV_RDHUP : 0));
}

static void sk_refused(struct scn *s)
{
	scn_sock(s)->result = -scn_code(s);
	scn_event(s, EV_OUT | EV_ERR | EV_HUP);
}

/* data N [silent]: the peer sends the next N bytes of its stream */
static void sk_data(struct scn *s)
{
	struct fake_sk_sock *k = scn_sock(s);
	uint32_t n = scn_num(s, scn_next(s));

	for (uint32_t i = 0; i < n; i++) {
		uint8_t b = world_byte(true, k->rx.len);

		fake_sk_feed(&s->w.sk, s->c->h, &b, 1);
	}
	if (scn_more(s) && !strcmp(s->tok[s->at], "silent"))
		s->at++;
	else
		scn_event(s, EV_IN);
}

static void sk_eof(struct scn *s)
{
	scn_sock(s)->eof = true;
	if (scn_more(s) && !strcmp(s->tok[s->at], "silent"))
		s->at++;
	else
		scn_event(s, EV_IN | EV_RDHUP);
}

static void sk_error(struct scn *s)
{
	scn_sock(s)->err = scn_code(s);
	if (scn_more(s) && !strcmp(s->tok[s->at], "silent"))
		s->at++;
	else
		scn_event(s, EV_IN | EV_OUT | EV_RDHUP | EV_ERR | EV_HUP);
}

static void sk_take(struct scn *s)
{
	const char *text = scn_next(s);

	scn_sock(s)->take = strcmp(text, "any") ? scn_num(s, text) : FAKE_SK_ANY;
}

/* take-once N: the next send takes this much, later ones as before */
static void sk_take_once(struct scn *s)
{
	scn_sock(s)->take_once = scn_num(s, scn_next(s));
}

/* room N [full]: what room() tells of this socket; full: not writable */
static void sk_room(struct scn *s)
{
	struct fake_sk_sock *k = scn_sock(s);

	k->room.free = scn_num(s, scn_next(s));
	k->room.writable = true;
	if (scn_more(s) && !strcmp(s->tok[s->at], "full")) {
		s->at++;
		k->room.writable = false;
	}
}

/* Room of sockets to come */
static void sk_first_room(struct scn *s)
{
	s->w.sk.room.free = scn_num(s, scn_next(s));
	if (scn_more(s) && !strcmp(s->tok[s->at], "full")) {
		s->at++;
		s->w.sk.room.writable = false;
	}
}

/* queued N: what the peer has not acknowledged */
static void sk_queued(struct scn *s)
{
	scn_sock(s)->room.queued = scn_num(s, scn_next(s));
}

static void sk_out(struct scn *s)
{
	scn_event(s, EV_OUT);
}

/* Urgent data is among what the peer sent */
static void sk_urgent(struct scn *s)
{
	scn_event(s, EV_IN | EV_PRI);
}

/* mark N: the byte N of what the peer sends is urgent */
static void sk_mark(struct scn *s)
{
	scn_sock(s)->mark = scn_num(s, scn_next(s)) - 1;
}

static void sk_hup(struct scn *s)
{
	scn_event(s, EV_OUT | EV_IN | EV_RDHUP | EV_HUP);
}

static void sk_err_event(struct scn *s)
{
	scn_event(s, EV_ERR);
}

/* An event with the reference of an earlier flow at this place */
static void sk_stale(struct scn *s)
{
	struct ev_ref ref = scn_sock(s)->ref;

	ref.gen = (ref.gen + 0xffffff) & 0xffffff;
	world_event(&s->w, ref, EV_IN | EV_ERR | EV_HUP);
	ref.gen = 0;
	ref.idx = 0xffffff;
	world_event(&s->w, ref, EV_IN | EV_ERR | EV_HUP);
}

/* The event of a socket that was closed */
static void sk_late(struct scn *s)
{
	world_event(&s->w, scn_sock(s)->ref, EV_IN | EV_OUT | EV_RDHUP | EV_ERR | EV_HUP);
}

static void sk_no_connect(struct scn *s)
{
	s->w.sk.connect_err = -scn_code(s);
}

static void sk_send_err(struct scn *s)
{
	scn_sock(s)->send_err = -scn_code(s);
}

static void sk_forget(struct scn *s)
{
	s->c->handle_known = false;
}

static void sk_peek_max(struct scn *s)
{
	scn_sock(s)->peek_max = scn_num(s, scn_next(s));
}

/* sent N: bytes that the kernel took, all of them right */
static void sk_sent(struct scn *s)
{
	const struct fake_sk_sock *k = scn_sock(s);
	uint32_t want = scn_num(s, scn_next(s));

	if (k->tx.len != want)
		scn_fail(s, "the kernel took %u bytes, not %u", k->tx.len, want);
	for (uint32_t i = 0; i < want; i++)
		if (k->tx.p[i] != world_byte(false, i))
			scn_fail(s, "byte %u to the peer is not that of the stream", i);
}

static void sk_is(struct scn *s)
{
	const struct fake_sk_sock *k = scn_sock(s);
	const char *what = scn_next(s);
	const char *is = k->open ? "open" : k->how == SK_END_RESET ? "reset" : "graceful";

	if (strcmp(what, is))
		scn_fail(s, "the socket is %s, not %s", is, what);
}

static void sk_count(struct scn *s)
{
	const struct fake_sk_sock *k = scn_sock(s);
	const char *what = scn_next(s);
	uint32_t got, want = scn_num(s, scn_next(s));

	if (!strcmp(what, "arms"))
		got = k->arms;
	else if (!strcmp(what, "sends"))
		got = k->sends;
	else if (!strcmp(what, "drops"))
		got = k->drops;
	else if (!strcmp(what, "dropped"))
		got = k->head;
	else if (!strcmp(what, "shuts"))
		got = k->shuts;
	else if (!strcmp(what, "urged"))
		got = k->urged;
	else if (!strcmp(what, "urged-at"))
		got = k->urged_at + 1;
	else if (!strcmp(what, "sets"))
		got = k->sets;
	else if (!strcmp(what, "class"))
		got = k->tos;
	else if (!strcmp(what, "mss"))
		got = k->mss;
	else if (!strcmp(what, "keepalive"))
		got = (uint32_t)(k->keep_alive + 1);
	else
		scn_fail(s, "'%s' is not counted", what);
	if (got != want)
		scn_fail(s, "%s: %u, not %u", what, got, want);
}

void scn_socket(struct scn *s)
{
	static const struct {
		const char *name;
		void (*fn)(struct scn *s);
	} cmd[] = {
		{ "accept", sk_accept }, { "connected", sk_connected }, { "refused", sk_refused }, { "data", sk_data },
		{ "eof", sk_eof }, { "error", sk_error }, { "take", sk_take }, { "take-once", sk_take_once }, { "room", sk_room }, { "first-room", sk_first_room },
		{ "out", sk_out }, { "hup", sk_hup }, { "err-event", sk_err_event }, { "stale", sk_stale }, { "late", sk_late },
		{ "no-connect", sk_no_connect }, { "send-error", sk_send_err }, { "forget", sk_forget }, { "sent", sk_sent },
		{ "is", sk_is }, { "count", sk_count }, { "peek-max", sk_peek_max }, { "urgent", sk_urgent },
		{ "peer-class", sk_peer_class }, { "queued", sk_queued }, { "mark", sk_mark },
	};
	const char *name = scn_next(s);

	for (size_t i = 0; i < BYTES_COUNT(cmd); i++)
		if (!strcmp(cmd[i].name, name)) {
			cmd[i].fn(s);
			return;
		}
	scn_fail(s, "'sk %s' is no command", name);
}
