# SPDX-License-Identifier: BSD-3-Clause
"""{IPv4, IPv6} x {TCP, UDP, ping} x {in, out} x {command, PID, netns path} x {default MTU, 1500}, with real programs."""
import http.server
import os

import pytest

import lab as L
from nsnet import UdpServer, checksum, echo, hello, recv_bulk, send_bulk, until, url_host

COMBOS = [(m, mtu) for m in L.MODES for mtu in (None, 1500)]


@pytest.fixture(scope="module", params=[pytest.param((m, mtu), id=f"{m}-{mtu or 'default'}",
                                                     marks=pytest.mark.xdist_group(f"matrix-{mtu}")) for m, mtu in COMBOS])
def inst(request, lab):
    mode, mtu = request.param
    lab.ports = [L.port() for _ in range(4)]
    tcp, udp = lab.ports[:2]
    with lab.start("-t", f"{tcp}", "-u", f"{udp}", mode=mode, mtu=mtu) as i:
        i.tcp, i.udp, i.mtu = tcp, udp, mtu
        yield i


FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])


@FAM
def test_tcp_out(lab, inst, fam):
    """socat in the container to a server in the LAN: data both ways, and the host's address as source."""
    p = L.port()
    data = os.urandom(65536).hex()
    with lab.peer.serve(L.PEER[fam], p, echo) as srv:
        r = inst.ct.run("socat", "-t20", "-", f"TCP{fam}:{url_host(L.PEER[fam])}:{p}", input=data)
    assert r.stdout == data
    assert srv.seen[0][0] in (L.HST[fam], L.HST2[fam])


@FAM
def test_tcp_out_curl(lab, inst, fam, tmp_path):
    body = os.urandom(300000)

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *a):
            pass

    def page(s, peer):
        Page(s, peer, None)
    p, got = L.port(), tmp_path / "got"
    with lab.peer.serve(L.FAR[fam], p, page):
        inst.ct.run("curl", "-sS", "-f", "-m", "20", "-o", str(got), f"http://{url_host(L.FAR[fam])}:{p}/x")
    assert got.read_bytes() == body


@FAM
def test_tcp_in(lab, inst, fam):
    """A published port: the server in the container sees the real client, whichever of the host's addresses was used."""
    srv = inst.ct.spawn("socat", f"TCP{fam}-LISTEN:{inst.tcp},bind={url_host(L.ANY[fam])},fork,reuseaddr" + (",ipv6only" if fam == 6 else ""),
                        "SYSTEM:echo $SOCAT_PEERADDR; cat")
    listening(inst, "tcp", inst.tcp, fam)
    try:
        for src, dst in ((L.PEER, L.HST), (L.GW, L.HST2)):
            with lab.peer.connect(dst[fam], inst.tcp, src=src[fam]) as s:
                f = s.makefile("rwb")
                assert same(f.readline(), src[fam])
                f.write(b"x" * 100000 + b"\n")
                f.flush()
                assert f.readline() == b"x" * 100000 + b"\n"
    finally:
        srv.kill()
        srv.wait()


@FAM
def test_udp_out(lab, inst, fam):
    """Datagrams keep their source port and size; the answer comes back from the address that was asked."""
    p, sport = L.port(), L.port()
    with UdpServer(lab.peer.udp(L.PEER[fam], p), lambda d, _: b"re:" + d) as srv:
        r = inst.ct.run("socat", "-T10", "-t.3", "-", f"UDP{fam}:{url_host(L.PEER[fam])}:{p},sourceport={sport}", input="ask")
        assert r.stdout == "re:ask"
        assert srv.seen[0][1][0] in (L.HST[fam], L.HST2[fam])
        assert srv.seen[0][1][1] == sport
        with inst.ct.udp(to=(L.PEER[fam], p)) as s:
            for size in (0, 1, 1400, 1449, 9000, 60000):
                if size + 51 <= (inst.mtu or 65520):  # IPv6 and UDP headers, and our "re:"
                    data = os.urandom(size)
                    s.send(data)
                    assert s.recv(65536) == b"re:" + data


@FAM
def test_udp_in(lab, inst, fam):
    """A published port: real client address inside, and replies from the address that the client asked."""
    srv = inst.ct.spawn("socat", f"UDP{fam}-RECVFROM:{inst.udp},fork,reuseaddr", "SYSTEM:echo $SOCAT_PEERADDR $SOCAT_PEERPORT")
    listening(inst, "udp", inst.udp, fam)
    try:
        for src in (L.PEER, L.GW):
            for dst in (L.HST, L.HST2):
                # connected: the kernel drops a reply from any other address
                with lab.peer.udp(src[fam], to=(dst[fam], inst.udp), timeout=1) as s:
                    addr, port = ask_socat(s).split()
                    assert same(addr, src[fam]) and int(port) == s.getsockname()[1]
    finally:
        srv.kill()
        srv.wait()


def ask_socat(s):
    """Ask until there is an answer: socat misses datagrams that come while it forks (test_addr counts every one)."""
    for _ in range(8):
        s.send(b"who")
        try:
            return s.recv(2000)
        except TimeoutError:
            pass
    raise AssertionError("no answer to eight datagrams")


@FAM
def test_ping(lab, inst, fam):
    for size in (56, 1400, 8000)[:2 if inst.mtu else 3]:
        r = inst.ct.run("ping", f"-{fam}", "-n", "-c", "2", "-i", "0.2", "-W", "5", "-s", str(size), L.PEER[fam])
        assert " 0% packet loss" in r.stdout and "2 received" in r.stdout, r.stdout
        assert "DUP" not in r.stdout


@FAM
def test_iperf3(lab, inst, fam):
    """A real measuring program through a published port, both directions."""
    srv = inst.ct.spawn("iperf3", "-s", f"-{fam}", "-p", str(inst.tcp))
    listening(inst, "tcp", inst.tcp, fam)
    try:
        for more in ([], ["-R"]):
            r = lab.peer.run("iperf3", "-c", L.HST[fam], "-p", str(inst.tcp), "-n", "8M", "-J", *more)
            assert '"error"' not in r.stdout
    finally:
        srv.kill()
        srv.wait()


@FAM
def test_mtu_and_addresses(lab, inst, fam):
    """The container has the host's addresses and the MTU that was asked for, at once usable."""
    text = lab.out(*inst.ct.prefix, "ip", f"-{fam}", "addr", "show", "dev", inst.tap)
    assert f"mtu {inst.mtu or 65520}" in text
    assert L.HST[fam] + "/" in text and L.HST2[fam] + "/" in text and "tentative" not in text
    assert "default via " + L.GW[fam] in lab.out(*inst.ct.prefix, "ip", f"-{fam}", "route")


@FAM
def test_bulk_little(lab, inst, fam):
    """Enough data to pass through every window and buffer once, both ways, checked byte by byte."""
    p, total = L.port(), 8 << 20
    with lab.peer.serve(L.PEER[fam], p, lambda s, _: (send_bulk(s, total, 2), recv_bulk(s, 1))):
        with inst.ct.connect(L.PEER[fam], p) as s:
            assert recv_bulk(s, total) == (total, checksum(total, 2))


def listening(inst, proto, port, fam):
    """Wait until a process in the container listens."""
    path = f"/proc/{inst.hold.pid}/net/{proto}{'6' if fam == 6 else ''}"
    want = f":{port:04X} "

    def there():
        with open(path) as f:
            return any(want in line.split(" rem")[0][:60] for line in f)
    until(f"a {proto} listener on port {port} in the container", there)


def same(text, addr):
    import ipaddress
    return ipaddress.ip_address(text.decode().strip().strip("[]")) == ipaddress.ip_address(addr)
