/* SPDX-License-Identifier: BSD-3-Clause
 *
 * State of one TCP flow and the seams between the files of this folder.
 * Names as in RFC 9293 3.3.1: una, nxt, wnd for what we send to the guest, rcv_*
 * for what the guest sends.
 */
#ifndef TCP_PRIV_H
#define TCP_PRIV_H

#include <errno.h>

#include "base/bytes.h"
#include "base/seqno.h"
#include "proto/dns.h"
#include "proto/tcp.h"

#define TCP_MSS_MIN	48u		/* least MSS we send with, as Linux's net.ipv4.tcp_min_snd_mss (TCP-16) */
#define TCP_MSS_DFL4	536u		/* no option, IPv4 (RFC 9293 3.7.1) */
#define TCP_MSS_DFL6	1220u		/* no option, IPv6 */
#define TCP_MSS_USUAL	1440u		/* what IPv6 has on Ethernet: a lower MSS of the guest is the host socket's as well (TCP-17) */
#define TCP_WS_OURS	8		/* shift that we offer: windows up to 16 MiB (TCP-19) */
#define TCP_WS_MAX	14		/* RFC 7323 2.3 */
#define TCP_WND_MAX	(1u << 20)	/* most that we advertise: the link is memory, more would only queue in the guest's device */
#define TCP_WND_SHARED	(TCP_WND_MAX / 2)	/* ... by several flows that send much at the same time, together: a request behind all
					 * that waits for half a millisecond at 10 Gbit/s
					 */
#define TCP_WND_SHARE	(2 * TCP_SUPER)	/* least share */
#define TCP_BULK	(TCP_SUPER / 4)	/* payload in one batch that makes a flow one of those ... */
#define TCP_BULK_PERIOD	(5 * NS_MS)	/* ... for this long: a flow is not in every batch, and waits for its processor meanwhile */
#define TCP_SUPER	65536u		/* one super-frame: below this much room a wake-up is armed */
#define TCP_RTO_INIT	NS_S		/* RFC 6298 2.1 */
#define TCP_RTO_SYN_RETRIED (3 * NS_S)	/* RFC 6298 5.7 */
#define TCP_RTO_MIN	(200 * NS_MS)	/* as Linux; the link is memory, so RTT says nothing below it */
#define TCP_RTO_MAX	(120 * NS_S)
#define TCP_RETRIES	15		/* data and probes without any answer, as net.ipv4.tcp_retries2 */
#define TCP_DSCP_MASK	0xfcu		/* of a traffic class; the rest is ECN */
#define TCP_QUIET	(2 * NS_S)	/* how long a lost last ACK can be repeated */
#define TCP_DUPACKS	3		/* RFC 5681 3.2 */
#define TCP_FLIGHT_MAX	(15u << 20)	/* most in flight to the guest: a peek can step over 16 MiB where SO_PEEK_OFF is missing */
#define TCP_CAP_MIN	(4 * TCP_SUPER)	/* ... and at least, however much is lost: some 170 frames of 1500 bytes */
#define TCP_TS_LEN	12u		/* timestamps in every segment, padded (RFC 7323 A) */
#define TCP_PAWS_IDLE	(24 * 86400 * NS_S)	/* the guest's last timestamp is void after this (RFC 7323 5.5) */
#define TCP_SACKED	8		/* ranges of the scoreboard; a guest reports four at a time */
#define TCP_PTO_MIN	(20 * NS_MS)	/* least time to a tail loss probe (RFC 8985 7.2: 10 ms, for wires); a busy guest takes as long */
#define TCP_CHALLENGES	10		/* answers to segments without data that fit nowhere, ... */
#define TCP_CHALLENGE_TIME (500 * NS_MS) /* ... in this time: Linux's net.ipv4.tcp_invalid_ratelimit, for loops of ACKs */
#define TCP_LINK_RETRY	(2 * NS_MS)	/* a link that was full is tried again */
#define TCP_FILL	4		/* holes that one flow fills before others get their turn */
/* Acknowledged bytes may wait a little in the host socket, which saves a call per reply of a request-response flow. The
 * kernel charges a whole socket buffer until its last byte is gone, so that is for runs of small segments only, ...
 */
#define TCP_LAZY_SEG	1024u		/* ... of at most this many bytes each, */
#define TCP_LAZY_RUN	8		/* after so many of them in a row, */
#define TCP_LAZY_CNT	16		/* for at most so many acknowledgements, */
#define TCP_LAZY_TIME	(20 * NS_MS)	/* and never longer than this */
#define TCP_ACK_DELAY	(2 * NS_MS)	/* how long an ACK may wait for a reply to ride on */
#define TCP_ACK_SMALL	1024u		/* ... if no more than this is unacknowledged */
#define TCP_IOV		1024		/* pieces of payload in one send: UIO_MAXIOV; a batch of large frames of vhost-user has them */

enum tcp_phase {
	TCP_PHASE_NEW,
	TCP_PHASE_CONNECTING,		/* guest sent SYN; the host socket connects */
	TCP_PHASE_SYN_RCVD,		/* we answered SYN, ACK */
	TCP_PHASE_SYN_SENT,		/* the host accepted; we sent SYN to the guest */
	TCP_PHASE_OPEN,			/* established, and all half-closed states by the flags below */
	TCP_PHASE_QUIET,		/* both ends done, socket closed; late segments get their ACK */
	TCP_PHASE_CNT
};

struct tcp {
	uint8_t phase;			/* enum tcp_phase; tcp_phase_set() only */
	uint8_t ws_guest, ws_ours;	/* shifts of windows from and to the guest; both 0 if one side offers none */
	uint8_t dupacks, retries, backoff;
	uint8_t challenges;		/* since challenge_at */
	uint8_t idle_probes;		/* sent to a silent guest, none answered */

	/* half-close: each stays true once set */
	bool guest_fin;			/* the guest's FIN was accepted and passed on */
	bool fin_sent, fin_acked;	/* ours to the guest, at sequence fin_seq */

	bool host_more;			/* the socket may hold data beyond nxt */
	bool host_rdhup;		/* the peer sent its end: read until 0 */
	bool host_urgent;		/* urgent data waits: a peek ends at its mark, short of what is there (TCP-49) */
	bool host_mark;			/* the byte at host_mark_seq is urgent, and not acknowledged */
	bool guest_mark;		/* ... and that of the guest at guest_mark_seq was not passed on yet */
	bool host_err;			/* the socket failed: pass on what is there, then reset */
	bool ack_due;			/* the guest is owed an ACK */
	bool ack_now;			/* ... without delay */
	bool twice_due;			/* ... and told of what came twice (RFC 2883) */
	bool ack_alone;			/* ... and without data, which would be no duplicate ACK and has no SACK blocks */
	bool refused;			/* the kernel did not take all: ask for it again once it is writable */
	bool stuck;			/* the kernel refused a part of the last send: the window says 0 until it is writable */
	bool armed;			/* EV_OUT will come */
	bool sending;			/* a send is under way, of send_len bytes and maybe FIN */
	bool send_fin;
	bool send_missed;		/* more came meanwhile, and could not be kept */
	bool recovering;		/* retransmitting up to `recover` (RFC 6582) */
	bool all_lost;			/* ... all of it, whatever SACK shows: after a timeout */
	bool rexmit_due;		/* send from una again */
	bool rtt_timing;
	bool ts_on, sack_on;		/* negotiated */
	bool probed;			/* the tail was sent again since the last progress */
	bool kept_fin;			/* the guest's FIN is known, at kept_fin_seq, but data before it is missing */
	uint8_t sacked_cnt;
	bool delay_acks;		/* replies come soon: an ACK may wait for one */

	uint16_t mss;			/* payload of a segment to the guest */
	uint8_t lazy_cnt, small_run;
	uint8_t syn_flags;		/* of our SYN, for its identical retransmission */
	uint16_t syn_wnd;
	uint8_t tos_guest, tos_host;	/* DSCP as last passed on, and of our packets to the guest */
	uint8_t ttl_guest;		/* of the guest's SYN ... */
	uint16_t mss_guest;		/* ... which has this MSS, 0: none, or one that is usual */
	bool keep_alive;		/* probes of the host socket are on ... */
	uint16_t keep_idle_s;		/* ... after this many seconds, 0: the kernel's default */
	ns_t keep_at;			/* the guest's last probe */
	struct proto_dns dns;		/* while it connects to the forwarding address */
	uint32_t listener;		/* where this one counts as half open, FLOW_NONE: nowhere */
	bool guest_has_ws;		/* the guest offered window scaling */

	uint32_t iss, una, nxt, max;	/* max: highest sent ever, FIN included */
	uint32_t fin_seq;
	uint32_t host_mark_seq, guest_mark_seq;
	uint32_t head;			/* sequence at the head of the socket's receive queue, <= una */
	uint32_t wnd, wnd_max, wl1;	/* guest's window in bytes; SND.WL2 would never be above una */
	uint32_t cap;			/* most in flight after a loss, 0: the guest's window alone decides */
	uint32_t recover, rtt_seq;
	uint32_t rexmit_end;		/* end of what was sent again in this recovery */
	uint32_t round_end, round_seq;	/* what was sent again below round_end was sent before anything from round_seq on */
	uint32_t sacked_max;		/* the highest that the guest ever reported, or acknowledged */
	uint32_t rexmit_ts;		/* our timestamp of the first of it (RFC 3522) */
	struct tcp_range { uint32_t from, to; } sacked[TCP_SACKED];	/* what the guest has beyond una, ascending */
	struct tcp_range again;		/* holes in here were filled in vain: next to be sent once more */

	uint32_t ts_off;		/* our timestamps: milliseconds of the clock plus this */
	uint32_t syn_ts;		/* timestamp of our SYN, in each retransmission of it */
	uint32_t ts_recent;		/* the guest's, to echo (RFC 7323 4.3), taken at ts_recent_at */
	uint32_t kept_head, kept_cnt;	/* blocks of the pool in order of sequence, index + 1; 0: none */
	uint32_t kept_last;		/* the highest of them */
	uint32_t kept_recent;		/* a sequence of the block that came last: its range is reported first (RFC 2018 4) */
	uint32_t kept_fin_seq;
	struct tcp_range twice;

	uint32_t irs, rcv_nxt, rcv_edge; /* edge: right end of the window advertised */
	uint32_t rcv_acked;		/* last ACK that we sent */
	uint32_t wnd_low;		/* ask the kernel for room again when less than this is left of the window */
	uint32_t send_len;
	uint32_t bulk_period;		/* counted in that one, proto's tcp_bulk_period */

	ns_t ts_recent_at;
	ns_t guest_data_at;		/* last payload accepted from the guest */
	ns_t rtt_at, srtt, rttvar, rto;
	ns_t challenge_at;
	ns_t rto_at, ack_at, drop_at, push_at; /* deadlines, NS_NEVER: none */
	ns_t idle_at;			/* the guest said nothing until then: probe it */
};

_Static_assert(sizeof(struct tcp) <= FLOW_BODY_LEN, "struct tcp must fit the flow's body");

static inline struct tcp *tcp_of(struct flow *f)
{
	return flow_body(f);
}

/* A SYN with this TTL: one of a traceroute */
static inline bool tcp_is_probe(uint8_t ttl)
{
	return ttl && ttl < SK_TTL_PROBE;
}

/* --- fsm.c --- */
void tcp_phase_set(struct proto *p, struct flow *f, enum tcp_phase to);
/* Whether TO may follow FROM */
bool tcp_phase_legal(enum tcp_phase from, enum tcp_phase to);

/* --- conn.c: life of a flow. All of these free the flow: it must not be touched afterwards. --- */
/* RST to the guest and to the peer */
void tcp_reset(struct proto *p, struct flow *f);
/* The guest is gone or reset: RST to the peer only */
void tcp_abort(struct proto *p, struct flow *f);
/* The guest reset the connection, or forgot it: as tcp_abort(), but the peer still gets what stands before the guest's FIN */
void tcp_guest_reset(struct proto *p, struct flow *f);
/* Both ends done: socket closed, flow kept for the quiet period (this one does not free) */
void tcp_finish(struct proto *p, struct flow *f);
/* What the guest's SYN says about it */
void tcp_take_syn(struct proto *p, struct flow *f, const struct wire_tcp *h);
/* Fields that both ways of opening share */
void tcp_init(struct proto *p, struct flow *f);
/* A host socket whose connect to TO has begun, or negative errno. What the guest's SYN says is in the flow by now. */
int tcp_connect(struct proto *p, struct flow *f, const struct sk_addr *to);
/* The end of handling anything: retransmit, push, acknowledge, close, timers. May free the flow. */
void tcp_settle(struct proto *p, struct flow *f);

/* --- syn.c --- */
/* How often SYN or SYN, ACK is sent again, and how long to wait after the last time */
int tcp_syn_limit(const struct proto *p, const struct tcp *t);
ns_t tcp_syn_wait(const struct proto *p, const struct tcp *t);
void tcp_half_open_begin(struct proto *p, struct tcp *t, uint32_t listener);
/* It counts no more, if it did */
void tcp_half_open_end(struct proto *p, struct tcp *t);

/* --- pass.c --- */
/* The guest's data comes with traffic class TOS */
void tcp_pass_class(struct proto *p, struct flow *f, uint8_t tos);
/* An old segment that may be a keep-alive probe */
void tcp_pass_keep_alive(struct proto *p, struct flow *f, const struct tcp_seg *s);

/* An urgent pointer (RFC 6093: it points behind the byte, as all systems have it) */
void tcp_mark_take(struct tcp *t, const struct tcp_seg *s);
/* Of LEN bytes at rcv_nxt, how many go in one send: all, those before the urgent one, or that alone, which *ret tells */
uint32_t tcp_mark_cut(const struct tcp *t, uint32_t len, bool *ret);
/* With urgent data of the peer: whether something may be sent now, and where its mark is. False: the flow is gone. */
bool tcp_mark_look(struct proto *p, struct flow *f, bool *ret_wait);
/* The byte at SEQ is urgent: it travels alone, as each segment of a super-frame would have the pointer of the first */
static inline bool tcp_mark_at(const struct tcp *t, uint32_t seq)
{
	return t->host_mark && seq == t->host_mark_seq;
}

/* --- refuse.c --- */
/* Tell the guest that its SYN failed with negative errno ERR; false: a reset is the answer, or all that is left */
bool tcp_refuse(struct proto *p, const struct flow_key *key, const struct tcp_seg *syn, int err);
/* The host's connect() ended with ERR. Frees the flow. */
void tcp_connect_failed(struct proto *p, struct flow *f, int err);

/* --- dns.c: the way to a resolver, before the connection is open --- */
/* As tcp_connect(), to the first server that has a way; -ENOENT: the flow does not go to the forwarding address */
int tcp_dns_open(struct proto *p, struct flow *f);
/* A connect has begun: go on after a while, if there is another server */
void tcp_dns_wait(struct proto *p, struct flow *f);
/* The present server refused, or was silent for that while: to the next one. False: there is none. */
bool tcp_dns_next(struct proto *p, struct flow *f);
void tcp_dns_connected(struct proto *p, struct flow *f);

/* --- guest.c --- */
/* The kernel took R of LEN bytes (or negative errno); FIN follows them. False: the flow is gone. */
bool tcp_sent(struct proto *p, struct flow *f, int r, uint32_t len, bool fin);
/* Pass on what was kept, as far as it continues. False: the flow is gone. */
bool tcp_pass_kept(struct proto *p, struct flow *f);

/* --- host.c --- */
/* Bytes from the socket to the guest as the window allows. False: the flow is gone. */
bool tcp_push(struct proto *p, struct flow *f);
/* Again what is missing: the holes that SACK shows, else from una up to LIMIT bytes. False: the flow is gone. */
bool tcp_rexmit(struct proto *p, struct flow *f, uint32_t limit);
/* Begin to repair a loss: what was sent up to now counts as one (RFC 6582 3.2). ALL: none of it can be trusted to arrive. */
void tcp_recover(struct proto *p, struct tcp *t, bool all);
/* Silence where an answer was due: in a repair the holes once more, else the last segment, so that the guest tells what it has
 * (RFC 8985 7.3). False: the flow is gone.
 */
bool tcp_probe_tail(struct proto *p, struct flow *f);
/* Discard what the guest acknowledged; lazily unless ALL. False: the flow is gone. */
bool tcp_discard(struct proto *p, struct flow *f, bool all);

/* --- kept.c: payload that waits in the pool --- */
/* Keep a copy of what is new in the view at SEQ; false: not all of it fits */
bool tcp_kept_add(struct proto *p, struct flow *f, uint32_t seq, const struct view *v);
/* Pieces that continue at SEQ into IOV: number of pieces, their bytes in *ret_len. They stay until tcp_kept_drop(). */
int tcp_kept_iov(struct proto *p, struct flow *f, uint32_t seq, struct iovec *iov, int cnt, uint32_t *ret_len);
/* End of what continues at SEQ; SEQ if nothing does */
uint32_t tcp_kept_end(struct proto *p, struct flow *f, uint32_t seq);
/* Forget what lies before SEQ */
void tcp_kept_drop(struct proto *p, struct flow *f, uint32_t seq);
void tcp_kept_free(struct proto *p, struct flow *f);
/* Ranges beyond rcv_nxt for SACK blocks, the latest first, then from the lowest on: number, at most MAX */
int tcp_kept_ranges(struct proto *p, struct flow *f, struct tcp_range *ret, int max);

/* --- sack.c: what the guest has of what we sent --- */
/* Take the blocks of an acceptable ACK: whether they told something new */
bool tcp_sack_take(struct tcp *t, const struct wire_tcp *h);
/* Forget what lies before una */
void tcp_sack_trim(struct tcp *t);
/* Bytes that the guest has beyond una, as far as we know */
uint32_t tcp_sack_sum(const struct tcp *t);
/* A loss can be taken for sure at una (RFC 6675 4, IsLost) */
bool tcp_sack_lost(const struct tcp *t);
/* After news in a repair: what was sent again and lost again is due once more (RFC 8985 3.1: something sent later arrived) */
void tcp_sack_round(struct tcp *t);
/* Next hole at FROM or later that is below something the guest has: false, there is none */
bool tcp_sack_hole(const struct tcp *t, uint32_t from, struct tcp_range *ret);

/* --- cap.c --- */
/* Something was lost on the way to the guest */
void tcp_cap_cut(struct tcp *t);
/* So much arrived, and nothing is missing */
void tcp_cap_grow(struct tcp *t, uint32_t acked);
/* Bytes that may be sent now, maybe negative */
int32_t tcp_cap_room(const struct tcp *t);

/* --- timestamps (RFC 7323) --- */
static inline uint32_t tcp_ts_now(const struct proto *p, const struct tcp *t)
{
	return (uint32_t)(p->env->now / NS_MS) + t->ts_off;
}

static inline uint32_t tcp_opt_len(const struct tcp *t)
{
	return t->ts_on ? TCP_TS_LEN : 0;
}

/* --- seg.c --- */
/* Segment without payload; false if the link did not take it */
bool tcp_emit(struct proto *p, struct flow *f, uint8_t flags, uint32_t seq);
/* SYN or SYN, ACK, always the same one */
bool tcp_emit_syn(struct proto *p, struct flow *f);
/* Headers of a data segment: writes into HDR, returns their length */
uint32_t tcp_data_hdr(struct proto *p, struct flow *f, uint8_t *hdr, uint32_t seq, uint8_t flags, uint32_t len);
/* Descriptor of a data frame */
void tcp_data_desc(const struct flow *f, struct l2_frame *fr, uint32_t hdr_len, uint32_t len);
/* RST for a segment that belongs to nothing (RFC 9293 3.10.7.1, TCP-90, TCP-91) */
void tcp_emit_stray_rst(struct proto *p, const struct flow_key *key, const struct tcp_seg *s);

/* --- win.c: from numbers only --- */
/* Room to advertise, from what the kernel has */
uint32_t tcp_win_room(const struct sk_room *r, uint32_t limit);
/* The guest sent much in this flow */
void tcp_win_bulk(struct proto *p, struct tcp *t);
/* Open the window as far as the host socket has room, and arm a wake-up where it stays small */
void tcp_win_update(struct proto *p, struct flow *f);
/* The header's field for the window advertised; moves the edge up to what the field can say */
uint16_t tcp_win_field(struct tcp *t);

/* --- timer.c: armed by saying what happened --- */
void tcp_timer_data_sent(struct proto *p, struct tcp *t, uint32_t end_seq, bool again);
void tcp_timer_first(struct tcp *t);	/* nothing was in flight, now something will be */
void tcp_timer_acked(struct proto *p, struct tcp *t);
/* A timestamp of ours came back with a new ACK (RFC 7323 4.1) */
void tcp_timer_echo(struct proto *p, struct tcp *t, uint32_t ts_ecr);
void tcp_timer_blocked(struct proto *p, struct tcp *t);	/* window closed, nothing in flight */
void tcp_timer_ack_sent(struct tcp *t);
void tcp_timer_heard(struct proto *p, struct tcp *t);	/* the guest is there */
void tcp_timer_sync(struct proto *p, struct flow *f);
ns_t tcp_rto(const struct tcp *t);

#endif
