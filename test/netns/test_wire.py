# SPDX-License-Identifier: BSD-3-Clause
"""TCP packet by packet: a guest made of bytes (wire.py) against the running program and a real kernel at the peer.

Besides what a test asks for, each segment is checked: checksums, acknowledgements that never move back or beyond what was
sent, a window whose right edge never moves left, no byte beyond the guest's window.
"""
import os
import socket
import struct
import time

import pytest

import lab as L
from nsnet import refused, until
from wire import ACK, ALL_OPTS, FIN, MOD, MSS, MTU, OPTS, PSH, RST, SYN, URG, Conn, Net, Wire, diff


@pytest.fixture(scope="module")
def wired(tools):
    with L.Lab(tools) as lab:
        port = L.port()
        inst = lab.start("-t", str(port), mode="pid", mtu=MTU)
        wire = Wire(lab, inst)
        fds = len(os.listdir(f"/proc/{inst.pid}/fd"))
        yield lab, inst, wire, port
        until(lambda: f"{fds} descriptors again, now {len(os.listdir(f'/proc/{inst.pid}/fd'))}",
              lambda: len(os.listdir(f"/proc/{inst.pid}/fd")) <= fds)
        wire.close()


@pytest.fixture(params=[pytest.param(f, id=f"v{f}", marks=pytest.mark.xdist_group(f"wire-{f}")) for f in (4, 6)])
def net(wired, request):
    lab, inst, wire, port = wired
    wire.barrier()
    wire.forget()
    n = Net(lab, wire, request.param, port)
    yield n
    n.close()
    assert inst.alive(), f"the program ended: {inst.stderr()}"


def exchange(c, sock):
    """The connection still works, both ways."""
    c.tx(ACK | PSH, b"from the guest")
    assert sock.recv(100) == b"from the guest"
    c.rx_ack()
    sock.sendall(b"from the peer")
    assert c.read(13) == b"from the peer"


def identical(again, first):
    """The same segment; only the clock in a timestamp may have moved."""
    def still(s):
        return [(k, v[1] if k == "Timestamp" else v) for k, v in s.opts]
    return still(again) == still(first) and all(getattr(again, k) == getattr(first, k) for k in ("seq", "ack", "flags", "win", "data"))


# -- opening, guest first

@pytest.mark.parametrize("opts", [OPTS, [], [("MSS", 1000)], OPTS + [("SAckOK", b"")]], ids=["usual", "none", "mss", "sack"])
def test_syn_ack(net, opts):
    """Its options are exactly these, and its window is not scaled."""
    c, srv, s = net.syn(opts=opts)
    want = [("MSS", MSS[net.fam])]
    if any(o[0] == "WScale" for o in opts):
        want += [("NOP", None), ("WScale", 8)]
    have = [o for o in s.opts if o[0] not in ("SAckOK", "Timestamp", "EOL")]  # those two are negotiated apart
    assert [o for o in have if o[0] != "NOP"] == [o for o in want if o[0] != "NOP"]
    assert not [o for o in s.opts if o[0] == "Timestamp"], "timestamps were not offered"
    assert any(o[0] == "SAckOK" for o in opts) or not [o for o in s.opts if o[0] == "SAckOK"], "SACK was not offered"
    assert s.win >= 14600 and not s.data and s.flags == SYN | ACK
    c.tx(ACK)
    exchange(c, net.keep(srv.accept()[0]))


def test_isn_differs(net):
    """Two connections do not begin with the same number, and not with neighbours."""
    isns = [net.syn()[2].seq for _ in range(3)]
    assert all(abs(diff(a, b)) > 1000 for a, b in zip(isns, isns[1:]))


def test_syn_repeated(net):
    """The guest's SYN again: the same SYN,ACK again, at once."""
    c, _, first = net.syn()
    c.tx(SYN, seq=c.isn, opts=OPTS)
    again = c.rx(secs=.8, flags=SYN | ACK, seq=first.seq, ack=first.ack, win=first.win)
    assert again.opts == first.opts


def test_syn_ack_repeated(net):
    """SYN,ACK without an answer is sent again, identical."""
    c, srv, first = net.syn()
    again = c.rx(flags=SYN | ACK)
    assert identical(again, first)
    assert again.at - first.at > .5
    c.tx(ACK)
    exchange(c, net.keep(srv.accept()[0]))


def test_syn_with_data(net):
    """Data in a SYN is not lost: not acknowledged, or delivered."""
    srv = net.listen()
    c = net.conn(srv.getsockname()[1])
    c.tx(SYN, b"early", opts=OPTS)
    s = c.rx(flags=SYN | ACK)
    assert s.ack in ((c.isn + 1) % MOD, (c.isn + 6) % MOD)
    c.open_with(s, OPTS)
    c.tx(ACK, b"early", seq=c.isn + 1)
    sock = net.keep(srv.accept()[0])
    assert sock.recv(100) == b"early"
    c.rx_ack(c.isn + 6)


def test_bad_ack_of_syn_ack(net):
    """RFC 9293 3.10.7.4: an ACK of something else gets a reset, the connection goes on."""
    c, srv, s = net.syn()
    c.tx(ACK, ack=s.seq + 2)
    c.rx(flags=RST, seq=s.seq + 2)
    c.tx(ACK)
    exchange(c, net.keep(srv.accept()[0]))


def test_reset_instead_of_ack(net):
    """Exactly at the next byte it ends the attempt, elsewhere in the window we ask (RFC 5961 3.2), anywhere else it does nothing."""
    c, srv, s = net.syn()
    sock = net.keep(srv.accept()[0])
    c.tx(RST, seq=c.isn - 7)
    c.nothing()
    c.tx(SYN, seq=c.isn, opts=OPTS)
    c.rx(flags=SYN | ACK, seq=s.seq)  # another connection would have another number
    c.tx(RST, seq=c.isn + 7)
    c.rx(flags=ACK, seq=s.seq + 1)
    c.tx(RST)
    net.reset_at_peer(sock)


def test_refused(net):
    """Nobody listens at the peer: RST that answers our SYN."""
    with net.listen() as srv:
        port = srv.getsockname()[1]
    c = net.conn(port)
    c.tx(SYN, opts=OPTS)
    c.rx(flags=RST | ACK, ack=c.isn + 1, win=0)


@pytest.mark.parametrize("isn", [MOD - 1, MOD - 3, 0, (MOD >> 1) - 2])
def test_wrap(net, isn):
    """Sequence numbers that wrap, in SYN, in data, around half."""
    c, sock = net.dial(isn=isn)
    exchange(c, sock)
    c.tx(FIN | ACK)
    c.rx_ack()
    assert sock.recv(1) == b""


# -- opening, peer first

def test_syn_from_peer(net):
    """Its options, source and window; the guest's SYN,ACK is acknowledged at once."""
    c, task, s = net.knock()
    assert s.src == net.far and not s.data and s.ack == 0
    known = {k: v for k, v in s.opts if k not in ("NOP", "EOL")}
    assert known.pop("MSS") == MSS[net.fam] and known.pop("WScale") == 8
    assert not set(known) - {"SAckOK", "Timestamp"}
    c.tx(SYN | ACK, opts=OPTS)
    c.open_with(s, OPTS)
    c.rx(flags=ACK, seq=s.seq + 1, ack=c.isn + 1)
    sock = task.result()
    assert sock.getsockname()[1] == s.sport
    exchange(c, sock)


def test_syn_from_peer_repeated(net):
    """SYN without an answer is sent again, identical (W-48: not with a new number)."""
    c, task, first = net.knock()
    again = c.rx(flags=SYN)
    assert identical(again, first)
    assert again.at - first.at > .5
    c.tx(SYN | ACK, opts=OPTS)
    c.open_with(first, OPTS)
    c.rx_ack()
    exchange(c, task.result())


def test_guest_refuses(net):
    c, task, s = net.knock()
    c.tx(RST | ACK, seq=0, ack=s.seq + 2)  # of nothing that was sent
    c.nothing()
    if not task.is_alive():
        task.result().setblocking(False)
        with pytest.raises(BlockingIOError):  # neither reset nor end
            task.result().recv(1)
    c.tx(RST | ACK, seq=0, ack=s.seq + 1)
    try:
        sock = task.result()
    except OSError:
        return  # refused before connect() returned
    net.reset_at_peer(sock)


def test_peer_resets_before_answer(net):
    """The client gives up before the guest has answered: the guest hears of it."""
    c, task, s = net.knock()
    sock = task.result()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    rst = c.rx()
    assert rst.flags & RST and rst.seq == (s.seq + 1) % MOD, rst
    c.tx(SYN | ACK, opts=OPTS)
    c.rx(flags=RST, seq=s.seq + 1)


def test_bad_answer_to_syn(net):
    """SYN,ACK of something else: reset; a bare ACK too; the attempt goes on."""
    c, task, s = net.knock()
    for flags in (SYN | ACK, ACK):
        c.tx(flags, seq=c.isn, ack=s.seq + 5)
        c.rx(flags=RST, seq=s.seq + 5)
    c.tx(SYN | ACK, seq=c.isn, ack=s.seq + 1, opts=OPTS)
    c.snd = (c.isn + 1) % MOD
    c.open_with(s, OPTS)
    c.rx_ack()
    exchange(c, task.result())


def test_simultaneous_open(net):
    """SYN crosses SYN (RFC 9293 3.5)."""
    c, task, s = net.knock()
    c.tx(SYN, opts=OPTS)
    c.open_with(s, OPTS)
    c.rx(flags=SYN | ACK, seq=s.seq, ack=c.isn + 1)
    c.tx(SYN | ACK, seq=c.isn, opts=OPTS)
    c.rx(flags=ACK, seq=s.seq + 1, ack=c.isn + 1)
    exchange(c, task.result())


def test_no_scaling_from_guest(net):
    """Offered by us, not taken by the guest: no scaling either way (RFC 7323 2.2)."""
    c, task, s = net.knock()
    c.tx(SYN | ACK, opts=[("MSS", 1460)])
    c.open_with(s, [("MSS", 1460)])
    assert c.rx(flags=ACK).win > 10000
    exchange(c, task.result())


# -- segment sizes and windows

@pytest.mark.parametrize("mss,want", [(500, 500), (9000, None), (0, 48), (1, 48), (None, 536)])
def test_mss(net, mss, want):
    """Segments are as large as the guest allows; not too small, and never larger than the link."""
    opts = [("MSS", mss)] if mss is not None else []
    want = {None: MSS[net.fam], 536: {4: 536, 6: 1220}[net.fam]}.get(want, want)
    c, sock = net.dial(opts=opts)
    data, got, largest = bytes(range(250)) * 20, b"", 0
    sock.sendall(data)
    while len(got) < len(data):
        s = c.rx(seq=c.rcv)
        got += s.data
        largest = max(largest, min(s.mss, len(s.data)))
        c.rcv = (c.rcv + len(s.data)) % MOD
        c.tx(ACK)
    assert got == data and largest == want


@pytest.mark.parametrize("opts,win,room", [
    ([("MSS", 1400)], 2000, 2000), ([("MSS", 1400), ("NOP", None), ("WScale", 0)], 2000, 2000),
    ([("MSS", 1400), ("NOP", None), ("WScale", 3)], 500, 4000), ([("MSS", 1400), ("NOP", None), ("WScale", 14)], 1, 16384),
    ([("MSS", 1400), ("NOP", None), ("WScale", 15)], 1, 16384)], ids=["none", "0", "3", "14", "15"])
def test_guest_window(net, opts, win, room):
    """All that the window takes arrives, and not a byte more; 15 counts as 14 (RFC 7323 2.3)."""
    c, srv, _ = net.syn(opts=opts, win=1)
    c.win = win
    c.tx(ACK)
    sock = net.keep(srv.accept()[0])
    data = bytes(i * 7 % 251 for i in range(room + 3000))
    sock.sendall(data)
    got = c.read(room, ack=False)
    assert len(got) == room
    c.tx(ACK, seq=c.snd - 1, ack=c.rcv - room)  # anything: makes it look again
    assert c.rx(seq=c.rcv).data == b""
    c.tx(ACK)
    assert got + c.read(len(data) - room) == data


def test_window_of_syn_ack(net):
    """The window in the guest's SYN,ACK is never scaled (RFC 7323 2.2)."""
    c, task, s = net.knock(win=1000)
    c.tx(SYN | ACK, opts=OPTS)
    c.open_with(s, OPTS)
    c.rx(flags=ACK)
    sock, data = task.result(), bytes(range(250)) * 20
    sock.sendall(data)
    got = c.read(1000, ack=False)
    assert len(got) == 1000
    c.nothing()
    c.tx(ACK)  # from here on 1000 means 128000
    assert got + c.read(len(data) - 1000) == data


def test_zero_window(net):
    """The guest closes its window: probes that cost nothing, and all the data after it opens again."""
    c, sock = net.dial(win=0)
    data = bytes(range(200)) * 10
    sock.sendall(data)
    probe = c.rx()
    assert diff(c.rcv, probe.seq) >= 0 and len(probe.data) <= 1, f"not a probe: {probe}"
    first = probe.at
    c.tx(ACK)  # still closed
    probe = c.rx()
    assert diff(c.rcv, probe.seq) >= 0 and len(probe.data) <= 1 and probe.at - first > .15
    c.win = 65535
    c.tx(ACK)
    assert c.read(len(data)) == data


def test_window_closes_on_data(net):
    """The guest takes part of what is under way and announces 0: the rest comes when it opens."""
    c, sock = net.dial()
    data = bytes(range(200)) * 20
    sock.sendall(data)
    got = c.read(1000, ack=False)
    half = got[:500]
    c.rcv = (c.rcv - len(got) + 500) % MOD
    c.tx(ACK, win=0)
    c.wire.barrier()
    c.tx(ACK)
    assert half + c.read(len(data) - 500) == data


def offer(c, data, start):
    """Send what the window takes of the stream `data`, which began at `start`; go back to what was not taken. Ends when
    the program takes no more, or all is taken; returns how much that is."""
    while True:
        una, edge = c.far_ack, c.far_edge
        at, stop = diff(una, start), min(diff(edge, start), len(data))
        while at < stop:
            size = min(1400, stop - at)
            c.tx(ACK, data[at:at + size], seq=start + at)
            at += size
        c.tx(ACK, seq=una - 1)  # answered at once, with the state of things
        c.rx()
        c.wire.barrier()
        while any(c.mine(s) for s in c.wire.pending):
            c.rx()
        taken = diff(c.far_ack, start)
        if taken == len(data) or (c.far_ack, c.far_edge) == (una, edge):
            c.snd = c.far_ack
            return taken


def test_our_window(net):
    """The peer does not read: we stop taking. It reads: we say so without being asked, and no byte is missing."""
    hst, key = net.lab.hst, "net.ipv4.tcp_wmem"
    old = hst.sysctl(key)
    hst.sysctl(key, "4096 16384 65536")
    try:
        c, sock = net.dial(rcvbuf=4096)
    finally:
        hst.sysctl(key, old)
    data, start, got = b"".join(struct.pack("!I", i) for i in range(1 << 17)), c.snd, bytearray()
    c.tx(ACK, data[:1])
    c.rx_ack()
    taken = offer(c, data, start)
    assert 1 < taken < len(data), "never stopped taking: the test proves nothing"
    while taken < len(data):
        while len(got) < taken:
            got += sock.recv(1 << 20)
        c.rx()  # fails if nothing tells that there is room again
        taken = offer(c, data, start)
    while len(got) < taken:
        got += sock.recv(1 << 20)
    assert got == data
    exchange(c, sock)


# -- established: what is not in order

def test_reset_exact(net):
    c, sock = net.dial()
    exchange(c, sock)
    c.tx(RST)
    net.reset_at_peer(sock)
    c.tx(ACK)
    c.rx(flags=RST, seq=c.rcv)  # nothing is left of the connection


def test_reset_in_window(net):
    """RFC 5961 3.2: not exact, so we ask."""
    c, sock = net.dial()
    exchange(c, sock)
    c.tx(RST, seq=c.snd + 1)
    c.rx(flags=ACK, ack=c.snd, seq=c.rcv)
    exchange(c, sock)
    c.tx(RST | ACK)
    net.reset_at_peer(sock)


@pytest.mark.parametrize("off", [-1, -1000, 1 << 30, -(1 << 30)])
def test_reset_outside_window(net, off):
    c, sock = net.dial()
    exchange(c, sock)
    c.tx(RST, seq=c.snd + off)
    c.nothing()
    exchange(c, sock)


@pytest.mark.parametrize("off", [0, 100, 1 << 30, -5])
def test_syn_in_established(net, off):
    """RFC 5961 4.2: a challenge ACK. A guest that forgot the connection answers it with RST, and can open it anew."""
    c, sock = net.dial()
    exchange(c, sock)
    for _ in range(2):
        c.tx(SYN, seq=c.snd + off, opts=OPTS, forged=True)
        s = c.rx(flags=ACK, ack=c.snd, seq=c.rcv)
        exchange(c, sock)
    c.tx(SYN, seq=c.snd + off, opts=OPTS, forged=True)
    s = c.rx(flags=ACK, ack=c.snd, seq=c.rcv)
    c.tx(RST, seq=s.ack)
    net.reset_at_peer(sock)


def test_ack_of_unsent(net):
    """Answered with the true state, and its data is not taken."""
    c, sock = net.dial()
    exchange(c, sock)
    c.tx(ACK | PSH, b"forged", seq=c.snd, ack=c.rcv + 1000, forged=True)
    c.rx(flags=ACK, ack=c.snd, seq=c.rcv)
    exchange(c, sock)


def test_old_ack(net):
    """An ACK from before is no news; its data is."""
    c, sock = net.dial()
    exchange(c, sock)
    c.tx(ACK | PSH, b"late ack", ack=c.rcv - 5)
    assert sock.recv(100) == b"late ack"
    c.rx_ack()
    exchange(c, sock)


def test_old_data(net):
    """RFC 9293 3.10.7.4: acknowledged again, at once, and not delivered again; half old data is cut."""
    c, sock = net.dial()
    c.tx(ACK | PSH, b"0123456789")
    assert sock.recv(100) == b"0123456789"
    c.rx_ack()
    c.tx(ACK, b"0123456789", seq=c.snd - 10)
    c.rx(secs=1, flags=ACK, ack=c.snd)
    c.tx(ACK, b"5678", seq=c.snd - 5)
    c.rx(secs=1, flags=ACK, ack=c.snd)
    c.tx(ACK | PSH, b"6789abc", seq=c.snd - 4)
    assert sock.recv(100) == b"abc"
    c.snd = (c.snd + 3) % MOD
    c.rx_ack()
    exchange(c, sock)


@pytest.mark.parametrize("data", [b"", b"\0"], ids=["empty", "one"])
def test_keep_alive(net, data):
    """A probe one before the next byte, with or without it: answered at once."""
    c, sock = net.dial()
    exchange(c, sock)
    for _ in range(3):
        c.tx(ACK, data, seq=c.snd - 1)
        c.rx(secs=1, flags=ACK, ack=c.snd, seq=c.rcv)
    exchange(c, sock)


def test_out_of_order(net):
    """The second segment first: what we have is acknowledged at once; then all arrives in order."""
    c, sock = net.dial()
    base = c.snd
    c.tx(ACK, b"second", seq=base + 5)
    c.rx(secs=1, flags=ACK, ack=base)
    c.tx(ACK | PSH, b"first", seq=base)
    if c.rx(flags=ACK).ack != (base + 11) % MOD:  # not kept: the guest repeats it
        c.tx(ACK | PSH, b"second", seq=base + 5)
        c.rx_ack(base + 11)
    c.snd = (base + 11) % MOD
    got = b""
    while len(got) < 11:
        got += sock.recv(100)
    assert got == b"firstsecond"
    exchange(c, sock)


def test_beyond_window(net):
    """Data right of the window is refused with an ACK, and not kept either."""
    c, sock = net.dial(opts=ALL_OPTS)
    exchange(c, sock)
    c.tx(ACK, b"far away", seq=c.far_edge + 10, forged=True)
    assert "SAck" not in dict(c.rx(flags=ACK, ack=c.snd).opts)
    exchange(c, sock)


def test_no_flags(net):
    """A segment with neither ACK, SYN nor RST is dropped."""
    c, sock = net.dial()
    exchange(c, sock)
    c.tx(PSH, b"no ack", seq=c.snd, forged=True)
    c.nothing()
    exchange(c, sock)


# -- selective acknowledgement, timestamps

def opened(net, way, opts=ALL_OPTS):
    """A connection with all options, opened by the guest or by the peer."""
    c, sock = net.dial(opts=opts) if way == "out" else net.answer(opts=opts)
    assert c.ts is not None, "timestamps were not negotiated"
    return c, sock


WAY = pytest.mark.parametrize("way", ["out", "in"])


@pytest.mark.parametrize("leave", [None, "SAckOK", "Timestamp"])
def test_negotiated(net, leave):
    """SYN,ACK holds what the guest's SYN offered, no more; the echo is the guest's clock."""
    opts = [o for o in ALL_OPTS if o[0] != leave]
    c, srv, s = net.syn(opts=opts)
    assert {k for k, _ in s.opts} - {"NOP", "EOL"} == {k for k, _ in opts} - {"NOP"}
    if leave != "Timestamp":
        assert dict(s.opts)["Timestamp"][1] == 1000
    c.tx(ACK)
    exchange(c, net.keep(srv.accept()[0]))


@WAY
def test_timestamps(net, way):
    """Every segment carries them, and echoes the guest's clock of the last segment in order (RFC 7323 4.3)."""
    c, sock = opened(net, way)
    for _ in range(3):
        c.ts += 10
        c.tx(ACK | PSH, b"tick")
        assert sock.recv(100) == b"tick"
        s = c.rx_ack()
        assert dict(s.opts)["Timestamp"][1] == c.ts
    sock.sendall(b"tock")
    s = c.rx(seq=c.rcv)
    assert s.data == b"tock" and dict(s.opts)["Timestamp"][1] == c.ts
    c.rcv = (c.rcv + 4) % MOD
    c.tx(ACK)
    exchange(c, sock)


@WAY
def test_paws(net, way):
    """A segment with an old clock is acknowledged, not taken (RFC 7323 5.3)."""
    c, sock = opened(net, way)
    c.ts = 5000
    exchange(c, sock)
    c.tx(ACK | PSH, b"a ghost", seq=c.snd, forged=True, opts=[("NOP", None), ("NOP", None), ("Timestamp", (4000, c.ts_recent))])
    c.rx(flags=ACK, ack=c.snd)
    exchange(c, sock)


@WAY
def test_mss_with_timestamps(net, way):
    """Options count: a segment with its 12 bytes of timestamps still fits the guest's MTU."""
    c, sock = opened(net, way)
    data, got = bytes(range(250)) * 40, b""
    sock.sendall(data)
    while len(got) < len(data):
        s = c.rx(seq=c.rcv)
        assert min(s.mss, len(s.data)) <= MSS[net.fam] - 12, s
        got += s.data
        c.rcv = (c.rcv + len(s.data)) % MOD
        c.tx(ACK)
    assert got == data


@WAY
def test_sack_to_guest(net, way):
    """What came ahead of a gap is reported, the newest range first (RFC 2018 4), and delivered once the gap is filled."""
    c, sock = opened(net, way)
    base, data = c.snd, bytes(range(100))

    def ranges(s):
        edges = dict(s.opts).get("SAck", ())
        return [(diff(a, base), diff(b, base)) for a, b in zip(edges[::2], edges[1::2])]
    c.tx(ACK, data[20:30], seq=base + 20)
    assert ranges(c.rx(flags=ACK, ack=base)) == [(20, 30)]
    c.tx(ACK, data[60:80], seq=base + 60)
    assert ranges(c.rx(flags=ACK, ack=base)) == [(60, 80), (20, 30)]
    c.tx(ACK, data[30:40], seq=base + 30)
    assert ranges(c.rx(flags=ACK, ack=base)) == [(20, 40), (60, 80)]
    c.tx(ACK, data[:20], seq=base)
    assert ranges(c.rx_ack(base + 40)) == [(60, 80)]
    c.tx(ACK | PSH, data[40:60], seq=base + 40)
    c.rx_ack(base + 80)
    c.snd = (base + 80) % MOD
    got = b""
    while len(got) < 80:
        got += sock.recv(100)
    assert got == data[:80]
    exchange(c, sock)


@WAY
def test_sack_from_guest(net, way):
    """The guest reports what it has: only the holes come again."""
    c, sock = opened(net, way)
    data = bytes(i * 7 % 251 for i in range(14000))
    sock.sendall(data)
    start, total = c.rcv, 0
    while total < len(data):
        s = c.rx()
        total = max(total, diff(s.seq, start) + len(s.data))
    for upto in (8000, 10000, 12000, 14000):  # 0 to 2000 is missing, and 4000 to 6000
        sack = [start + 6000, start + upto, start + 2000, start + 4000]
        c.tx(ACK, opts=[("SAck", tuple(x % MOD for x in sack))])
    got, probed = {}, False
    while sum(got.values()) < 4000:
        s = c.rx(secs=2)
        at = diff(s.seq, start)
        if at + len(s.data) == len(data) and not got and not probed:  # a probe for a lost tail, from before our first report
            probed = True
        elif s.data:
            assert at + len(s.data) <= 2000 or (at >= 4000 and at + len(s.data) <= 6000), f"not missing: {at} {len(s.data)}"
            assert s.data == data[at:at + len(s.data)]
            got[at] = len(s.data)
    c.rcv = (start + len(data)) % MOD
    c.tx(ACK)
    exchange(c, sock)


# -- our retransmission

def test_retransmission(net):
    """Not acknowledged: the same bytes at the same place again, and with growing distance."""
    c, sock = net.dial()
    sock.sendall(b"once more")
    first = c.rx(seq=c.rcv)
    assert first.data == b"once more"
    second = c.rx(seq=c.rcv)
    third = c.rx(seq=c.rcv)
    assert second.data == third.data == first.data
    assert second.at - first.at > .15 and third.at - second.at > 1.5 * (second.at - first.at)
    c.rcv = (c.rcv + 9) % MOD
    c.tx(ACK)
    exchange(c, sock)


def test_fast_retransmission(net):
    """After three duplicates the first hole at once, after two nothing. Retried if our timer came in between."""
    for _ in range(5):
        c, sock = net.dial()
        data = bytes(range(240)) * 50
        sock.sendall(data)
        start, total = c.rcv, 0
        while total < len(data):
            s = c.rx()
            total = max(total, diff(s.seq, start) + len(s.data))
        sent_at, got = s.at, []
        for _ in range(2):
            for _ in range(2 - len(got)):
                c.tx(ACK)
            c.wire.barrier()
            got.append([s for s in c.wire.pending if c.mine(s)])
        if time.monotonic() - sent_at < .15:
            break
    else:
        pytest.skip("this machine is too slow: our timer was always first")
    assert not got[0], f"retransmitted after two duplicates: {got[0]}"
    assert len(got[1]) == 1, f"the first hole expected, and nothing else: {got[1]}"
    s = c.rx(seq=start)
    assert s.data and data.startswith(s.data)
    c.rcv = (start + len(data)) % MOD
    c.tx(ACK)
    exchange(c, sock)


# -- closing

def test_guest_closes_first(net):
    """Half-close: the peer reads the end and goes on sending; then its own end."""
    c, sock = net.dial()
    c.tx(FIN | ACK | PSH, b"last words")
    c.rx_ack()
    assert sock.recv(100) == b"last words" and sock.recv(100) == b""
    sock.sendall(b"answer")
    assert c.read(6) == b"answer"
    sock.close()
    c.read()
    assert c.fin
    c.nothing()


def test_peer_closes_first(net):
    """FIN right behind the last byte; the guest goes on sending; then its own end, quietly."""
    c, sock = net.dial()
    sock.sendall(b"all of it")
    sock.shutdown(socket.SHUT_WR)
    assert c.read() == b"all of it" and c.fin
    c.tx(ACK | PSH, b"still here")
    assert sock.recv(100) == b"still here"
    c.rx_ack()
    c.tx(FIN | ACK)
    c.rx_ack()
    assert sock.recv(1) == b""
    c.nothing()


def test_simultaneous_close(net):
    """FIN crosses FIN: both are acknowledged, nothing is reset."""
    c, sock = net.dial()
    sock.shutdown(socket.SHUT_WR)
    fin = c.rx(flags=FIN | ACK, seq=c.rcv)
    c.tx(FIN | ACK, ack=fin.seq)
    s = c.rx_ack()
    assert not s.flags & RST
    assert sock.recv(1) == b""
    c.rcv = (fin.seq + 1) % MOD
    c.tx(ACK)
    c.nothing()


@pytest.mark.parametrize("done", [False, True], ids=["half", "quiet"])
def test_fin_repeated(net, done):
    """The guest's FIN again, as our ACK was lost: acknowledged again, also when all is over for us (TCP-77, TCP-79)."""
    c, sock = net.dial()
    c.tx(FIN | ACK)
    c.rx_ack()
    if done:
        sock.close()
        c.read()
        assert c.fin
        c.nothing()
    for _ in range(2):
        c.tx(FIN | ACK, seq=c.snd - 1)
        c.rx(secs=1, flags=ACK, ack=c.snd, seq=c.rcv)


def test_our_fin_repeated(net):
    """Our FIN without an answer comes again."""
    c, sock = net.dial()
    sock.shutdown(socket.SHUT_WR)
    first = c.rx(flags=FIN | ACK, seq=c.rcv)
    again = c.rx(flags=FIN | ACK, seq=c.rcv)
    assert again.at - first.at > .15
    c.rcv = (c.rcv + 1) % MOD
    c.tx(ACK)
    c.tx(FIN | ACK)
    c.rx_ack()
    assert sock.recv(1) == b""


def test_data_after_fin(net):
    """Beyond the end of the guest's stream: acknowledged as it is, never delivered."""
    c, sock = net.dial()
    c.tx(FIN | ACK)
    c.rx_ack()
    c.tx(ACK, b"ghost", seq=c.snd, forged=True)
    c.rx(flags=ACK, ack=c.snd)
    assert sock.recv(100) == b""
    sock.sendall(b"answer")
    assert c.read(6) == b"answer"


def test_fin_out_of_order(net):
    """FIN ahead of a gap ends nothing before the gap is filled."""
    c, sock = net.dial()
    base = c.snd
    c.tx(FIN | ACK, b"end", seq=base + 4)
    c.rx(secs=1, flags=ACK, ack=base)
    c.tx(ACK, b"the ", seq=base)
    if c.rx(flags=ACK).ack != (base + 8) % MOD:
        c.tx(FIN | ACK, b"end", seq=base + 4)
        c.rx_ack(base + 8)
    got = b""
    while True:
        more = sock.recv(100)
        if not more:
            break
        got += more
    assert got == b"the end"


def test_peer_resets(net):
    """RST from the peer, with the guest's data unread there: a reset that the guest can accept."""
    c, sock = net.dial()
    exchange(c, sock)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    s = c.rx()
    assert s.flags & RST and s.seq == c.rcv, s
    c.tx(ACK)
    c.rx(flags=RST, seq=c.rcv)


def test_peer_resets_after_data(net):
    """What was sent before the reset and fits the window still comes first, if the host's kernel has it."""
    c, sock = net.dial()
    sock.sendall(b"before the end")
    assert c.read(14) == b"before the end"
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    s = c.rx()
    assert s.flags & RST and s.seq == c.rcv, s


def test_silent_guest(own_lab):
    """A guest that says nothing is probed on the schedule of the host's kernel (TCP-80): one that was restarted answers RST,
    one that has gone is given up. Either way the peer learns it.
    """
    lab = own_lab
    for name in ("time", "intvl"):
        lab.hst.sysctl(f"net.ipv4.tcp_keepalive_{name}", 1)
    lab.hst.sysctl("net.ipv4.tcp_keepalive_probes", 2)
    wire = Wire(lab, lab.start(mode="pid", mtu=MTU))
    nets = [Net(lab, wire, fam, 0) for fam in (4, 6)]
    for forgot in (True, False):
        conns = [n.dial() for n in nets]
        for (c, sock), n in zip(conns, nets):
            c.rx(flags=ACK, seq=c.rcv - 1)
            if forgot:
                c.tx(RST)
                n.reset_at_peer(sock)
        for (c, sock), n in zip(conns, nets):
            if not forgot:
                c.rx(flags=ACK, seq=c.rcv - 1)
                c.rx(flags=RST | ACK, seq=c.rcv)
                n.reset_at_peer(sock)
    for n in nets:
        n.close()
    wire.close()


# -- urgent data

@pytest.mark.parametrize("waiting", [pytest.param(False, id="flowing"), pytest.param(True, id="waiting")])
def test_urgent_from_peer(net, waiting):
    """The urgent byte stays in its place (TCP-49), and what follows it comes too: the kernel reads only up to the mark.

    waiting: all lies in the host's socket before the guest opens its window
    """
    c, sock = net.dial(win=0 if waiting else 65535)
    sock.sendall(b"ab")
    sock.send(b"X", socket.MSG_OOB)
    sock.sendall(b"cd")
    if waiting:
        c.rx()  # a probe
        c.win = 65535
        c.tx(ACK)
    assert c.read(5, secs=3) == b"abXcd"
    exchange(c, sock)


def test_urgent_from_guest(net):
    """In its place too, whatever the peer makes of the mark."""
    c, sock = net.dial()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    c.tx(ACK | PSH, b"ab")
    c.tx(ACK | PSH | URG, b"Xcd", urg=1)
    c.rx_ack()
    got = b""
    while len(got) < 5:
        got += sock.recv(100)
    assert got == b"abXcd"


# -- nothing there

def test_no_flow(net):
    """RFC 9293 3.10.7.1, with SYN and FIN counted (TCP-91)."""
    c = net.conn(L.port())
    c.rcv = 12345
    c.tx(ACK, b"data")
    c.rx(flags=RST, seq=12345, win=0)
    c.tx(SYN | ACK)
    c.rx(flags=RST, seq=12345)
    c.tx(FIN, b"abc", seq=1000)
    c.rx(flags=RST | ACK, seq=0, ack=1004)
    c.tx(PSH, b"abc", seq=1000)
    c.rx(flags=RST | ACK, seq=0, ack=1003)
    for flags in (RST, RST | ACK, RST | SYN, RST | FIN):
        c.tx(flags)
    c.nothing()


def test_port_again(net):
    """A guest that closed opens the same port again at once."""
    srv = net.listen()
    port = srv.getsockname()[1]
    c, _, _ = net.syn(srv)
    c.tx(ACK)
    sock = net.keep(srv.accept()[0])
    c.tx(FIN | ACK)
    c.rx_ack()
    sock.close()
    c.read()
    c.nothing()
    d = net.track(Conn(net.wire, net.fam, net.far, port, c.port))
    d.tx(SYN, opts=OPTS)
    s = d.rx(flags=SYN | ACK, ack=d.isn + 1)
    d.open_with(s, OPTS)
    d.tx(ACK)
    exchange(d, net.keep(srv.accept()[0]))


def test_not_listening_on_host(net):
    """A port that is not forwarded is refused by the host's kernel; the guest sees nothing."""
    assert refused(lambda: net.lab.peer.connect(L.HST[net.fam], L.port(), timeout=5))
    net.wire.barrier()
    assert not [s for s in net.wire.pending if s.flags & SYN]


def test_reset_frees_window(net):
    """Bytes that wait for a guest with a closed window go with the connection."""
    c, sock = net.dial(win=0)
    sock.sendall(b"never")
    c.tx(RST)
    net.reset_at_peer(sock)
    c.wire.barrier()
    c.wire.forget()
    c.tx(ACK, ack=c.rcv)
    c.rx(flags=RST, seq=c.rcv)
