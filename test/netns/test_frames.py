# SPDX-License-Identifier: BSD-3-Clause
"""What a hostile or broken container can put on the wire: frames of every length, nonsense headers, bad TCP.

Frames are written with packet sockets on the container's side of the tap. NETNS_SEED repeats a run of the random ones.
"""
import errno
import os
import random
import socket
import struct
import time

import pytest

import lab as L
from nsnet import Task, echo, until

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
SEED = int(os.environ.get("NETNS_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
GUEST = {4: "10.77.0.99", 6: "fd77::99"}  # an address that the container's kernel does not have: it stays out of the way
ETH_P_ALL, SOL_PACKET, PACKET_VNET_HDR, PACKET_OUTGOING, VNET_LEN = 3, 263, 15, 4, 10
FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
pytestmark = pytest.mark.xdist_group("frames")


def packet_socket(inst, vnet=False, listen=False):
    s = inst.ct.sock(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL if listen else 0))
    if vnet:
        s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    inst.ct.call(lambda: s.bind((inst.tap, 0)))
    s.settimeout(3)
    return s


def tap_mac(inst):
    with os.popen(
            " ".join([*inst.ct.prefix, "ip", "-br", "link", "show", "dev", inst.tap])) as f:
        return bytes.fromhex(f.read().split()[2].replace(":", ""))


class Kept:
    """A connection and a UDP flow that were open before and must work afterwards."""

    def __init__(self, lab, inst, fam):
        self.p, self.inst = L.port(), inst
        self.srv = lab.peer.serve(L.PEER[fam], self.p, echo)
        self.s = inst.ct.connect(L.PEER[fam], self.p, timeout=10)
        self.check(b"before")

    def check(self, data):
        assert self.inst.alive(), f"the program ended: {self.inst.stderr()}"
        self.s.sendall(data)
        got = b""
        while len(got) < len(data):
            more = self.s.recv(100)
            assert more, "the connection that was open before has ended"
            got += more
        assert got == data

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.s.close()
        self.srv.close()


def shapes(rng, mac, length):
    """Frames of one length: noise, and noise behind headers that are right so far."""
    def noise(n):
        return rng.randbytes(max(0, n))
    dst = bytes.fromhex("9a559a559a55")
    eth = dst + mac
    proto = rng.choice([1, 6, 17, 58, 0, 43, 44, 50, 51, 60, 41, 47, 59, 132, 255])
    rest = length - 14
    yield noise(length)
    yield (eth + rng.choice([b"\x08\x00", b"\x86\xdd", b"\x08\x06", b"\x81\x00", b"\x88\xa8", b"\x00\x10"]) + noise(rest))[:length]
    src4, dst4 = socket.inet_aton("10.77.0.99"), rng.choice([socket.inet_aton("10.77.0.3"), noise(4), b"\x7f\0\0\1", b"\xff" * 4])
    ip4 = struct.pack("!BBHHHBBH4s4s", rng.choice([0x45, 0x45, 0x4f, 0x40, 0x65]), 0, rng.choice([rest, rest, 0, 65535, 19]) & 0xffff,
                      rng.getrandbits(16), rng.choice([0, 0, 0x4000, 0x2000, 0x1fff]), 64, proto, 0, src4, dst4)
    yield (eth + b"\x08\x00" + ip4 + noise(rest - 20))[:length]
    src6 = socket.inet_pton(socket.AF_INET6, "fd77::99")
    dst6 = rng.choice([socket.inet_pton(socket.AF_INET6, "fd77::3"), noise(16), b"\0" * 15 + b"\1", b"\xff\2" + noise(14)])
    ip6 = struct.pack("!IHBB16s16s", rng.choice([6, 6, 6, 5]) << 28 | rng.getrandbits(20), rng.choice([rest - 40, 0, 65535]) & 0xffff, proto,
                      rng.choice([255, 1, 0]), src6, dst6)
    yield (eth + b"\x86\xdd" + ip6 + noise(rest - 40))[:length]
    # extension headers that lie about what follows
    chain = b"".join(bytes([rng.choice([0, 43, 44, 51, 60, proto]), rng.choice([0, 0, 1, 255])]) + noise(6) for _ in range(rng.randrange(9)))
    yield (eth + b"\x86\xdd" + ip6[:6] + bytes([rng.choice([0, 43, 44, 51, 60])]) + ip6[7:] + chain + noise(rest - 40 - len(chain)))[:length]
    arp = struct.pack("!HHBBH", 1, 0x800, rng.choice([6, 0, 255]), rng.choice([4, 0, 255]), rng.choice([1, 2, 0, 9])) + noise(20)
    yield (eth + b"\x08\x06" + arp + noise(rest - 28))[:length]
    icmp6 = bytes([rng.choice([133, 134, 135, 136, 137, 128, 143]), 0]) + noise(2) + noise(4) + noise(16) + bytes([rng.randrange(26), rng.choice([0, 1, 255])])
    yield (eth + b"\x86\xdd" + struct.pack("!IHBB16s16s", 6 << 28, (rest - 40) & 0xffff, 58, 255, src6, dst6) + icmp6 + noise(rest))[:length]


@pytest.mark.heavy
@FAM
def test_every_length(lab, fam):
    """Frames of 0 to 65,535 bytes: short ones all, then a seventh; random content behind every kind of header."""
    print(f"NETNS_SEED={SEED}")
    rng = random.Random(SEED + fam)
    with lab.start() as i, Kept(lab, i, fam) as kept:
        s, mac, sent, refused = packet_socket(i), tap_mac(i), 0, 0
        # all short ones; of the long ones every seventh, beginning anywhere, so that many runs cover all
        lengths = [*range(0, 1600), *range(1600 + rng.randrange(7), 65500, 7), *range(65500, 65536)]
        for n, length in enumerate(lengths):
            for frame in shapes(rng, mac, length):
                frame = frame.ljust(length, b"\0")
                try:
                    s.send(frame)
                    sent += 1
                except OSError as e:  # the kernel does not send what is shorter than a header or longer than the MTU
                    assert e.errno in (errno.EINVAL, errno.EMSGSIZE, errno.ENOBUFS), e
                    refused += 1
            if n % 500 == 0:
                kept.check(b"%d" % length)
        kept.check(b"after")
        assert sent > 5 * len(lengths)
        assert sent > refused
        s.close()


@pytest.mark.heavy
@FAM
def test_nonsense_offloads(lab, fam):
    """Frames with an offload header that does not fit them: wrong sizes, wrong protocols, checksums anywhere."""
    print(f"NETNS_SEED={SEED}")
    rng = random.Random(SEED + 10 + fam)
    with lab.start() as i, Kept(lab, i, fam) as kept:
        s, mac, sent = packet_socket(i, vnet=True), tap_mac(i), 0
        for _ in range(600):
            length = rng.choice([14, 34, 54, 60, 74, 100, 1514, 3000, 20000, 65000])
            for frame in shapes(rng, mac, length):
                start = rng.choice([0, 14, 34, 54, rng.randrange(0, 80), 65535])
                hdr = struct.pack("<BBHHHH", rng.choice([0, 1, 2]), rng.choice([0, 1, 3, 4, 5, 0x81]), rng.choice([0, 14, 54, 74, 65535]),
                                  rng.choice([0, 1, 7, 536, 1448, 65535]), start, rng.choice([0, 6, 16, 65535]))
                try:
                    s.send(hdr + frame.ljust(length, b"\0"))
                    sent += 1
                except OSError:
                    pass
        kept.check(b"after")
        assert sent > 200, "the kernel refused nearly everything: the test proves nothing"
        s.close()


# -- a TCP of our own, under an address that the container's kernel does not have

class Segment:
    """A TCP header by scapy, the number of its data bytes, and that of one segment where the frame is a joined one."""

    def __init__(self, tcp):
        self.tcp, self.count, self.size = tcp, 0, 0

    def __getattr__(self, name):
        return getattr(self.tcp, name)

    def __repr__(self):
        return f"{self.tcp.summary()} seq={self.tcp.seq} ack={self.tcp.ack} +{self.count}"


class FakeTcp:
    """One connection from GUEST to a server in the LAN, segment by segment, with scapy."""

    def __init__(self, lab, inst, fam, options=(), sport=None):
        import logging
        logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
        from scapy.layers.inet import IP, TCP
        from scapy.layers.inet6 import IPv6
        from scapy.layers.l2 import Ether
        self.Ether, self.IP, self.TCP = Ether, IPv6 if fam == 6 else IP, TCP
        self.fam, self.sock, self.mac = fam, packet_socket(inst, vnet=True, listen=True), tap_mac(inst)
        self.port, self.sport, self.options = L.port(), sport or L.port(), list(options)
        self.lsock = lab.peer.listen(L.PEER[fam], self.port)
        self.seq, self.ack, self.win, self.syn_ack, self.conn, self.isn = 5000, 0, 65535, None, None, 5000

    def send(self, flags, data=b"", seq=None, ack=None, win=None, options=()):
        pkt = self.Ether(src=self.mac, dst="9a:55:9a:55:9a:55") / self.IP(src=GUEST[self.fam], dst=L.PEER[self.fam]) / \
            self.TCP(sport=self.sport, dport=self.port, flags=flags, seq=(self.seq if seq is None else seq) & 0xffffffff,
                     ack=(self.ack if ack is None else ack) & 0xffffffff, window=self.win if win is None else win, options=list(options)) / data
        self.sock.send(bytes(VNET_LEN) + bytes(pkt))

    def recv(self, secs=3, want=lambda t: True):
        """The next segment for us that `want`s, as (TCP layer, payload)."""
        end = time.monotonic() + secs
        while time.monotonic() < end:
            self.sock.settimeout(max(.01, end - time.monotonic()))
            try:
                raw, addr = self.sock.recvfrom(70000)
            except socket.timeout:
                break
            gso, raw = raw[1] and int.from_bytes(raw[4:6], "little"), raw[VNET_LEN:]
            if addr[2] == PACKET_OUTGOING or len(raw) < 54:
                continue
            pkt = self.Ether(raw)
            if self.TCP not in pkt or pkt[self.TCP].dport != self.sport:
                continue
            t = Segment(pkt[self.TCP])
            # scapy counts the padding of a short frame as payload
            t.count = (pkt[self.IP].len - 4 * pkt[self.IP].ihl if self.fam == 4 else pkt[self.IP].plen) - 4 * t.dataofs
            t.size = gso or t.count
            if want(t):
                return t, bytes(t.payload)[:t.count]
        return None, b""

    def connect(self):
        self.send("S", options=self.options)
        self.syn_ack, _ = self.recv(want=lambda t: t.flags.S)
        assert self.syn_ack, "no answer to the SYN"
        assert self.syn_ack.flags.A and self.syn_ack.ack == self.isn + 1
        self.seq, self.ack = self.isn + 1, self.syn_ack.seq + 1
        self.send("A")
        self.conn, _ = self.lsock.accept()
        self.conn.settimeout(10)
        return self

    def take(self, count, each=None):
        """Receive `count` bytes in order, acknowledging each segment."""
        got, end = b"", time.monotonic() + 15
        while len(got) < count and time.monotonic() < end:
            t, data = self.recv(want=lambda t: t.count)
            if not t:
                continue
            if each:
                each(t, data)
            skip = (self.ack - t.seq) & 0xffffffff
            if skip < 1 << 31 and skip < len(data):
                got += data[skip:]
                self.ack = (self.ack + len(data) - skip) & 0xffffffff
            self.send("A")
        assert len(got) >= count, f"{len(got)} of {count} bytes arrived"
        return got

    def works(self):
        """Both directions still carry data."""
        self.send("PA", b"ping")
        self.seq += 4
        assert self.conn.recv(100) == b"ping"
        self.conn.sendall(b"pong")
        assert self.take(4) == b"pong"

    def close(self):
        if self.conn:
            self.conn.close()
        self.lsock.close()
        self.sock.close()


@pytest.fixture
def fake(lab):
    """Make a FakeTcp on a fresh instance; afterwards the program lives and an older connection works."""
    made = []

    def make(fam, **kw):
        inst = lab.start()
        kept = Kept(lab, inst, fam)
        made.append((inst, kept, FakeTcp(lab, inst, fam, **kw)))
        return made[-1][2]
    yield make
    for inst, kept, tcp in made:
        tcp.close()
        kept.check(b"afterwards")
        kept.__exit__()
        inst.stop()


DATA = bytes(range(256)) * 20


@FAM
@pytest.mark.parametrize("mss", [0, 1, 3, 47, 65535, None])
def test_mss(fake, fam, mss):
    """W-61: any MSS option, none at all: data of a sane size arrive."""
    tcp = fake(fam, options=[] if mss is None else [("MSS", mss)]).connect()
    # without the option RFC 9293 3.7.1; nonsense is raised to what Linux takes as the least, or to the default
    limit = (536 if fam == 4 else 1220) if mss is None or mss < 88 else mss
    sizes = []
    task = Task(tcp.conn.sendall, DATA)
    assert tcp.take(len(DATA), lambda t, d: sizes.append(t.size)) == DATA
    task.result()
    assert max(sizes) <= limit
    tcp.works()


@FAM
@pytest.mark.parametrize("shift", [14, 15, 255])
def test_window_scale_too_large(fake, fam, shift):
    """RFC 7323 2.3: a shift above 14 counts as 14."""
    tcp = fake(fam, options=[("MSS", 1460), ("WScale", shift)])
    tcp.win = 2  # 32 KiB
    tcp.connect()
    task = Task(tcp.conn.sendall, DATA * 20)
    flight = []
    assert tcp.take(len(DATA) * 20, lambda t, d: flight.append((t.seq + len(d) - tcp.ack) & 0xffffffff)) == DATA * 20
    task.result()
    assert max(flight) <= 2 << 14


@FAM
def test_no_window_scale(fake, fam):
    """W-46: a guest without the option gets none, and neither window is scaled."""
    tcp = fake(fam, options=[("MSS", 1460)])
    tcp.win = 3000
    tcp.connect()
    assert not [o for o in tcp.syn_ack.options if o[0] == "WScale"]
    task = Task(tcp.conn.sendall, DATA * 4)
    flight, windows = [], []

    def each(t, d):
        flight.append((t.seq + len(d) - tcp.ack) & 0xffffffff)
        windows.append(t.window)
    assert tcp.take(len(DATA) * 4, each) == DATA * 4
    task.result()
    assert max(flight) <= 3000
    assert min(windows) > 8000, "the window shown to a guest without scaling was scaled"
    tcp.works()


@FAM
@pytest.mark.parametrize("ahead", [1, 1000, 1 << 30])
def test_ack_of_unsent_data(fake, fam, ahead):
    """W-50: an ACK of data never sent is answered with an ACK and changes nothing."""
    tcp = fake(fam).connect()
    tcp.works()
    tcp.send("A", ack=tcp.ack + ahead)
    t, _ = tcp.recv(want=lambda t: not t.count)
    assert t and t.flags == "A" and t.ack == tcp.seq
    task = Task(tcp.conn.sendall, DATA)
    assert tcp.take(len(DATA)) == DATA
    task.result()
    tcp.works()


@FAM
def test_old_data_is_acknowledged(fake, fam):
    """W-48: duplicate data and a duplicate FIN get an ACK each, and the peer sees them once."""
    tcp = fake(fam).connect()
    tcp.send("PA", b"abc")
    tcp.seq += 3
    assert tcp.conn.recv(100) == b"abc"
    assert tcp.recv(want=lambda t: t.ack == tcp.seq)[0]
    tcp.send("PA", b"abc", seq=tcp.seq - 3)
    t, _ = tcp.recv()
    assert t and t.ack == tcp.seq and not t.flags.R
    tcp.works()
    tcp.send("FA")
    tcp.seq += 1
    assert tcp.conn.recv(100) == b""
    assert tcp.recv(want=lambda t: t.ack == tcp.seq)[0]
    tcp.send("FA", seq=tcp.seq - 1)
    t, _ = tcp.recv()
    assert t and t.ack == tcp.seq and not t.flags.R
    tcp.conn.sendall(b"rest")
    assert tcp.take(4) == b"rest"


@FAM
def test_out_of_order(fake, fam):
    """Segments in the wrong order, overlapping and partly old: the peer gets each byte once, in order."""
    tcp = fake(fam).connect()
    base = tcp.seq
    for at, end in ((4, 8), (6, 10), (0, 2), (1, 5), (0, 10), (9, 12)):
        tcp.send("PA", b"0123456789AB"[at:end], seq=base + at)
    got = b""
    while len(got) < 12:
        tcp.send("PA", b"0123456789AB"[len(got):], seq=base + len(got))
        got += tcp.conn.recv(100)
    assert got == b"0123456789AB"
    tcp.seq = base + 12
    tcp.works()


@FAM
def test_reset_needs_right_sequence(fake, fam):
    """RFC 5961: a RST elsewhere in or outside the window does not end the connection, the right one does."""
    tcp = fake(fam).connect()
    tcp.works()
    for off in (100000000, -5, 7):
        tcp.send("R", seq=tcp.seq + off)
    tcp.works()
    tcp.send("R")
    with pytest.raises(ConnectionResetError):
        tcp.conn.recv(100)


@FAM
def test_syn_again(fake, fam):
    """A repeated SYN gets the same answer, not another connection."""
    tcp = fake(fam, options=[("MSS", 1460)])
    tcp.send("S", options=tcp.options)
    first, _ = tcp.recv(want=lambda t: t.flags.S)
    tcp.send("S", options=tcp.options)
    again, _ = tcp.recv(want=lambda t: t.flags.S or t.flags.A)
    assert first and again and (not again.flags.S or again.seq == first.seq)
    tcp.seq, tcp.ack = tcp.isn + 1, first.seq + 1
    tcp.send("A")
    tcp.conn, _ = tcp.lsock.accept()
    tcp.conn.settimeout(10)
    tcp.works()


@FAM
def test_zero_window_and_probe(fake, fam):
    """The guest's window closes for two seconds and longer: we probe, do not reset, and go on when it opens."""
    tcp = fake(fam).connect()
    tcp.win = 0
    tcp.send("A")
    tcp.conn.sendall(b"x" * 3000)
    probes, end = 0, time.monotonic() + 8
    while probes < 2 and time.monotonic() < end:
        t, data = tcp.recv(4)
        if t:
            assert not t.flags.R
            probes += 1
            tcp.send("A")
    assert probes >= 2, "no window probes"
    tcp.win = 65535
    tcp.send("A")
    assert tcp.take(3000) == b"x" * 3000


@FAM
def test_flags_without_sense(fake, fam):
    """SYN and FIN together, no flags, all flags, in and outside of a connection: nothing else is disturbed."""
    tcp = fake(fam).connect()
    sport = tcp.sport
    for tcp.sport in (sport + 1000, sport + 1001):
        for flags in ("", "SF", "SR", "FPU", "FSRPAU", "F", "U", "PU"):
            tcp.send(flags, b"zz")
    tcp.sport = sport
    for flags in ("", "FPU"):  # without ACK: dropped
        tcp.send(flags, b"zz")
    tcp.works()


@FAM
def test_no_connection(fake, fam):
    """RFC 9293 3.10.7.1: a segment to no connection gets a RST with the right numbers, a RST gets nothing."""
    tcp = fake(fam)
    tcp.send("A", b"abc", ack=777)
    t, _ = tcp.recv()
    assert t and t.flags.R and not t.flags.A and t.seq == 777
    tcp.send("F", seq=900)
    t, _ = tcp.recv()
    assert t and t.flags.R and t.flags.A and t.ack == 901
    tcp.send("R", ack=5)
    assert tcp.recv(.5)[0] is None
