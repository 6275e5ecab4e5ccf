# SPDX-License-Identifier: BSD-3-Clause
"""The forwarding address for DNS: several resolvers behind it, fail-over, the host's resolv.conf followed while we run."""
import contextlib
import os
import re
import shutil
import socket
import struct
import threading
import time

import pytest

import lab as L
from nsnet import Task, UdpServer, until

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
FWD = {4: "169.254.1.1", 6: "fd99::53"}
FORWARD = ["--dns-forward", FWD[4], "--dns-forward", FWD[6]]
S1, S2, S3 = L.PEER, L.FAR, L.GW  # three addresses of the network beyond the host
SILENT = {4: "198.51.100.99", 6: "2001:db8:2::99"}
PATIENCE = 2.5  # a resolver that is silent costs one second, and must not cost the five of a resolver library


# -- small servers

def reply(query, text, rcode=0):
    """The answer to a query of one question: a TXT record with `text`, or none and `rcode`."""
    end = query.index(b"\0", 12) + 5
    head = query[:2] + struct.pack(">HHHHH", 0x8180 | rcode, 1, 0 if rcode else 1, 0, 0)
    data = bytes([len(text)]) + text.encode()
    rr = b"" if rcode else b"\xc0\x0c" + struct.pack(">HHIH", 16, 1, 0, len(data)) + data
    return head + query[12:end] + rr


def over_tcp(answer):
    def serve(s, _peer):
        buf = b""
        while True:
            while len(buf) >= 2 and len(buf) >= 2 + int.from_bytes(buf[:2], "big"):
                n = int.from_bytes(buf[:2], "big")
                out = answer(buf[2:2 + n])
                s.sendall(len(out).to_bytes(2, "big") + out)
                buf = buf[2 + n:]
            got = s.recv(65536)
            if not got:
                return
            buf += got
    return serve


class Dns:
    """A resolver that tells its name as TXT; `seen` counts queries over UDP. silent: it takes them and says nothing."""

    def __init__(self, ns, addr, name, port=53, silent=False, rcode=0, scope=""):
        self.rcode = rcode

        def answer(q):
            return reply(q, name, self.rcode)
        s = ns.sock(socket.AF_INET6 if ":" in addr else socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(ns.call(lambda: socket.getaddrinfo(addr + scope, port, 0, socket.SOCK_DGRAM)[0][4]))
        self.udp = UdpServer(s, lambda data, peer: None if silent else answer(data))
        self.seen = self.udp.seen
        self.tcp = None if silent or scope else ns.serve(addr, port, over_tcp(answer))

    def __enter__(self):
        return self

    def close(self):
        self.udp.close()
        if self.tcp:
            self.tcp.close()

    def __exit__(self, *a):
        self.close()


# -- a host's /etc and /run of our own

class Files:
    """Private /etc and /run for one program, which the test changes from outside."""

    def __init__(self, lab, *servers):
        self.dir = os.path.join(lab.dir, f"files{next(L._count)}")
        self.etc, self.run = os.path.join(self.dir, "etc"), os.path.join(self.dir, "run")
        self.path = os.path.join(self.etc, "resolv.conf")
        for d in (self.dir, self.etc, self.run):
            os.mkdir(d)
            os.chmod(d, 0o755)
        for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache"):
            if os.path.exists("/etc/" + name):
                shutil.copy("/etc/" + name, self.etc)
        self.write(*servers)
        self.wrap = ["unshare", "-m", "sh", "-c",
                     f"set -e; mount --bind {self.etc} /etc; mount --bind {self.run} /run; exec \"$@\"", "sh"]

    @staticmethod
    def text(servers):
        return "# made by a test\n" + "".join(f"nameserver {s}\n" for s in servers) + "search a.test\n"

    def write(self, *servers, path=None):
        """In place."""
        with open(path or self.path, "w") as f:
            f.write(self.text(servers))
        os.chmod(path or self.path, 0o644)

    def replace(self, *servers, path=None):
        """As resolver managers do: a new file in the place of the old one."""
        path = path or self.path
        self.write(*servers, path=path + ".new")
        os.rename(path + ".new", path)

    def link(self, target):
        os.symlink(target, self.path + ".new")
        os.rename(self.path + ".new", self.path)


@contextlib.contextmanager
def started(lab, *servers, opts=(), **kw):
    files = Files(lab, *servers)
    with lab.start(*(opts or FORWARD), wrap=files.wrap, **kw) as i:
        yield i, files


def dig(i, at, name="q.test", *opts, secs=8, port=53):
    """(the text that came back, or the error of dig; seconds). Over UDP they are dig's own, without its start and end; over
    TCP its clock leaves out the connection."""
    begin = time.monotonic()
    r = i.ct.run("dig", "+tries=1", f"+time={secs}", "+noall", "+answer", "+comments", "+stats", "-p", str(port), *opts, f"@{at}", name,
                 "TXT", check=False)
    took = re.search(r"Query time: (\d+) msec", r.stdout)
    m = re.search(r'TXT\s+"([^"]*)"', r.stdout)
    status = re.search(r"status: (\w+)", r.stdout)
    return (m.group(1) if m else status.group(1) if status else r.stdout.strip()[-200:],
            int(took.group(1)) / 1000 if took and "+tcp" not in opts else time.monotonic() - begin)


def fds(i):
    return [os.readlink(f"/proc/{i.pid}/fd/{n}") for n in os.listdir(f"/proc/{i.pid}/fd")]


def asks(i, at, want, *opts, within=PATIENCE, **kw):
    got, secs = dig(i, at, "q.test", *opts, **kw)
    assert got == want, got
    assert secs < within, f"{secs:.1f} s"
    return secs


# -- the ways in: UDP, TCP, port 853

@FAM
def test_N01_udp_tcp_853(lab, fam):
    """R17, N01: ports 53 and 853 of the forwarding address, over UDP and TCP; other ports of it are not the resolver's."""
    with started(lab, S1[fam]) as (i, _), Dns(lab.peer, S1[fam], "one"), Dns(lab.peer, S1[fam], "tls", port=853), \
            Dns(lab.peer, S1[fam], "other", port=5353):
        for port, want in ((53, "one"), (853, "tls")):
            for opt in ("+notcp", "+tcp"):
                asks(i, FWD[fam], want, opt, port=port)
        assert dig(i, FWD[fam], "q.test", "+tcp", secs=1, port=5353)[0] != "other"


@FAM
def test_N01_many_and_pipelined(lab, fam):
    """N01: a hundred queries side by side, each from its own port, and a hundred in one TCP connection."""
    with started(lab, S1[fam], S2[fam]) as (i, _), Dns(lab.peer, S1[fam], "one"), Dns(lab.peer, S2[fam], "two"):
        def query(n):
            return struct.pack(">HHHHHH", n, 0x0100, 1, 0, 0, 0) + b"\1q\4test\0" + struct.pack(">HH", 16, 1)
        socks = [i.ct.udp(to=(FWD[fam], 53)) for _ in range(100)]
        for n, s in enumerate(socks):
            s.send(query(n))
        for n, s in enumerate(socks):
            assert s.recv(512) == reply(query(n), "one")
            s.close()
        with i.ct.connect(FWD[fam], 53) as s:
            s.sendall(b"".join(len(query(n)).to_bytes(2, "big") + query(n) for n in range(100)))
            f = s.makefile("rb")
            for n in range(100):
                assert f.read(int.from_bytes(f.read(2), "big")) == reply(query(n), "one")


def dnsmasq(lab, ns, addr, *records):
    srv = ns.spawn("dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--pid-file=",
                   "--bind-interfaces", f"--listen-address={addr}", "--user=root", *records)
    until("dnsmasq answers", lambda: "192.0.2.7" in lab.out(*ns.prefix, "dig", "+short", "+tries=1", "+time=1", f"@{addr}", "corp.test"))
    return srv


@pytest.mark.parametrize("stub", ["127.0.0.53", "::1"])
def test_N02_stub(lab, stub):
    """N02, U03: the host's stub resolver on its loopback answers for the VPN's names and mDNS's, over both families' addresses."""
    with started(lab, stub) as (i, _):
        srv = dnsmasq(lab, lab.hst, stub, "--address=/corp.test/192.0.2.7", "--address=/public.test/192.0.2.8",
                      "--address=/x.local/192.0.2.9")
        try:
            for at in FWD.values():
                for name, want in (("corp.test", "7"), ("public.test", "8"), ("x.local", "9")):
                    for opt in ("+notcp", "+tcp"):
                        r = i.ct.run("dig", "+short", "+tries=1", "+time=5", opt, f"@{at}", name)
                        assert r.stdout.strip() == f"192.0.2.{want}", (at, name, opt)
        finally:
            srv.kill()
            srv.wait()


@FAM
def test_N02_stub_by_alias(lab, fam):
    """DNS-3, N05: without --dns-forward the gateway's address leads to a loopback resolver, on whichever address that is."""
    stub = {4: "127.0.0.53", 6: "::1"}[fam]
    with started(lab, stub, opts=["-q"]) as (i, _), Dns(lab.hst, stub, "stub"):
        for opt in ("+notcp", "+tcp"):
            asks(i, L.GW[fam], "stub", opt)


@FAM
def test_B02_resolver_on_shared_address(lab, fam):
    """B02: the host's resolver listens on the LAN address that the container has as well."""
    with started(lab, L.HST[fam]) as (i, _), Dns(lab.hst, L.HST[fam], "own"):
        for opt in ("+notcp", "+tcp"):
            asks(i, FWD[fam], "own", opt)


@FAM
def test_other_family(lab, fam):
    """A host that has resolvers of one family only answers at both forwarding addresses; it says so when it refuses, too."""
    other = 10 - fam
    with started(lab, S1[fam]) as (i, _):
        with Dns(lab.peer, S1[fam], "one"):
            for opt in ("+notcp", "+tcp"):
                asks(i, FWD[other], "one", opt)
        with i.ct.udp(to=(FWD[other], 53)) as s:
            s.send(b"\0" * 20)
            with pytest.raises(ConnectionRefusedError):
                s.recv(10)


# -- fail-over

@FAM
@pytest.mark.parametrize("opt", ["+notcp", "+tcp"], ids=["udp", "tcp"])
@pytest.mark.parametrize("how", ["refuses", "silent", "unreachable"])
def test_first_dead(lab, fam, how, opt):
    """The first resolver is dead: the query is answered by the second one, without the guest's asking again, and the next
    ones do not wait for the first one at all."""
    dead = {"refuses": S1, "silent": SILENT, "unreachable": {4: "203.0.113.1", 6: "2001:db8:3::1"}}[how][fam]
    if how == "unreachable":
        lab.hst.run("ip", "route", "replace", "unreachable", dead)
    elif how == "silent":
        lab.peer.run("ip", "route", "replace", "blackhole", dead)
    with started(lab, dead, S2[fam]) as (i, _), Dns(lab.peer, S2[fam], "two") as two:
        first = asks(i, FWD[fam], "two", opt, within=PATIENCE if how == "silent" else .9)
        for _ in range(3):
            asks(i, FWD[fam], "two", opt, within=.9)
        if how == "silent":
            assert first >= .9
        if opt == "+notcp":
            assert len(two.seen) == 4


@FAM
def test_all_dead(lab, fam):
    """Everybody refuses: the guest learns it at once; then one of them comes back, and is asked in spite of its past."""
    with started(lab, S1[fam], S2[fam], S3[fam]) as (i, _):
        for _ in range(2):
            with i.ct.udp(to=(FWD[fam], 53)) as s:
                s.send(b"\1\2" + b"\0" * 20)
                with pytest.raises(ConnectionRefusedError):
                    s.recv(10)
            with pytest.raises(ConnectionRefusedError):
                i.ct.connect(FWD[fam], 53, timeout=5)
        with Dns(lab.peer, S2[fam], "two"):
            for opt in ("+notcp", "+tcp"):
                asks(i, FWD[fam], "two", opt)


@FAM
def test_slow_is_not_dead(lab, fam):
    """A resolver that needs two seconds for a name is the one that answers if the second one does not know better."""
    with started(lab, S1[fam], S2[fam]) as (i, _), Dns(lab.peer, S2[fam], "two", silent=True) as two:
        late = []

        def slow(data, peer):
            t = threading.Timer(2, lambda: srv.sock.sendto(reply(data, "slow"), peer))
            t.start()
            late.append(t)
        with UdpServer(lab.peer.udp(S1[fam], 53), slow) as srv:
            got, secs = dig(i, FWD[fam])
            assert (got, len(two.seen)) == ("slow", 1)
            assert 1.9 < secs < 3.5
        for t in late:
            t.join()


@FAM
@pytest.mark.parametrize("rcode", [2, 5], ids=["servfail", "refused"])
def test_no_answer(lab, fam, rcode):
    """A resolver that can't tell is passed over, as resolver libraries do; if nobody can, the guest gets what they say."""
    with started(lab, S1[fam], S2[fam]) as (i, _), Dns(lab.peer, S1[fam], "one", rcode=rcode), Dns(lab.peer, S2[fam], "two") as two:
        asks(i, FWD[fam], "two")
        two.rcode = rcode
        asks(i, FWD[fam], {2: "SERVFAIL", 5: "REFUSED"}[rcode])


@FAM
@pytest.mark.parametrize("rcode", [2, 5], ids=["servfail", "refused"])
def test_no_answer_rest_silent(lab, fam, rcode):
    """One resolver can't tell, the others say nothing: the guest gets that answer, as it is, before it gives up waiting."""
    with started(lab, S1[fam], S2[fam], S3[fam]) as (i, _), Dns(lab.peer, S1[fam], "one", rcode=rcode), \
            Dns(lab.peer, S2[fam], "two", silent=True) as two, Dns(lab.peer, S3[fam], "three", silent=True) as three:
        asks(i, FWD[fam], {2: "SERVFAIL", 5: "REFUSED"}[rcode], within=3.5)
        assert (len(two.seen), len(three.seen)) == (1, 1)
        query = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + b"\1q\4test\0" + struct.pack(">HH", 16, 1)
        with i.ct.udp(to=(FWD[fam], 53), timeout=3.5) as s:
            s.send(query)
            assert s.recv(512) == reply(query, "one", rcode)


@FAM
def test_one_flow_goes_on(lab, fam):
    """A client that keeps its port for years follows as well: the resolver that it was served by falls silent."""
    def query(n):
        return struct.pack(">HHHHHH", n, 0x0100, 1, 0, 0, 0) + b"\1q\4test\0" + struct.pack(">HH", 16, 1)
    with started(lab, S1[fam], S2[fam]) as (i, _), Dns(lab.peer, S2[fam], "two"), i.ct.udp(to=(FWD[fam], 53), timeout=PATIENCE) as s:
        with Dns(lab.peer, S1[fam], "one"):
            for n in range(3):
                s.send(query(n))
                assert s.recv(512) == reply(query(n), "one")
        with Dns(lab.peer, S1[fam], "one", silent=True):
            for n in range(3, 5):  # a query for each family at the same time
                s.send(query(n))
            assert {s.recv(512) for _ in range(2)} == {reply(query(n), "two") for n in range(3, 5)}


# -- IPv6 resolvers on a link

def two_links(lab):
    """The lab with a second link, up1 to e1, and fe80::53 at the far end of both."""
    lab.ip("link", "add", "up1", "netns", lab.hst.name, "type", "veth", "peer", "name", "e1", "netns", lab.peer.name)
    lab.batch(lab.peer, "addr add fe80::53/64 dev e1 nodad", "link set e1 up", "addr add fe80::53/64 dev e0 nodad")
    lab.batch(lab.hst, "link set up1 up")
    lab.settled()
    until("routes of the new link", lambda: "fe80::/64 dev up1" in lab.out(*lab.hst.prefix, "ip", "-6", "route"))
    return lab


def test_link_local_scope(own_lab):
    """fe80::53%up1: the interface in the file counts, not the one that the guest's own link-local traffic goes to."""
    lab = two_links(own_lab)
    with started(lab, "fe80::53%up1") as (i, f), Dns(lab.peer, "fe80::53", "e1", scope="%e1"), \
            Dns(lab.peer, "fe80::53", "e0", scope="%e0"):
        for at in FWD.values():
            asks(i, at, "e1")
        f.replace("fe80::53%up0")
        until("the other interface", lambda: dig(i, FWD[6])[0] == "e0")
        f.replace("fe80::53%missing0", "fe80::53%up1")
        until("the interface that is there", lambda: dig(i, FWD[6])[0] == "e1")
        f.replace("fe80::53")
        until("without a scope: the guest's link", lambda: dig(i, FWD[6])[0] == "e0")


def test_link_local_scope_by_option(own_lab):
    """--dns-host fe80::53%up1, by name, by number, in brackets, where no resolver is advertised; what is no interface, or no
    link-local address, is refused."""
    lab = two_links(own_lab)
    idx = lab.hst.call(lambda: socket.if_nametoindex("up1"))
    with Dns(lab.peer, "fe80::53", "e1", scope="%e1"), Dns(lab.peer, "fe80::53", "e0", scope="%e0"):
        for want, text, *opts in (("e1", "fe80::53%up1"), ("e1", f"fe80::53%{idx}"), ("e1", "[fe80::53%up1]", "-D", "none"),
                                  ("e0", "fe80::53%up0"), ("e0", "fe80::53")):
            with started(lab, S1[4], opts=[*opts, *FORWARD, "--dns-host", text]) as (i, _):
                asks(i, FWD[6], want)
    for text, say in (("fe80::53%missing0", r"fe80::53%missing0: missing0 is no interface of the host: No such device"),
                      ("fe80::53%4711", r"4711 is no interface"), ("2001:db8::1%up1", "link-local address of IPv6 only"),
                      ("192.0.2.1%up1", "link-local address of IPv6 only")):
        r = lab.invoke("--config-net", *FORWARD, "--dns-host", text, "--", "true")
        assert r.returncode == 1 and re.search(say, r.stderr), r
        assert len(r.stderr.strip().splitlines()) == 1, r.stderr


# -- the file changes

@pytest.fixture(params=["command", "pid"])
def mode(request):
    return request.param


CHANGES = {
    "rename": lambda f, s: f.replace(s),
    "in-place": lambda f, s: f.write(s),
    "empty-first": lambda f, s: (f.write(), f.write(s)),
    "removed-first": lambda f, s: (os.unlink(f.path), f.write(s)),
    "link": lambda f, s: (f.write(s, path=f.run + "/elsewhere"), f.link("../run/elsewhere")),
}


@pytest.mark.parametrize("how", CHANGES)
def test_N03_change(lab, how):
    """N03: the host's file changes, the old server is gone: the next lookup, within a second, uses the new one."""
    with started(lab, S1[4], S1[6]) as (i, f), Dns(lab.peer, S2[4], "two"):
        with Dns(lab.peer, S1[4], "one"), Dns(lab.peer, S1[6], "one"):
            for at in FWD.values():
                asks(i, at, "one")
        CHANGES[how](f, S2[4])
        for at in FWD.values():
            until("the new server answers", lambda at=at: dig(i, at, secs=1)[0] == "two", 1.5)
            asks(i, at, "two", "+tcp", within=1)


@pytest.mark.parametrize("target", ["../run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf"])
def test_N03_link_target(lab, mode, target):
    """The file is a link into /run, as with systemd-resolved: its target is replaced, vanishes with its directory, and comes back."""
    files = Files(lab)
    there = os.path.join(files.run, "systemd", "resolve", os.path.basename(target))
    files.link(target)
    with lab.start(*FORWARD, wrap=files.wrap, mode=mode) as i, Dns(lab.peer, S1[4], "one"), Dns(lab.peer, S2[4], "two"):
        def now(want):
            until(f"{want} answers", lambda: dig(i, FWD[4], secs=1)[0] == want, 3)
        os.makedirs(os.path.dirname(there))
        files.write(S1[4], path=there)
        now("one")
        files.replace(S2[4], path=there)
        now("two")
        files.write(S1[4], path=there)
        now("one")
        shutil.rmtree(os.path.join(files.run, "systemd"))
        now("one")  # nothing better is known
        os.makedirs(os.path.dirname(there))
        files.replace(S2[4], path=there)
        now("two")
        files.replace(S1[4])  # no link any more
        now("one")
        assert i.alive()


def test_N03_options_stay(lab):
    """What the command line says is not changed by the file; the other family's resolver follows it."""
    with started(lab, S1[4], S1[6], opts=[*FORWARD, "--dns-host", S1[4]]) as (i, f), Dns(lab.peer, S1[4], "one"), \
            Dns(lab.peer, S2[6], "two"), Dns(lab.peer, S2[4], "wrong"):
        f.replace(S2[4], S2[6])
        until("the new server answers", lambda: dig(i, FWD[6], secs=1)[0] == "two", 3)
        asks(i, FWD[4], "one")


def test_burst_of_changes(lab):
    """A burst of changes: the last one counts, and no watch or descriptor is left behind."""
    with started(lab, S1[4]) as (i, f), Dns(lab.peer, S1[4], "one"), Dns(lab.peer, S2[4], "two"):
        asks(i, FWD[4], "one")
        for n in range(200):
            f.replace(S1[4] if n % 2 == 0 else S2[4])
        f.replace(S2[4])
        until("the last one counts", lambda: dig(i, FWD[4], secs=1)[0] == "two", 3)
        assert fds(i).count("anon_inode:inotify") == 1 and len(fds(i)) < 40


def test_no_resolver(lab):
    """No resolver at all: a start with one line that says so; then there is one."""
    with started(lab) as (i, f), Dns(lab.peer, S1[4], "one"):
        assert re.search(r"resolver.*/etc/resolv.conf.*--dns-host", i.stderr())
        f.write(S1[4])
        until("the server answers", lambda: dig(i, FWD[4], secs=1)[0] == "one", 3)


def test_parallel_while_changing(lab):
    """Queries all the time while the file changes back and forth: each is answered."""
    with started(lab, S1[4], S1[6]) as (i, f), Dns(lab.peer, S1[4], "one"), Dns(lab.peer, S2[4], "two"), Dns(lab.peer, S1[6], "one"):
        stop = threading.Event()

        def flip():
            n = 0
            while not stop.wait(.02):
                n += 1
                (f.replace if n % 3 else f.write)(S1[4] if n % 2 else S2[4])
        t = Task(flip)
        try:
            for _ in range(15):
                for at in FWD.values():
                    got, secs = dig(i, at)
                    assert got in ("one", "two") and secs < 1, (got, secs)
        finally:
            stop.set()
            t.result()


def test_no_watch_left(lab):
    """A user who has no inotify instance left: the file is looked at when the guest asks."""
    files = Files(lab, S1[4])
    wrap = [*files.wrap, "unshare", "-Ur", "sh", "-c", "echo 0 > /proc/sys/user/max_inotify_instances; exec \"$@\"", "sh"]
    with lab.start(*FORWARD, wrap=wrap, user=False) as i, Dns(lab.peer, S1[4], "one"), Dns(lab.peer, S2[4], "two"):
        assert "anon_inode:inotify" not in fds(i)
        asks(i, FWD[4], "one")
        files.replace(S2[4])
        until("the new server answers", lambda: dig(i, FWD[4], secs=1)[0] == "two", 5)
