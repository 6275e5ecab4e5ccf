# SPDX-License-Identifier: BSD-3-Clause
"""Groups and broadcasts: what the container sends to many, who answers, and what is sent to groups that it has joined."""
import socket
import struct

import pytest

import lab as L
from nsnet import until

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
LEVEL = {4: socket.IPPROTO_IP, 6: socket.IPPROTO_IPV6}
MDNS = {4: "224.0.0.251", 6: "ff02::fb"}
SSDP = {4: "239.255.255.250", 6: "ff02::c"}
WSD_PORT, SSDP_PORT, MDNS_PORT = 3702, 1900, 5353
OTHER = {4: "239.1.2.3", 6: "ff15::1234"}
TTL = {4: socket.IP_MULTICAST_TTL, 6: socket.IPV6_MULTICAST_HOPS}
RECVTTL = {4: 12, 6: socket.IPV6_RECVHOPLIMIT}
SEARCH = b"M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: \"ssdp:discover\"\r\nST: ssdp:all\r\n\r\n"
pytestmark = pytest.mark.xdist_group("group")


@pytest.fixture(autouse=True)
def ready(request):
    """The kernel takes its time until a new link passes groups of IPv6: until it gave it a link-local address."""
    lab = request.getfixturevalue("lab")
    for ns in (lab.hst, lab.peer):
        until("link-local addresses", lambda ns=ns: "fe80" in lab.out(*ns.prefix, "ip", "-6", "addr", "show", "scope", "link"))


def index(ns, ifname):
    return ns.call(lambda: socket.if_nametoindex(ifname))


def via(s, ns, fam, ifname, ttl, loop=True):
    """Let a socket send to groups through an interface."""
    i = index(ns, ifname)
    s.setsockopt(LEVEL[fam], socket.IP_MULTICAST_IF if fam == 4 else socket.IPV6_MULTICAST_IF,
                 struct.pack("4s4si", bytes(4), bytes(4), i) if fam == 4 else i)
    s.setsockopt(LEVEL[fam], TTL[fam], ttl)
    s.setsockopt(LEVEL[fam], socket.IP_MULTICAST_LOOP if fam == 4 else socket.IPV6_MULTICAST_LOOP, loop)
    return s


def sender(ns, fam, ifname, ttl, port=0, loop=True):
    return via(ns.udp(L.ANY[fam], port), ns, fam, ifname, ttl, loop)


def membership(ns, fam, group, ifname):
    i = index(ns, ifname)
    if fam == 4:
        return struct.pack("4s4si", socket.inet_pton(socket.AF_INET, group), bytes(4), i)
    return struct.pack("16si", socket.inet_pton(socket.AF_INET6, group), i)


def member(ns, fam, group, port, ifname, share=False):
    """A socket on a group's port that has joined it."""
    s = ns.sock(socket.AF_INET if fam == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
    s.settimeout(5)
    if fam == 6:
        s.setsockopt(LEVEL[6], socket.IPV6_V6ONLY, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, share)
    s.bind((L.ANY[fam], port))
    s.setsockopt(LEVEL[fam], socket.IP_ADD_MEMBERSHIP if fam == 4 else socket.IPV6_JOIN_GROUP,
                 membership(ns, fam, group, ifname))
    s.setsockopt(LEVEL[fam], RECVTTL[fam], 1)
    return s


def leave(s, ns, fam, group, ifname):
    s.setsockopt(LEVEL[fam], socket.IP_DROP_MEMBERSHIP if fam == 4 else socket.IPV6_LEAVE_GROUP,
                 membership(ns, fam, group, ifname))


def recv_ttl(s, fam):
    data, anc, _, peer = s.recvmsg(70000, 512)
    ttl = [v for lvl, kind, v in anc if lvl == LEVEL[fam] and kind in (socket.IP_TTL, RECVTTL[fam], socket.IPV6_HOPLIMIT)]
    return data, struct.unpack("i", ttl[0])[0], peer


def joined(ns, fam, group, ifname):
    """How many times a namespace's interface is in a group, by its kernel."""
    if fam == 6:
        want = socket.inet_pton(socket.AF_INET6, group).hex()
        rows = [r.split() for r in ns.call(lambda: L._content("/proc/thread-self/net/igmp6")).splitlines()]
        return sum(int(r[3]) for r in rows if r[1] == ifname and r[2] == want)
    want, dev, n = "%08X" % struct.unpack("=I", socket.inet_pton(socket.AF_INET, group))[0], None, 0
    for row in ns.call(lambda: L._content("/proc/thread-self/net/igmp")).splitlines()[1:]:
        f = row.split()
        if not row.startswith("\t"):
            dev = f[1].rstrip(":")
        elif dev == ifname and f[0] == want:
            n += int(f[1])
    return n


def nothing(s, secs=.3):
    """Nothing arrives for a while: there is no other sign of that."""
    s.settimeout(secs)
    with pytest.raises(socket.timeout):
        print("arrived:", s.recvfrom(70000))
    s.settimeout(5)


@FAM
@pytest.mark.parametrize("group,port,ttl", [(SSDP, SSDP_PORT, 2), (SSDP, WSD_PORT, 1), (OTHER, 6771, 9)],
                         ids=["ssdp", "wsd", "other"])
def test_U02_search_finds_all_responders(lab, fam, group, port, ttl):
    """UDP-14: a search leaves through the host's interface with its TTL; answers of any number of responders, from any port of
    theirs, come from their own addresses; the container goes on talking to them from the port of its search."""
    with lab.start("-d", "--trace") as i, member(lab.peer, fam, group[fam], port, "e0") as heard, sender(i.ct, fam, i.tap, ttl) as s:
        s.sendto(SEARCH, (group[fam], port))
        data, got, peer = recv_ttl(heard, fam)
        assert (data, got, peer[0]) == (SEARCH, ttl, L.HST[fam]) or (data, got, peer[0][:4]) == (SEARCH, ttl, "fe80")
        for n, addr in enumerate((L.PEER[fam], L.GW[fam], L.PEER[fam], L.FAR[fam])):
            if addr == L.FAR[fam] and peer[0].startswith("fe80"):
                continue  # not from beyond the link
            with lab.peer.udp(addr, 0) as r:
                r.sendto(b"answer %d" % n, peer)
                got = s.recvfrom(100)
                assert got[0] == b"answer %d" % n
                assert got[1][:2] == (addr, r.getsockname()[1])
                s.sendto(b"thanks", got[1])
                data, frm = r.recvfrom(100)
                assert data == b"thanks" and frm[1] == peer[1]
        nothing(s, .05)
        assert not joined(lab.hst, fam, group[fam], "up0"), "joined a group without --multicast"


def dns_query(name):
    labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
    return struct.pack(">6H", 0, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 0x8001)


def dns_answer(query, addr):
    return struct.pack(">6H", 0, 0x8400, 0, 1, 0, 0) + query[12:-4] + struct.pack(">2HIH", 1, 0x8001, 120, 4) + socket.inet_aton(addr)


@FAM
@pytest.mark.parametrize("taken", [False, True], ids=["free", "host-has-5353"])
def test_U03_mdns_query(lab, fam, taken):
    """A question of mDNS with hop limit 255 is answered, also where a program of the host has port 5353; without one it leaves
    from 5353 as RFC 6762 11 wants it."""
    query = dns_query("printer.local")
    own = member(lab.hst, fam, MDNS[fam], MDNS_PORT, "up0", share=True) if taken else None
    with lab.start() as i, member(lab.peer, fam, MDNS[fam], MDNS_PORT, "e0") as r, \
            sender(i.ct, fam, i.tap, 255, MDNS_PORT) as s:
        s.sendto(query, (MDNS[fam], MDNS_PORT))
        data, ttl, peer = recv_ttl(r, fam)
        assert (data, ttl) == (query, 255)
        assert (peer[1] == MDNS_PORT) != taken
        r.sendto(dns_answer(query, "10.77.0.3"), peer)
        data, frm = s.recvfrom(1000)
        assert data == dns_answer(query, "10.77.0.3") and frm[1] == MDNS_PORT
        if taken:  # it hears the question, and keeps what is for itself
            assert own.recv(1000) == query
            r.sendto(b"for the host", (L.HST[fam], MDNS_PORT))
            assert own.recv(1000) == b"for the host"
            own.close()


@pytest.mark.parametrize("to", ["255.255.255.255", "10.77.0.255"])
def test_broadcast(lab, to):
    """Limited and subnet broadcasts leave through the host's interface; all answers come back; others' are not ours."""
    p, q = L.port(), L.port()
    with lab.start() as i, lab.peer.udp("0.0.0.0", p) as r, i.ct.udp("0.0.0.0", q) as s:
        for x in (r, s):
            x.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.sendto(b"who is there", (to, p))
        data, peer = r.recvfrom(100)
        assert (data, peer) == (b"who is there", (L.HST[4], q))
        for addr in (L.PEER[4], L.GW[4]):
            with lab.peer.udp(addr, 0) as one:
                one.sendto(addr.encode(), peer)
                assert s.recvfrom(100) == (addr.encode(), one.getsockname())
        r.sendto(b"to all", ("10.77.0.255", q))
        nothing(s)


def test_broadcast_of_another_net(lab):
    """A container with a network of its own reaches the host's link by its broadcast address."""
    p = L.port()
    with lab.start("-a", "192.168.5.2/24", "-g", "192.168.5.1") as i, lab.peer.udp("0.0.0.0", p) as r, \
            i.ct.udp("0.0.0.0", 0) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.sendto(b"hello", ("192.168.5.255", p))
        data, peer = r.recvfrom(100)
        assert data == b"hello"
        r.sendto(b"hi", peer)
        assert s.recvfrom(100) == (b"hi", (L.PEER[4], p))


def test_broadcast_to_published_port(lab):
    """What the host's network broadcasts to a published port is answered from the host's own address."""
    p = L.port()
    with lab.start("-u", str(p)) as i, i.ct.udp("0.0.0.0", p) as srv, lab.peer.udp(L.PEER[4], 0) as cli:
        cli.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        cli.sendto(b"who", ("10.77.0.255", p))
        data, peer = srv.recvfrom(100)
        srv.sendto(b"me", peer)
        assert cli.recvfrom(100) == (b"me", (L.HST[4], p))
        with i.ct.udp(L.HST[4], 0) as own, lab.peer.udp("0.0.0.0", p) as far:  # what it broadcasts itself does not come back
            own.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            own.sendto(b"own", ("10.77.0.255", p))
            assert far.recv(100) == b"own"
            assert srv.recvfrom(100) == (b"own", own.getsockname())  # by its own kernel
            nothing(srv, .1)


@FAM
@pytest.mark.parametrize("version", [1, 2, 3])
def test_U02_joined_group(lab, fam, version):
    """With --multicast, each version of IGMP and MLD: the group is joined on the host while it is in the container, and what is
    sent to it arrives from its sender; the container's own does not come back; without the option nothing of that."""
    if fam == 6 and version == 3:
        pytest.skip("MLD has two versions")
    with lab.start("--multicast") as i, lab.start() as off:
        for x in (i, off):
            x.ct.sysctl(f"net.ipv{fam}.conf.{x.tap}.force_{'igmp' if fam == 4 else 'mld'}_version", version)
        with member(i.ct, fam, SSDP[fam], SSDP_PORT, i.tap) as s, member(off.ct, fam, SSDP[fam], SSDP_PORT, off.tap) as none, \
                sender(lab.peer, fam, "e0", 3) as far:
            # one of the membership, one for each of SSDP and WS-Discovery
            until("the host is a member", lambda: joined(lab.hst, fam, SSDP[fam], "up0") == 3)
            far.sendto(b"NOTIFY * HTTP/1.1", (SSDP[fam], SSDP_PORT))
            data, peer = s.recvfrom(100)
            assert data == b"NOTIFY * HTTP/1.1" and peer[1] == far.getsockname()[1]
            assert peer[0].split("%")[0] in (L.PEER[fam], L.GW[fam]) or peer[0].startswith("fe80")
            s.sendto(b"heard", peer)
            assert far.recvfrom(100)[0] == b"heard"
            with sender(i.ct, fam, i.tap, 2, loop=False) as out:
                out.sendto(b"own", (SSDP[fam], SSDP_PORT))
            far.sendto(b"last", (SSDP[fam], SSDP_PORT))
            assert s.recvfrom(100)[0] == b"last"
            nothing(none, .05)
            if fam == 4 and version == 1:
                return  # has no leave
            leave(s, i.ct, fam, SSDP[fam], i.tap)
            until("the host has left", lambda: not joined(lab.hst, fam, SSDP[fam], "up0"), 10)


@FAM
def test_U02_group_on_published_port(lab, fam):
    """A published port receives for the container's groups, once; another port does as soon as the container sends to it."""
    p, q = L.port(), L.port()
    with lab.start("--multicast", "-u", str(p)) as i, member(i.ct, fam, OTHER[fam], p, i.tap) as s, \
            member(i.ct, fam, OTHER[fam], q, i.tap) as t, sender(lab.peer, fam, "e0", 3) as far:
        until("the host is a member", lambda: joined(lab.hst, fam, OTHER[fam], "up0"))
        far.sendto(b"one", (OTHER[fam], p))
        assert s.recvfrom(100)[0] == b"one"
        nothing(s, .05)
        far.sendto(b"unheard", (OTHER[fam], q))
        via(t, i.ct, fam, i.tap, 2, False).sendto(b"here I am", (OTHER[fam], q))
        until("the port is received", lambda: joined(lab.hst, fam, OTHER[fam], "up0") == 2)
        far.sendto(b"two", (OTHER[fam], q))
        assert t.recvfrom(100)[0] == b"two"
        nothing(t, .05)


@FAM
def test_U03_mdns_responder(lab, fam):
    """With --multicast the container answers questions of mDNS beside a responder of the host: from 5353, to the group."""
    query = dns_query("box.local")
    with member(lab.hst, fam, MDNS[fam], MDNS_PORT, "up0", share=True) as own, lab.start("--multicast") as i, \
            member(i.ct, fam, MDNS[fam], MDNS_PORT, i.tap) as s, member(lab.peer, fam, MDNS[fam], MDNS_PORT, "e0") as r:
        via(s, i.ct, fam, i.tap, 255, False)
        via(r, lab.peer, fam, "e0", 255, False)
        until("the host is a member", lambda: joined(lab.hst, fam, MDNS[fam], "up0") == 3)
        r.sendto(query, (MDNS[fam], MDNS_PORT))
        assert s.recvfrom(1000)[0] == query and own.recv(1000) == query
        s.sendto(dns_answer(query, "10.77.0.2"), (MDNS[fam], MDNS_PORT))
        data, ttl, peer = recv_ttl(r, fam)
        assert (data, ttl, peer[1]) == (dns_answer(query, "10.77.0.2"), 255, MDNS_PORT)
        assert own.recv(1000) == dns_answer(query, "10.77.0.2"), "the host's programs don't hear the container"
        nothing(s, .2)


def test_dhcp_stays_inside(lab):
    """Requests of a DHCP client in the container are not for the host's network."""
    with lab.start() as i, lab.peer.udp("0.0.0.0", 67) as srv, i.ct.udp("0.0.0.0", 0) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.sendto(b"x" * 240, ("255.255.255.255", 67))
        nothing(srv)


def test_D13_discovery_flood(lab):
    """Thousands of datagrams to groups nobody answers: no line of the log, and what comes after works."""
    with lab.start() as i, sender(i.ct, 6, i.tap, 1) as a, sender(i.ct, 4, i.tap, 1) as b, \
            member(lab.peer, 4, OTHER[4], 6771, "e0") as r:
        i.deep_queue()
        before = i.stderr()
        for n in range(3000):
            a.sendto(b"bt-search %d" % n, (OTHER[6], 6771))
            b.sendto(b"ssdp %d" % n, (SSDP[4], 1900))
        b.sendto(b"end", (OTHER[4], 6771))
        assert r.recvfrom(100)[0] == b"end"
        assert i.stderr() == before
