/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every refusal at run time has a name and a counter. Text: what happened, for
 * the statistics.
 */
#ifndef PORT_DROP_H
#define PORT_DROP_H

#include <stdint.h>

#define DROP_LIST(X) \
	X(L2_SHORT,		"frame shorter than its headers") \
	X(L2_TYPE,		"EtherType not handled") \
	X(L2_LINK_FULL,		"guest link did not take a frame") \
	X(ARP_BAD,		"malformed ARP") \
	X(IP_BAD,		"malformed IP header") \
	X(IP_LOOPBACK,		"loopback address on the guest link") \
	X(IP_FRAGMENT,		"IP fragment") \
	X(IP_EXT,		"IPv6 extension header that can't be skipped") \
	X(IP_PROTO,		"IP protocol not handled") \
	X(IP_ADDR,		"address that can't be source or target") \
	X(FAMILY_OFF,		"address family switched off") \
	X(PROTO_OFF,		"protocol switched off") \
	X(ICMP_BAD,		"malformed ICMP") \
	X(ICMP_TYPE,		"ICMP type not handled") \
	X(ICMP_FOREIGN,		"ICMP from the host that answers no request") \
	X(ICMP_QUOTE,		"ICMP error of the guest that is about nothing of ours") \
	X(ICMP_TOLD,		"ICMP error of the guest that nobody on the host side can be told") \
	X(ND_BAD,		"malformed neighbour discovery") \
	X(UDP_BAD,		"malformed UDP") \
	X(UDP_OPEN,		"UDP socket could not be opened") \
	X(UDP_SEND,		"UDP datagram refused by the host") \
	X(UDP_TOO_BIG,		"UDP datagram larger than a frame") \
	X(UDP_FOREIGN,		"UDP from the host by another than the flow's peer") \
	X(UDP_TO_ALL,		"broadcast of the host's network at a port that is not published") \
	X(UDP_SERVICE,		"DHCP of the guest, which ends at this link") \
	X(UDP_NO_GUEST,		"UDP from the host before the guest's address is known") \
	X(DNS_NEXT,		"answer of a resolver that had none, where another was asked") \
	X(DNS_UNKEPT,		"the same, with no place to keep it for the case that nobody has one") \
	X(GROUP_BAD,		"malformed IGMP or MLD") \
	X(GROUP_OFF,		"IGMP or MLD without --multicast") \
	X(GROUP_FULL,		"too many groups, or ports of a group") \
	X(GROUP_OPEN,		"group that the host could not join") \
	X(GROUP_ECHO,		"datagram of the guest to a group that came back to it") \
	X(PING_OPEN,		"ping socket could not be opened") \
	X(PING_SEND,		"ping refused by the host") \
	X(TCP_BAD,		"malformed TCP header") \
	X(TCP_NO_FLOW,		"TCP segment without a flow, answered with RST") \
	X(TCP_WINDOW,		"TCP segment outside the window") \
	X(TCP_OLD,		"TCP segment with old data only") \
	X(TCP_GAP,		"TCP segment ahead of a gap, with no place to keep it") \
	X(TCP_BUSY,		"TCP payload that the host socket did not take") \
	X(TCP_ACK_UNSENT,	"TCP acknowledgement of data never sent") \
	X(TCP_ACK_OLD,		"TCP acknowledgement from long ago") \
	X(TCP_CHALLENGE,	"TCP segment that fits nowhere, one of too many to answer") \
	X(TCP_PAWS,		"TCP segment with an old timestamp, or none") \
	X(TCP_RST_SEQ,		"TCP reset outside the exact sequence") \
	X(TCP_SYN_LATE,		"TCP SYN on an open connection") \
	X(TCP_FLAGS,		"TCP segment with impossible flags for the state") \
	X(TCP_OPEN,		"TCP socket could not be opened") \
	X(TCP_NO_GUEST,		"TCP connection from the host before the guest's address is known") \
	X(FLOW_FULL,		"flow table full") \
	X(FLOW_EVICTED,		"one-shot UDP or ping flow ended early to make room") \
	X(NO_DESCRIPTOR,	"out of file descriptors")

enum drop {
#define DROP_ENUM(name, text) DROP_##name,
	DROP_LIST(DROP_ENUM)
#undef DROP_ENUM
	DROP_CNT
};

struct drops {
	uint64_t cnt[DROP_CNT];
};

#endif
