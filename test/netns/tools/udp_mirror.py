# SPDX-License-Identifier: BSD-3-Clause
"""Runs in the namespace: sets tap0 up, sends single datagrams and runs (UDP_SEGMENT) and compares what is mirrored."""
import os
import socket
import subprocess
import sys

MAC = "9a:55:9a:55:9a:55"
SIZES = ((0, 1), (0, 17), (0, 18), (0, 100), (0, 1400), (1000, 20000), (1400, 60200), (500, 10001), (999, 1998))


def ip(*args):
    subprocess.run(("ip",) + args, check=True)


def exchange(sock, seg, total):
    data, got = os.urandom(total), b""
    if seg:
        sock.setsockopt(socket.IPPROTO_UDP, 103, seg)
    sock.send(data)
    while len(got) < total:
        part = sock.recv(65536)
        assert len(part) == min(seg or total, total - len(got)), f"datagram of {len(part)} bytes in {seg}/{total}"
        got += part
    assert got == data, f"content differs in {seg}/{total}"


ip("link", "set", "lo", "up")
ip("link", "set", "tap0", "up", "mtu", sys.argv[1] if len(sys.argv) > 1 else "1500")
ip("addr", "add", "10.9.0.2/24", "dev", "tap0")
ip("addr", "add", "fd00::2/64", "dev", "tap0", "nodad")
for family, far in ((socket.AF_INET, "10.9.0.1"), (socket.AF_INET6, "fd00::1")):
    ip("neigh", "add", far, "lladdr", MAC, "dev", "tap0")
    for seg_len, total_len in SIZES:
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.settimeout(10)
            s.connect((far, 7))
            exchange(s, seg_len, total_len)
with open("/proc/sys/net/ipv4/ping_group_range") as f:
    assert f.read().split() == ["0", "0"], "ping_group_range"
print("mirrored", os.getuid(), os.getpid(), socket.gethostname(), flush=True)
