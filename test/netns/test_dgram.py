# SPDX-License-Identifier: BSD-3-Clause
"""Datagrams as they are: sizes beyond the MTU, runs, traffic class, TTL, and what the network says about them."""
import errno
import os
import socket
import struct

import pytest

import lab as L
from nsnet import UdpServer, echo, until

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
LEVEL = {4: socket.IPPROTO_IP, 6: socket.IPPROTO_IPV6}
IP_RECVERR, IPV6_RECVERR, IP_RECVTTL, IP_RECVTOS = 11, 25, 12, 13
TTL = {4: socket.IP_TTL, 6: socket.IPV6_UNICAST_HOPS}
TOS = {4: socket.IP_TOS, 6: socket.IPV6_TCLASS}
RECVTOS = {4: IP_RECVTOS, 6: socket.IPV6_RECVTCLASS}
RECVTTL = {4: IP_RECVTTL, 6: socket.IPV6_RECVHOPLIMIT}
RECVERR = {4: IP_RECVERR, 6: IPV6_RECVERR}
UDP_SEGMENT = 103
BEYOND = {4: "198.51.100.99", 6: "2001:db8:2::99"}
pytestmark = pytest.mark.xdist_group("dgram")


def pattern(n, seed):
    return bytes((seed * 31 + i * 7 + (i >> 8)) & 0xff for i in range(n))


def cmsg(sock, size=70000):
    """One datagram and its control messages as {(level, type): first byte}."""
    data, anc, _, _ = sock.recvmsg(size, 512)
    return data, {(lvl, kind): val[0] for lvl, kind, val in anc}


@FAM
@pytest.mark.parametrize("mtu", [1500, None], ids=["mtu1500", "default"])
def test_U07_larger_than_mtu(lab, fam, mtu):
    """U07: datagrams of every size arrive whole, both ways, as fragments where the container's MTU asks for it."""
    p = L.port()
    largest = 65507 if fam == 4 else 65527
    with lab.start("-u", str(p), mtu=mtu) as i, UdpServer(i.ct.udp(L.ANY[fam], p)), UdpServer(lab.peer.udp(L.PEER[fam], p)):
        for ns, addr in ((i.ct, L.PEER[fam]), (lab.peer, L.HST[fam])):
            with ns.udp(to=(addr, p)) as s:
                for size in (1452, 1472, 1473, 4000, 9000, largest):
                    s.send(pattern(size, size))
                    assert s.recv(70000) == pattern(size, size), (ns.label, size)


@FAM
def test_runs(lab, fam):
    """Runs that a sender hands to its kernel in one piece arrive as the datagrams that they are, in order."""
    p = L.port()
    with lab.start("-u", str(p)) as i:
        for src, dst, addr in ((i.ct, lab.peer, L.PEER[fam]), (lab.peer, i.ct, L.HST[fam])):
            with dst.udp(L.ANY[fam], p) as r, src.udp(to=(addr, p)) as s:
                s.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1200)
                for k in range(3):
                    s.send(pattern(1200 * 20 + 77, k))
                    for n in range(21):
                        want = pattern(1200 * 20 + 77, k)[n * 1200:(n + 1) * 1200]
                        assert r.recv(70000) == want, (src.label, k, n)


@FAM
def test_class_and_ttl(lab, fam):
    """Traffic class and congestion marks pass both ways; TTL from the container (UDP-8, UDP-50)."""
    p = L.port()
    with lab.start("-u", str(p)) as i, lab.peer.udp(L.PEER[fam], p) as far, i.ct.udp(L.ANY[fam], p) as near:
        far.setsockopt(LEVEL[fam], RECVTOS[fam], 1)
        far.setsockopt(LEVEL[fam], RECVTTL[fam], 1)
        near.setsockopt(LEVEL[fam], RECVTOS[fam], 1)
        for tos, ttl in ((0, 64), (0xba, 7), (2, 200)):
            near.setsockopt(LEVEL[fam], TOS[fam], tos)
            near.setsockopt(LEVEL[fam], TTL[fam], ttl)
            near.sendto(b"out", (L.PEER[fam], p))
            data, c = cmsg(far)
            assert data == b"out"
            assert c[LEVEL[fam], TOS[fam]] == tos
            assert c[LEVEL[fam], socket.IP_TTL if fam == 4 else socket.IPV6_HOPLIMIT] == ttl
            far.setsockopt(LEVEL[fam], TOS[fam], tos)
            far.sendto(b"in", (L.HST[fam], p))
            data, c = cmsg(near)
            assert data == b"in" and c.get((LEVEL[fam], TOS[fam]), 0) == tos


def offender(sock, fam):
    """(type, code, who) of the next entry of the error queue."""
    _, anc, _, _ = sock.recvmsg(2000, 512, socket.MSG_ERRQUEUE)
    for lvl, kind, val in anc:
        if lvl == LEVEL[fam] and kind == RECVERR[fam]:
            _, _, kind, code = struct.unpack_from("=IBBB", val)
            return kind, code, socket.inet_ntop(*((socket.AF_INET, val[20:24]) if fam == 4 else (socket.AF_INET6, val[24:40])))
    return None


@FAM
def test_errors_name_the_hop(own_lab, fam):
    """UDP-31, ICMP-5: a hop where the TTL ends, and a closed port, are reported with their addresses: traceroute works."""
    lab = own_lab
    for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        lab.peer.sysctl(key, 1)
    lab.peer.run("ip", "route", "add", BEYOND[fam], "via", L.HST[fam], "dev", "e0")
    with lab.start() as i:
        with i.ct.udp(to=(BEYOND[fam], 33434)) as s:
            s.setsockopt(LEVEL[fam], RECVERR[fam], 1)
            s.setsockopt(LEVEL[fam], TTL[fam], 1)
            s.send(b"probe")
            with pytest.raises(OSError):
                s.recv(10)
            assert offender(s, fam) == ((11, 0) if fam == 4 else (3, 0)) + (L.PEER[fam],)
        with i.ct.udp(to=(L.PEER[fam], L.port())) as s:
            s.setsockopt(LEVEL[fam], RECVERR[fam], 1)
            s.send(b"probe")
            with pytest.raises(ConnectionRefusedError):
                s.recv(10)
            assert offender(s, fam) == ((3, 3) if fam == 4 else (1, 4)) + (L.PEER[fam],)
        r = i.ct.run("ping", f"-{fam}", "-n", "-c1", "-W5", "-t1", BEYOND[fam], check=False)
        assert r.returncode == 1 and f"From {L.PEER[fam]} icmp_seq=1" in r.stdout, r.stdout


@FAM
def test_no_route(own_lab, fam):
    """UDP-15: what the host can't reach at all is said at once, not lost."""
    lab = own_lab
    with lab.start() as i:
        lab.hst.run("ip", f"-{fam}", "route", "del", "default")
        with i.ct.udp(to=(BEYOND[fam], 9)) as s:
            s.setsockopt(LEVEL[fam], RECVERR[fam], 1)
            s.send(b"x")
            with pytest.raises(OSError) as e:
                s.recv(10)
            assert e.value.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH), e.value


@FAM
def test_U05_ping_large(lab, fam):
    """U05: large pings at a small MTU go in fragments, both ways."""
    with lab.start(mtu=1500) as i:
        for size in (0, 1400, 1473, 8000):
            r = i.ct.run("ping", f"-{fam}", "-n", "-c1", "-W5", "-s", str(size), L.PEER[fam])
            assert " 0% packet loss" in r.stdout, size


@FAM
def test_ping_burst(lab, fam):
    """A burst of pings: its replies come faster than anybody reads them, and none is lost."""
    with lab.start() as i:
        i.ct.run("ping", f"-{fam}", "-n", "-c1", "-W5", L.PEER[fam])  # neighbours are known: who waits for one waits in a short queue
        r = i.ct.run("ping", f"-{fam}", "-n", "-f", "-c100", "-l100", "-W5", "-s1000", L.PEER[fam], check=False)
        assert " 0% packet loss" in r.stdout, r.stdout


def test_host_changes_address(own_lab):
    """The host gets other addresses, and its old ones go: sockets that have talked before go on, as on the host itself."""
    lab, p, socks, new = own_lab, L.port(), {}, {4: "10.77.0.22", 6: "fd77::22"}
    with lab.start() as i:
        for fam in (4, 6):
            srv, s = UdpServer(lab.peer.udp(L.FAR[fam], p)), i.ct.udp(L.ANY[fam])
            socks[fam] = srv, s
            s.sendto(b"a", (L.FAR[fam], p))
            assert s.recv(9) == b"a" and srv.seen[-1][1][0] == L.HST[fam]
        lab.batch(lab.hst, "addr flush dev up0 scope global", f"addr add {new[4]}/24 dev up0", f"addr add {new[6]}/64 dev up0 nodad",
                  f"route replace default via {L.GW[4]}", f"-6 route replace default via {L.GW[6]}")
        for fam, (srv, s) in socks.items():
            s.settimeout(.2)

            def answered():
                s.sendto(b"b", (L.FAR[fam], p))
                try:
                    return s.recv(9) == b"b"
                except socket.timeout:
                    return False
            until("an answer", answered, 5)
            assert srv.seen[-1][1][0] == new[fam]
            srv.close()
            s.close()


# -- protocols that are none of ours

SCTP = 132
NO_PROTOCOL = {4: (3, 2, 0), 6: (4, 1, 6)}  # protocol unreachable; unrecognized next header, and where it stands


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def sctp_init(sport, dport):
    """A packet with an INIT chunk (RFC 9260 3.3.2)."""
    head, chunk = struct.pack(">HHI", sport, dport, 0), struct.pack(">BBHIIHHI", 1, 0, 20, 0x12345678, 65536, 10, 10, 1)
    return head + struct.pack("<I", crc32c(head + bytes(4) + chunk)) + chunk


def next_error(s, fam):
    """(type, code, info; who says so; destination, protocol and payload of the packet quoted) of the next ICMP error."""
    while True:
        data, who = s.recvfrom(2000)
        icmp = data[20:] if fam == 4 else data
        if icmp[0] not in (3, 4) or (fam == 6 and icmp[0] > 4):
            continue
        quote = icmp[8:]
        if fam == 4:
            what = socket.inet_ntop(socket.AF_INET, quote[16:20]), quote[9], quote[20:]
        else:
            what = socket.inet_ntop(socket.AF_INET6, quote[24:40]), quote[6], quote[40:]
        return (icmp[0], icmp[1], int.from_bytes(icmp[4:8], "big")), who[0], what


@FAM
def test_C15_sctp(lab, fam):
    """C15, L2-21: an SCTP INIT from the container is refused in the target's name, whoever that is, with the packet quoted, and
    counted; a flood of them changes nothing for others, on the host's network or in the log."""
    p, af = L.port(), socket.AF_INET if fam == 4 else socket.AF_INET6
    with lab.start("-d") as i:
        with lab.peer.serve(L.PEER[fam], p, echo), UdpServer(lab.peer.udp(L.PEER[fam], p)), \
                i.ct.connect(L.PEER[fam], p) as tcp, i.ct.udp(to=(L.PEER[fam], p)) as udp, \
                i.ct.sock(af, socket.SOCK_RAW, SCTP) as out, lab.peer.sock(af, socket.SOCK_RAW, SCTP) as far, \
                i.ct.sock(af, socket.SOCK_RAW, socket.IPPROTO_ICMP if fam == 4 else socket.IPPROTO_ICMPV6) as err:
            def others():
                """All that was sent before has been looked at when they answer."""
                for s in (tcp, udp):
                    s.send(b"still there")
                    assert s.recv(100) == b"still there"
            err.settimeout(5)
            others()
            fds = len(os.listdir(f"/proc/{i.pid}/fd"))
            for n, to in enumerate((L.PEER[fam], L.GW[fam], L.FAR[fam])):
                init = sctp_init(40000 + n, 36412)
                out.sendto(init, (to, 0))
                assert next_error(err, fam) == (NO_PROTOCOL[fam], to, (to, SCTP, init))
            for _ in range(20):
                for _ in range(50):
                    out.sendto(init, (L.PEER[fam], 0))
                others()
            assert len(os.listdir(f"/proc/{i.pid}/fd")) == fds
            far.setblocking(False)
            with pytest.raises(BlockingIOError):
                far.recv(100)
        i.hold.end()
        i.gone(10)
        assert "1003 dropped, IP_PROTO: " in i.stderr()
        assert i.stderr().count("rotocol") == 1, i.stderr()
