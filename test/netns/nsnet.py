# SPDX-License-Identifier: BSD-3-Clause
"""Sockets inside network namespaces, opened from the test process itself.

A thread enters the namespace, opens the socket and ends: the socket stays in its namespace, the test keeps full control of
it (when it reads, how fast, how it ends). Nothing here waits for a fixed time: `until` polls a condition up to a deadline.
"""
import ctypes
import errno
import fcntl
import functools
import hashlib
import os
import random
import select
import socket
import struct
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP, IFA_F_TENTATIVE = 0x8913, 0x8914, 1, 0x40
CHUNK = 1 << 18


def until(what, cond, secs=10, step=.01):
    """Poll `cond` until it returns something true; fail with `what` after `secs`."""
    end = time.monotonic() + secs
    while True:
        got = cond()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"not within {secs} s: {what() if callable(what) else what}")
        time.sleep(step)


def ended(proc, secs):
    """proc.wait() up to a deadline, at once when it ends: with a deadline of its own it looks less and less often."""
    if proc.poll() is not None:
        return proc.returncode
    try:
        fd = os.pidfd_open(proc.pid)
    except ProcessLookupError:  # another thread has looked meanwhile
        return proc.wait()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    ready = poll.poll(secs * 1000)
    os.close(fd)
    return proc.wait(None if ready else 0)


def measured(what, wanted, measure, times=3):
    """The first of up to `times` measurements that is as wanted; fail with all of them if none is. Other work on the machine
    disturbs some of them, a fault of the program every one: not for faults that come now and then, such as a stall."""
    got = []
    for _ in range(times):
        got.append(measure())
        if wanted(got[-1]):
            return got[-1]
    raise AssertionError(f"{what}: {got}")


def family(addr):
    return socket.AF_INET6 if ":" in addr else socket.AF_INET


def url_host(addr):
    return f"[{addr}]" if ":" in addr else addr


def sockaddr(addr, port, *more):
    """For connect(): "fe80::1%3" is a link-local address on the interface with index 3."""
    addr, _, scope = addr.partition("%")
    return (addr, port, 0, int(scope)) if scope else (addr, port, *more)


def call_in(fd, path, fn):
    """fn() in a thread inside the namespace FD, whose name is PATH."""
    box = []

    def run():
        try:
            if LIBC.setns(fd, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {path}")
            box.append((True, fn()))
        except BaseException as e:  # noqa: the caller gets it
            box.append((False, e))
    t = threading.Thread(target=run, daemon=True)
    t.start()
    t.join()
    ok, val = box[0]
    if not ok:
        raise val
    return val


def start_in(argv, start):
    """start(argv), which makes a process. Where argv begins with an nsenter of ours, a thread enters that network namespace
    instead: most commands are short, and nsenter costs as much as they do."""
    if argv[:1] == ["nsenter"] and argv[1].startswith("--net="):
        path, rest = argv[1][len("--net="):], argv[2:]
    elif argv[:2] == ["nsenter", "-t"] and argv[3] == "-n":
        path, rest = f"/proc/{argv[2]}/ns/net", argv[4:]
    else:
        return start(argv)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # nsenter can tell better
        return start(argv)
    try:
        return call_in(fd, path, lambda: start(rest))
    finally:
        os.close(fd)


class Ns:
    """A network namespace: a descriptor for it, and the command prefix that enters it."""

    def __init__(self, path, label, lab, prefix=None):
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.path, self.label, self.lab = path, label, lab
        self.prefix = prefix or ["nsenter", f"--net={path}"]

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def inode(self):
        return os.fstat(self.fd).st_ino

    def call(self, fn):
        """Run fn() in a thread inside this namespace."""
        return call_in(self.fd, self.path, fn)

    def link_up(self, name):
        self.lab.note(f"{' '.join(self.prefix)} ip link set {name} up")

        def go():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                flags, = struct.unpack("16xh22x", fcntl.ioctl(s, SIOCGIFFLAGS, struct.pack("16s24x", name.encode())))
                fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh22x", name.encode(), flags | IFF_UP))
        self.call(go)

    def tentative(self):
        """Whether some IPv6 address is not yet to be used."""
        def go():
            try:
                with open("/proc/thread-self/net/if_inet6") as f:
                    return any(int(line.split()[4], 16) & IFA_F_TENTATIVE for line in f)
            except FileNotFoundError:  # a kernel without IPv6
                return False
        return self.call(go)

    def sysctl(self, key, value=None):
        path = "/proc/sys/" + key.replace(".", "/")
        if value is not None:
            self.lab.note(f"{' '.join(self.prefix)} sysctl -w {key}='{value}'")

        def go():
            with open(path, "r" if value is None else "w") as f:
                return f.read().strip() if value is None else f.write(str(value))
        return self.call(go)

    def no_icmp_limit(self):
        """Every error is sent. The kernel's limits are for each peer and, whatever those say, 1,000 a second for a namespace."""
        self.sysctl("net.ipv4.icmp_ratemask", 0)
        self.sysctl("net.ipv6.icmp.ratemask", 0)  # a list of types: none that there is

    def sock(self, fam, kind, proto=0):
        return self.call(lambda: socket.socket(fam, kind, proto))

    def run(self, *argv, **kw):
        return self.lab.run(*self.prefix, *argv, **kw)

    def spawn(self, *argv, **kw):
        return self.lab.spawn(*self.prefix, *argv, **kw)

    # -- TCP

    def listen(self, addr, port, backlog=128, rcvbuf=0):
        s = self.sock(family(addr), socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if s.family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        s.bind((addr, port))
        s.listen(backlog)
        s.settimeout(20)
        self.lab.note(f"# {self.label}: listen on [{addr}]:{port}")
        return s

    def connect(self, addr, port, src=None, timeout=20, rcvbuf=0):
        s = self.sock(family(addr), socket.SOCK_STREAM)
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        s.settimeout(timeout)
        self.lab.note(f"# {self.label}: connect to [{addr}]:{port}" + (f" from {src}" if src else ""))
        try:
            if src:
                s.bind((src, 0))
            s.connect(sockaddr(addr, port))
        except OSError:
            s.close()
            raise
        return s

    def serve(self, addr, port, handler):
        return Server(self.listen(addr, port), handler)

    # -- UDP

    def udp(self, addr=None, port=0, to=None, timeout=5):
        s = self.sock(family(addr or to[0]), socket.SOCK_DGRAM)
        s.settimeout(timeout)
        if addr:
            s.bind((addr, port))
        if to:
            s.connect(sockaddr(*to))
        self.lab.note(f"# {self.label}: UDP socket on {addr}:{port} to {to}")
        return s


class Server:
    """Accept in a thread; handler(sock, peer address) runs in its own thread; `seen` holds the client addresses."""

    def __init__(self, lsock, handler):
        self.lsock, self.handler, self.seen, self.errors, self.socks = lsock, handler, [], [], []
        self.lsock.settimeout(None)
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _loop(self):
        while True:
            try:
                s, peer = self.lsock.accept()
            except OSError:
                return
            self.seen.append(peer)
            self.socks.append(s)
            threading.Thread(target=self._one, args=(s, peer), daemon=True).start()

    def _one(self, s, peer):
        try:
            with s:
                s.settimeout(60)
                self.handler(s, peer)
        except Exception as e:  # kept for the test to look at
            self.errors.append(e)

    def close(self):
        try:
            self.lsock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.lsock.close()
        self.thread.join(5)

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.close()


class UdpServer:
    """Answer each datagram with what reply(data, peer) returns (default: the same datagram)."""

    def __init__(self, sock, reply=lambda data, peer: data):
        self.sock, self.reply, self.seen, self.stop = sock, reply, [], False
        sock.settimeout(.2)
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _loop(self):
        while not self.stop:
            try:
                data, peer = self.sock.recvfrom(65536)
            except (socket.timeout, ConnectionError):
                continue
            except OSError:
                return
            self.seen.append((data, peer))
            out = self.reply(data, peer)
            if out is not None:
                self.sock.sendto(out, peer)

    def close(self):
        self.stop = True
        self.thread.join(5)
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.close()


def echo(s, _peer):
    while True:
        data = s.recv(CHUNK)
        if not data:
            return
        s.sendall(data)


def hello(s, peer):
    """Say who we think is calling, then close."""
    s.sendall(f"hello {peer[0]}\n".encode())


# -- bulk data: every chunk carries its number, so lost, doubled and swapped bytes all change the checksum

@functools.lru_cache(maxsize=2)
def _block(seed):
    return random.Random(seed).randbytes(CHUNK)


def chunks(total, seed=1):
    block, num = bytearray(_block(seed)), 0
    while total > 0:
        block[:8] = num.to_bytes(8, "little")
        yield memoryview(block)[:min(CHUNK, total)]
        total -= CHUNK
        num += 1


@functools.lru_cache(maxsize=64)
def checksum(total, seed=1):
    h = hashlib.sha256()
    for c in chunks(total, seed):
        h.update(c)
    return h.hexdigest()


def send_bulk(s, total, seed=1):
    for c in chunks(total, seed):
        s.sendall(c)


def recv_bulk(s, want=None):
    """Read to the end of the stream (or `want` bytes); returns (byte count, checksum)."""
    h, n, buf = hashlib.sha256(), 0, bytearray(CHUNK)
    view = memoryview(buf)
    while want is None or n < want:
        got = s.recv_into(buf, CHUNK if want is None else min(CHUNK, want - n))
        if not got:
            break
        h.update(view[:got])
        n += got
    return n, h.hexdigest()


class Task(threading.Thread):
    """A thread whose result or exception the test collects with result()."""

    def __init__(self, fn, *args):
        super().__init__(daemon=True)
        self.fn, self.args, self.val, self.err = fn, args, None, None
        self.start()

    def run(self):
        try:
            self.val = self.fn(*self.args)
        except BaseException as e:  # noqa: result() raises it
            self.err = e

    def result(self, secs=60):
        self.join(secs)
        if self.is_alive():
            raise AssertionError(f"{self.fn.__name__}{self.args} not finished within {secs} s")
        if self.err:
            raise self.err
        return self.val


def refused(fn):
    """True if fn() fails because the other side refused or reset, or nothing can be reached."""
    try:
        fn()
    except OSError as e:
        return e.errno in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EPIPE)
    return False


def check_half_close(a, b, size=1 << 20):
    """The first of two ends closes its direction; the other direction goes on until it ends as well."""
    a.sendall(b"question")
    a.shutdown(socket.SHUT_WR)
    assert recv_bulk(b)[0] == 8
    task = Task(lambda: (send_bulk(b, size), b.close()))
    assert recv_bulk(a) == (size, checksum(size))
    task.result()
    a.close()


def check_ends(kept, fresh):
    """What the first of two ends does reaches the second: fresh() gives (first, second), of a new connection each time. Half-close
    with data after it, then a reset, which leaves the connection `kept` alone."""
    check_half_close(*fresh())
    a, b = fresh()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    a.close()
    try:
        b.recv(1)
    except ConnectionResetError:
        b.close()
    else:
        raise AssertionError("the reset did not arrive")
    for x, y in (kept, kept[::-1]):
        x.sendall(b"ok")
        assert y.recv(2) == b"ok"
