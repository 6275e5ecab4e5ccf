# SPDX-License-Identifier: BSD-3-Clause
"""A container is stopped and started again at once, with the same published ports (C01)."""
import os
import shutil
import signal
import subprocess
import tempfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PASTA = os.path.abspath(os.environ.get("PASTA") or os.path.join(ROOT, "pasta"))
ROUNDS = 40


class Host:
    """A network namespace as the host, and a folder for the names of those that are served."""

    def __init__(self):
        self.name = f"gemre{os.getpid()}"
        self.dir = tempfile.mkdtemp(prefix="gemelli-restart-")
        self.made, self.pids = [], []
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        self.inside("ip", "link", "set", "lo", "up")

    def inside(self, *args, **kw):
        return subprocess.run(["ip", "netns", "exec", self.name, *args], **{"check": True, **kw})

    def target(self):
        """A new network namespace with a name in our folder, and nobody in it."""
        path = os.path.join(self.dir, f"n{len(self.made)}")
        with open(path, "w"):
            pass
        subprocess.run(["unshare", f"--net={path}", "true"], check=True)
        self.made.append(path)
        return path

    def remove(self, path):
        subprocess.run(["umount", path], check=True)
        os.unlink(path)

    def serve(self, path, port):
        pid_file = path + ".pid"
        p = self.inside(PASTA, "--config-net", "-q", "-t", str(port), "-u", str(port), "-P", pid_file, "--netns", path, check=False,
                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=30)
        assert p.returncode == 0, f"instance {len(self.made)}: {p.stderr}"
        with open(pid_file) as f:
            self.pids.append(int(f.read()))
        return self.pids[-1]

    def close(self):
        for path in self.made:
            if os.path.exists(path):
                self.remove(path)
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        subprocess.run(["ip", "netns", "del", self.name], check=True)
        shutil.rmtree(self.dir)


@pytest.fixture
def host():
    h = Host()
    yield h
    h.close()


def test_restart_with_the_same_ports(host):
    port = 20000 + os.getpid() % 10000
    host.serve(host.target(), port)
    for _ in range(ROUNDS):
        new = host.target()
        host.remove(host.made[-2])
        host.serve(new, port)


def test_port_of_another_program_is_an_error(host):
    port = 20000 + os.getpid() % 10000
    with open(f"/run/netns/{host.name}") as ns:
        held = subprocess.Popen(["nsenter", f"--net=/proc/self/fd/{ns.fileno()}", "socat", f"TCP-LISTEN:{port},fork", "-"],
                                pass_fds=[ns.fileno()], stdin=subprocess.DEVNULL)
        try:
            host.inside("sh", "-c", f"for i in $(seq 500); do ss -Hltn sport = :{port} | grep -q . && exit; sleep 0.01; done; exit 1")
            p = host.inside(PASTA, "--config-net", "-t", str(port), "--netns", host.target(), check=False, stderr=subprocess.PIPE,
                            text=True, timeout=30)
            assert p.returncode == 1 and f"TCP port {port}" in p.stderr and "Address already in use" in p.stderr
        finally:
            held.kill()
            held.wait()
