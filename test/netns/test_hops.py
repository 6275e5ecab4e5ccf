# SPDX-License-Identifier: BSD-3-Clause
"""Real traceroute, tracepath and ping through routers with a narrow link behind them: who answers, and what fits.

    ct --- hst --- peer (r1) --- r2 --- end        the link to end carries NARROW bytes
"""
import errno
import re
import socket

import pytest

import lab as L
from nsnet import UdpServer
from test_dgram import LEVEL, RECVERR, TOS, cmsg, offender, pattern

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
NARROW = 1400
R1 = L.PEER
R2 = {4: "10.78.1.2", 6: "fd78:1::2"}
END = {4: "10.78.2.3", 6: "fd78:2::3"}
MTU_DISCOVER = {4: 10, 6: 23}
MTU_OPT = {4: 14, 6: 24}
DONT, WANT, DO, PROBE = 0, 1, 2, 3
pytestmark = pytest.mark.xdist_group("hops")


@pytest.fixture(scope="module")
def chain(lab):
    """The standard lab with two routers and an end behind it."""
    tag = lab.hst.name[:-1]
    r2, end = lab.netns(tag + "r", "r2"), lab.netns(tag + "e", "end")
    for ns in (r2, end):
        ns.sysctl("net.ipv6.conf.all.accept_dad", 0)
        ns.sysctl("net.ipv6.conf.default.accept_dad", 0)
    lab.undo += [r2.close, end.close]
    for ns in (lab.peer, r2, end):
        ns.no_icmp_limit()
        for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            ns.sysctl(key, 1)
    lab.ip("link", "add", "d1", "netns", lab.peer.name, "type", "veth", "peer", "name", "u2", "netns", r2.name)
    lab.ip("link", "add", "d2", "netns", r2.name, "type", "veth", "peer", "name", "u3", "netns", end.name)
    lab.batch(lab.peer, "addr add 10.78.1.1/24 dev d1", "addr add fd78:1::1/64 dev d1 nodad", "link set d1 up",
              "route add 10.78.2.0/24 via 10.78.1.2", "-6 route add fd78:2::/64 via fd78:1::2")
    lab.batch(r2, "addr add 10.78.1.2/24 dev u2", "addr add fd78:1::2/64 dev u2 nodad", "link set u2 up",
              "addr add 10.78.2.2/24 dev d2", "addr add fd78:2::2/64 dev d2 nodad", f"link set d2 mtu {NARROW} up",
              "route add default via 10.78.1.1", "-6 route add default via fd78:1::1")
    lab.batch(end, "addr add 10.78.2.3/24 dev u3", "addr add fd78:2::3/64 dev u3 nodad", f"link set u3 mtu {NARROW} up",
              "route add default via 10.78.2.2", "-6 route add default via fd78:2::2")
    lab.r2, lab.end = r2, end
    return lab


def hops(text):
    """Addresses by hop in the output of traceroute -n and tracepath -n."""
    found = {}
    for hop, addr, rest in re.findall(r"^ ?(\d+):? +([0-9a-f.:]+)(.*)", text, re.M):
        if "pmtu" not in rest:
            found.setdefault(int(hop), addr)
    return found


def path(fam):
    return {1: R1[fam], 2: R2[fam], 3: END[fam]}


@FAM
@pytest.mark.parametrize("how", ["udp", "icmp", "tcp"])
def test_traceroute(chain, fam, how):
    """UDP-8, ICMP-5: each hop is named, by datagrams, echo requests and connects."""
    opt = {"udp": [], "icmp": ["-I"], "tcp": ["-T", "-p", "4444"]}[how]
    with chain.start() as i:
        r = i.ct.run("traceroute", f"-{fam}", "-n", "-w", "5", "-q", "1", "-m", "5", *opt, END[fam])
        assert hops(r.stdout) == path(fam), r.stdout


@FAM
@pytest.mark.parametrize("mtu", [1500, None], ids=["mtu1500", "default"])
def test_tracepath(chain, fam, mtu):
    """UDP-37: each hop is named, and the narrow link's MTU found."""
    with chain.start(mtu=mtu) as i:
        r = i.ct.run("tracepath", f"-{fam}", "-n", "-m", "5", END[fam])
        assert hops(r.stdout) == path(fam) and f"pmtu {NARROW} hops 3" in r.stdout, r.stdout


@FAM
def test_ping_ttl(chain, fam):
    """ICMP-5: ping -t 1 and -t 2 name the routers."""
    with chain.start() as i:
        for ttl, who in ((1, R1[fam]), (2, R2[fam])):
            r = i.ct.run("ping", f"-{fam}", "-n", "-c1", "-W5", f"-t{ttl}", END[fam], check=False)
            assert r.returncode == 1 and f"From {who} icmp_seq=1 Time" in r.stdout, r.stdout


def discover(s, fam, how):
    s.setsockopt(LEVEL[fam], MTU_DISCOVER[fam], how)


def received(far, sizes):
    """Lengths of the datagrams that come until the last of `sizes`."""
    got = []
    while not got or got[-1] != sizes[-1]:
        got.append(len(far.recv(70000)))
    return got


@FAM
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "unconnected"])
@pytest.mark.parametrize("df", ["dont", "default"])
def test_U07_fragments(chain, fam, connected, df):
    """U07: what may be cut arrives in every size, in fragments, and costs its socket no error."""
    p, sizes = L.port(), (100, 1472, 1473, 4000, 9000, 65507, 60000, 7)
    with chain.start() as i, chain.peer.udp(L.PEER[fam], p) as far:
        with i.ct.udp(to=(L.PEER[fam], p)) if connected else i.ct.udp(L.ANY[fam]) as s:
            if df == "dont":
                discover(s, fam, DONT)
            for n in sizes:
                assert (s.send(pattern(n, n)) if connected else s.sendto(pattern(n, n), (L.PEER[fam], p))) == n
                assert far.recv(70000) == pattern(n, n)


@FAM
def test_U07_too_big(chain, fam):
    """U07, UDP-37: what must not be cut is refused with the size that fits: of our link, then of the narrow one."""
    p = L.port()
    chain.hst.run("ip", f"-{fam}", "route", "flush", "cache")  # what other tests have taught the host's kernel
    with chain.start() as i, chain.end.udp(END[fam], p) as far:
        with i.ct.udp(L.ANY[fam]) as s:
            discover(s, fam, DO)
            s.setsockopt(LEVEL[fam], RECVERR[fam], 1)
            if fam == 6:  # IPv6 has no bit for it: a hop limit below the usual ones tells
                s.setsockopt(LEVEL[6], socket.IPV6_UNICAST_HOPS, 30)
            head = 28 if fam == 4 else 48
            for size, fits in ((9000, 1500), (1472 if fam == 4 else 1452, NARROW)):
                s.sendto(pattern(size, 1), (END[fam], p))
                with pytest.raises(OSError) as e:
                    s.recv(10)
                assert e.value.errno == errno.EMSGSIZE
                assert too_big(s, fam) == fits
            with pytest.raises(OSError) as e:  # its own kernel knows it now
                s.sendto(pattern(NARROW - head + 1, 1), (END[fam], p))
            assert e.value.errno == errno.EMSGSIZE
            s.recvmsg(2000, 512, socket.MSG_ERRQUEUE)
            s.sendto(pattern(NARROW - head, 2), (END[fam], p))
        assert received(far, [NARROW - head]) == [NARROW - head]


@FAM
def test_published_errors(chain, fam):
    """UDP-34: errors about what a published port's server sends reach its socket: a refusing peer, and a size that does not fit."""
    p = L.port()
    with chain.start("-u", str(p)) as i, i.ct.udp(L.ANY[fam], p) as near:
        near.setsockopt(LEVEL[fam], RECVERR[fam], 1)
        discover(near, fam, DO)
        with chain.peer.udp(to=(L.HST[fam], p)) as far:
            far.send(b"hello")
            _, who = near.recvfrom(10)
            if fam == 6:
                near.setsockopt(LEVEL[6], socket.IPV6_UNICAST_HOPS, 30)
            near.sendto(pattern(4000, 1), who)
            with pytest.raises(OSError) as e:
                near.recv(10)
            assert e.value.errno == errno.EMSGSIZE and too_big(near, fam) == 1500
            near.sendto(b"answer", who)
            assert far.recv(10) == b"answer"
        near.sendto(b"late", who)
        with pytest.raises(ConnectionRefusedError):
            near.recv(10)
        assert offender(near, fam) == ((3, 3) if fam == 4 else (1, 4)) + (L.PEER[fam],)


CODES = {4: {"net-unreachable": 0, "host-unreachable": 1, "prot-unreachable": 2, "port-unreachable": 3, "net-prohibited": 9,
             "host-prohibited": 10, "admin-prohibited": 13},
         6: {"no-route": 0, "admin-prohibited": 1, "addr-unreachable": 3, "port-unreachable": 4, "policy-fail": 5, "reject-route": 6}}


@FAM
def test_unreachable_codes(chain, fam):
    """UDP-31, ICMP-5: every code of a router's refusal arrives as it was, for datagrams and pings, and its errno for connects."""
    base, names = 20000, sorted(CODES[fam])
    icmp = "icmp" if fam == 4 else "icmpv6"
    rules = [f"meta l4proto {{ tcp, udp }} th dport {base + n} reject with {icmp} type {name}" for n, name in enumerate(names)]
    firewall(chain.r2, "forward", *rules)
    try:
        with chain.start() as i:
            for n, name in enumerate(names):
                want = (3 if fam == 4 else 1, CODES[fam][name])
                with i.ct.udp(to=(END[fam], base + n)) as s:
                    s.setsockopt(LEVEL[fam], RECVERR[fam], 1)
                    s.send(b"probe")
                    with pytest.raises(OSError) as udp:
                        s.recv(10)
                    assert offender(s, fam) == want + (R2[fam],), name
                if fam == 4 or name == "no-route":  # the first SYN's error comes while IPv6's connect() is still at work
                    with pytest.raises(OSError) as inside:
                        i.ct.connect(END[fam], base + n, timeout=5)
                    with pytest.raises(OSError) as outside:
                        chain.hst.connect(END[fam], base + n, timeout=5)
                    assert inside.value.errno == outside.value.errno == udp.value.errno, name
                chain.r2.run("nft", "insert", "rule", "inet", "t", "c", *f"meta l4proto {icmp if fam == 4 else 'ipv6-icmp'}".split(),
                             *f"{icmp} type echo-request reject with {icmp} type {name}".split())
                with i.ct.sock(socket.AF_INET if fam == 4 else socket.AF_INET6, socket.SOCK_RAW, 1 if fam == 4 else 58) as s:
                    s.settimeout(5)
                    s.setsockopt(LEVEL[fam], RECVERR[fam], 1)
                    s.connect((END[fam], 0))
                    s.send(bytes([8 if fam == 4 else 128, 0]) + (b"\xf7\xff\0\0" if fam == 4 else b"\0\0\0\0") + b"\0\0")
                    with pytest.raises(OSError):
                        while True:
                            s.recv(1000)
                    assert offender(s, fam) == want + (R2[fam],), name
    finally:
        chain.r2.run("nft", "delete", "table", "inet", "t")


def too_big(s, fam):
    """MTU in the next entry of the error queue, of a router or of the container's kernel."""
    import struct
    _, anc, _, _ = s.recvmsg(2000, 512, socket.MSG_ERRQUEUE)
    for lvl, kind, val in anc:
        if lvl == LEVEL[fam] and kind == RECVERR[fam]:
            return struct.unpack_from("=IBBBBI", val)[5]
    return None


@FAM
def test_connected_learns(chain, fam):
    """A connected socket's DF may be the system's default: its first large datagram arrives, then its kernel knows the size."""
    p = L.port()
    with chain.start() as i, chain.peer.udp(L.PEER[fam], p) as far, i.ct.udp(to=(L.PEER[fam], p)) as s:
        discover(s, fam, DO)
        s.send(pattern(4000, 1))
        assert far.recv(70000) == pattern(4000, 1)

        def refused():
            try:
                s.send(pattern(4000, 2))
            except OSError as e:
                return e.errno == errno.EMSGSIZE
            return False
        L.until("the container's kernel refuses it", refused)
        assert s.getsockopt(LEVEL[fam], MTU_OPT[fam]) == 1500


@FAM
def test_U05_ping_sizes(chain, fam):
    """U05: pings of every size are answered at the default MTU; those that must not be cut are told the size that fits."""
    with chain.start() as i:
        for size in (56, 1472, 1473, 8000, 65507):
            for _ in range(2):  # before and after the container's kernel knows what fits
                r = i.ct.run("ping", f"-{fam}", "-n", "-c1", "-W5", "-s", str(size), L.PEER[fam])
                assert " 0% packet loss" in r.stdout, (size, r.stdout)
    with chain.start() as i:
        i.ct.run("ping", f"-{fam}", "-n", "-c1", "-W5", L.PEER[fam])  # neighbours are known, or all three wait for them, and leave at once
        r = i.ct.run("ping", f"-{fam}", "-n", "-c3", "-i.2", "-W5", "-M", "do", "-s", "3000", L.PEER[fam], check=False)
        assert re.search("mtu ?[=:] ?1500", r.stdout + r.stderr), r.stdout + r.stderr


def answers(text):
    """How many ping counted. For the last of several it waits no longer than the interval, or twice what others took."""
    return int(re.search(r"(\d+) received", text).group(1))


@FAM
def test_U05_parallel(chain, fam):
    """U05: ten at a time, the same identifier for several targets, and a fast one."""
    with chain.start() as i:
        p = [i.ct.spawn("ping", f"-{fam}", "-n", "-q", "-c100", "-i.002", "-W5", to, stdout=-1, text=True)
             for to in [L.PEER[fam], R2[fam], END[fam], L.FAR[fam], L.GW[fam]] * 2]
        for to in (R2[fam], END[fam]):
            assert answers(i.ct.run("ping", f"-{fam}", "-n", "-q", "-c5", "-i.01", "-W5", "-e", "4711", to).stdout) >= 4
        for x in p:
            assert answers(x.communicate(timeout=20)[0]) >= 99


@FAM
def test_ping_class(chain, fam):
    """Traffic class of an echo request goes out, and that of the reply comes back."""
    with chain.start() as i:
        assert i.tap
        cap = chain.peer.sock(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        cap.settimeout(5)
        with cap:
            r = i.ct.run("ping", f"-{fam}", "-n", "-c1", "-W5", "-Q", "0xb8", L.PEER[fam])
            assert " 0% packet loss" in r.stdout
            seen = set()
            while len(seen) < 2:  # request and reply
                f = cap.recv(2000)
                if f[12:14] != (b"\x08\0" if fam == 4 else b"\x86\xdd"):
                    continue
                ip = f[14:]
                tos = ip[1] if fam == 4 else (ip[0] << 4 | ip[1] >> 4) & 0xff
                kind = ip[20] if fam == 4 else ip[40]
                if ip[9 if fam == 4 else 6] == (1 if fam == 4 else 58) and kind in (8, 0, 128, 129):
                    assert tos == 0xb8
                    seen.add(kind)


@FAM
def test_class_published(chain, fam):
    """UDP-50: class and congestion marks of a published port, there and back, single and as runs."""
    p = L.port()
    with chain.start("-u", str(p)) as i, chain.peer.udp(to=(L.HST[fam], p)) as far, i.ct.udp(L.ANY[fam], p) as near:
        for s in (far, near):
            s.setsockopt(LEVEL[fam], 13 if fam == 4 else socket.IPV6_RECVTCLASS, 1)
        for tos in (0, 0xb9, 3, 2):
            for run in (False, True):
                for s in (far, near):
                    s.setsockopt(LEVEL[fam], TOS[fam], tos)
                    s.setsockopt(socket.IPPROTO_UDP, 103, 1000 if run else 0)
                far.send(pattern(3000 if run else 10, 1))
                for n in range(3 if run else 1):
                    data, _, _, who = near.recvmsg(9000, 512)
                    _, c = data, None
                near.sendto(pattern(3000 if run else 10, 2), who)
                for n in range(3 if run else 1):
                    data, c = cmsg(far)
                    assert len(data) == (1000 if run else 10)
                    assert c.get((LEVEL[fam], TOS[fam]), 0) == tos, (run, n)


@FAM
def test_guest_refuses(chain, fam):
    """UDP-36: a closed socket inside becomes a closed port outside, as for any program of the host."""
    p = L.port()
    with chain.start() as i, chain.peer.udp(L.PEER[fam], p) as far:
        with i.ct.udp(to=(L.PEER[fam], p)) as s:
            s.send(b"hello")
            _, who = far.recvfrom(10)
        far.setsockopt(LEVEL[fam], RECVERR[fam], 1)
        far.settimeout(.02)

        def told():
            try:
                far.sendto(b"late", who[:2])
                return offender(far, fam)
            except OSError:
                return None
        assert L.until("the host refuses it", told) == ((3, 3) if fam == 4 else (1, 4)) + (who[0],)


def firewall(ns, hook, *rules, priority=0):
    text = "\n".join(["table inet t {", "chain c {", f"type filter hook {hook} priority {priority};", *rules, "}", "}", ""])
    ns.run("nft", "-f", "-", input=text)


@FAM
def test_reject_inside(chain, fam):
    """A firewall inside that rejects a published TCP port by ICMP resets the client at once."""
    p = L.port()
    with chain.start("-t", str(p)) as i:
        firewall(i.ct, "input", f"tcp dport {p} reject")
        with pytest.raises(ConnectionResetError), chain.peer.connect(L.HST[fam], p, timeout=10) as s:
            s.recv(1)


@FAM
def test_no_protocol(chain, fam):
    """L2-21: a protocol that nobody handles is refused at once."""
    with chain.start() as i:
        s = i.ct.sock(socket.AF_INET if fam == 4 else socket.AF_INET6, socket.SOCK_RAW, 132)
        with s:
            s.settimeout(5)
            s.setsockopt(LEVEL[fam], RECVERR[fam], 1)
            s.connect((L.PEER[fam], 0))
            s.send(b"x" * 40)
            with pytest.raises(OSError) as e:
                s.recv(100)
            assert e.value.errno == (errno.ENOPROTOOPT if fam == 4 else errno.EPROTO)


@pytest.fixture
def no_ping_sockets(chain):
    chain.hst.sysctl("net.ipv4.ping_group_range", "1 0")
    yield
    chain.hst.sysctl("net.ipv4.ping_group_range", "0 2147483647")


def capabilities(pid):
    with open(f"/proc/{pid}/status") as f:
        return {x.split()[0]: int(x.split()[1], 16) for x in f if x.startswith("Cap")}


@FAM
def test_U05_raw(chain, fam, no_ping_sockets):
    """U05: where ping sockets are not permitted, who was started with CAP_NET_RAW pings by a raw socket, and keeps no right."""
    with chain.start(user=False) as i:
        assert "ping" not in i.stderr()
        assert not any(v for k, v in capabilities(i.pid).items() if k in ("CapEff:", "CapPrm:", "CapInh:", "CapAmb:"))
        p = [i.ct.spawn("ping", f"-{fam}", "-n", "-q", "-c20", "-i.002", "-W5", to, stdout=-1, text=True)
             for to in [L.PEER[fam], END[fam], L.GW[fam]] * 2]
        for x in p:
            assert answers(x.communicate(timeout=20)[0]) >= 19
        for size in (0, 1473, 65507):
            r = i.ct.run("ping", f"-{fam}", "-n", "-c1", "-W5", "-s", str(size), L.PEER[fam])
            assert " 0% packet loss" in r.stdout
        r = i.ct.run("ping", f"-{fam}", "-n", "-c1", "-W5", "-t1", END[fam], check=False)
        assert f"From {R1[fam]} icmp_seq=1 Time" in r.stdout, r.stdout
        r = i.ct.run("traceroute", f"-{fam}", "-I", "-n", "-w", "5", "-q", "1", "-m", "5", END[fam])
        assert hops(r.stdout) == path(fam), r.stdout
        r = i.ct.run("ping", f"-{fam}", "-n", "-c2", "-i.2", "-W5", "-M", "do", "-s", "3000", L.PEER[fam], check=False)
        assert re.search("mtu ?[=:] ?1500", r.stdout + r.stderr), r.stdout + r.stderr


@FAM
def test_U05_raw_sees_no_others(chain, fam, no_ping_sockets):
    """U05: replies to other programs of the host do not come near the raw socket: no wake-up for them."""
    with chain.start(user=False) as i:
        r = i.ct.run("ping", f"-{fam}", "-n", "-c1", "-W5", L.PEER[fam])
        assert " 0% packet loss" in r.stdout
        L.until("it sleeps", lambda: i.switches() == i.switches())
        before = i.switches()
        high = [x for x in range(256) if x % 16 == 0]
        for x in high:
            chain.hst.run("ping", f"-{fam}", "-n", "-q", "-c3", "-i.002", "-W5", "-e", str(x << 8 | 7), L.PEER[fam])
        assert i.switches() - before <= 2 * 3


def test_U05_forbidden(chain, no_ping_sockets):
    """U05: one line that says how to permit it; everything else works."""
    with chain.start() as i:
        text = [x for x in i.stderr().splitlines() if "ping" in x]
        assert len(text) == 1 and "net.ipv4.ping_group_range" in text[0] and "sysctl -w" in text[0], i.stderr()
        for _ in range(2):
            assert i.ct.run("ping", "-n", "-c1", "-W1", L.PEER[4], check=False).returncode == 1
        assert len([x for x in i.stderr().splitlines() if "ping" in x]) == 1
    with chain.hst.listen("0.0.0.0", (p := L.port())):  # C13: whoever can't start says why, and nothing else
        for spec in ("22:", str(p)):
            r = chain.invoke("--config-net", "-t", spec, "--", "true")
            assert r.returncode == 1 and r.stderr.count("\n") == 1 and "ping" not in r.stderr, r.stderr


@FAM
def test_D23_iperf3(chain, fam):
    """D23: iperf3 -u as people start it: its datagrams are as large as the container's MTU, and its socket takes no error."""
    p = str(L.port())
    chain.peer.spawn("iperf3", "-s", "-p", p)
    with chain.start() as i:
        def run():
            r = i.ct.run("iperf3", "-u", f"-{fam}", "-c", L.PEER[fam], "-p", p, "-b", "50M", "-n", "2M", check=False)
            return None if "unable to connect" in r.stdout + r.stderr else r
        r = L.until("the server listens", run)
        assert r.returncode == 0 and "(0%)" in r.stdout, r.stdout + r.stderr
