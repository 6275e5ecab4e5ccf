/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Flows towards groups and broadcasts: one socket for a guest's port and group,
 * that hears whoever answers. Each of those becomes a flow of its own on the
 * same socket, so that its datagrams come from its own address and the guest
 * can go on talking to it from the same port (UDP-14, W-9). Sockets that
 * receive for a group which the guest has joined are flows too, with guest port
 * 0, which no datagram has.
 *
 * Invariant: an open flow outlives those that have its socket.
 */
#include "udp_priv.h"

#include <errno.h>

int udp_group_open(struct proto *p, struct flow *f)
{
	const struct fwd_family_set *fam = &p->fwd->f[fwd_family_of(&f->key.far)];
	struct udp_flow *u = udp_body(f);
	struct sk *sk = p->env->sk;
	int h;

	u->open = true;
	u->to = (struct sk_addr){
		.a = fwd_group_to_host(p->fwd, &f->key.far), .port = f->key.far_port, .scope = fam->group_scope,
	};
	u->local = (struct sk_addr){ .a = proto_host_from(p, &u->to), .port = f->key.guest_port, .scope = u->to.scope };
	h = sk->ops->group_open(sk, flow_ref(p->flows, f), SK_GROUP_SEND, &u->local, &u->to);
	if ((h == -EMFILE || h == -ENFILE) && proto_evict(p))
		h = sk->ops->group_open(sk, flow_ref(p->flows, f), SK_GROUP_SEND, &u->local, &u->to);
	return h;
}

bool udp_group_turn(struct proto *p, struct flow *f, bool errors)
{
	const bool receives = !f->key.guest_port;
	const struct udp_listener l = {
		.h = f->h, .port = receives ? f->key.far_port : f->key.guest_port, .owner = flow_idx(p->flows, f) + 1,
		.target = receives ? (struct inaddr){ { 0 } } : f->key.guest,
	};

	udp_body(f)->last = p->env->now;	/* not the one that has to go if its peers need room */
	return udp_listen_turn(p, &l, errors);
}

static struct flow_key group_key(const struct inaddr *group, uint16_t port)
{
	return (struct flow_key){ .far = *group, .far_port = port, .proto = FLOW_UDP };
}

int udp_group_receive(struct proto *p, const struct inaddr *group, uint16_t port, uint32_t scope)
{
	const struct flow_key key = group_key(group, port);
	const struct sk_addr to = { .a = *group, .port = port, .scope = scope };
	struct flow *f = flow_find(p->flows, &key);

	if (f)
		return 0;
	f = udp_flow_new(p, &key);
	if (!f)
		return -ENOBUFS;
	udp_body(f)->open = true;
	f->h = p->env->sk->ops->group_open(p->env->sk, flow_ref(p->flows, f), SK_GROUP_RECV, NULL, &to);
	if (f->h < 0) {
		const int err = f->h;

		udp_end(p, f);
		return err;
	}
	p->udp_sockets++;
	return 0;
}

void udp_group_ignore(struct proto *p, const struct inaddr *group, uint16_t port)
{
	const struct flow_key key = group_key(group, port);
	struct flow *f = flow_find(p->flows, &key);

	if (f)
		udp_end(p, f);
}
