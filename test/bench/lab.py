# SPDX-License-Identifier: BSD-3-Clause
"""A private laboratory in which programs are measured; used by sidebyside, fair, start, peek and stall.

    peer 10.77.0.3, fd77::3 -- veth -- hst 10.77.0.2, fd77::2 (the program runs here, unprivileged) -- tap -- container

Everything is private to the run: a mount namespace of our own holds the names of the network namespaces, a copy of the user
list with one more ordinary user, and a /dev/net/tun that this user may open. So nothing needs to be undone on the machine, two
runs do not disturb each other, and whatever ends us, the kernel takes these away. The one setting that is global,
net.ipv4.tcp_allowed_congestion_control, is put back at the end (a run killed with SIGKILL cannot). Processes are ended by id, at
every way out; a guard process does it when we are killed.
Traffic stays in the namespaces made here. No fixed waits: each step waits for what it needs, with a limit.
"""
import contextlib
import ctypes
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PORT, INNER = "5301", "5311"
USER = "gemelli-bench"
ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
CLONE_NEWNS, PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG = 0x20000, 36, 1
# Reads the id of the daemon that runs now, 0 for none, -1 for a proper end. When the pipe ends without, tidies up after a killed run.
GUARD = """echo ready; cd /; d=0; while read -r p; do d=$p; done
[ "$d" -ge 0 ] || exit 0; [ "$d" = 0 ] || kill -9 "$d"; umount -l "$1"; rmdir "$1" """
LIBC = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """Something that the person at the keyboard can mend; the text is one line."""


def entry(run):
    """Call run() as a program: signals become exceptions, so that every `with` is left; a Failure becomes one line, status 2."""
    def stop(num, _frame):
        raise SystemExit(128 + num)
    for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(s, stop)
    try:
        sys.exit(run())
    except Failure as e:
        print(f"{os.path.basename(sys.argv[0])}: {e}", file=sys.stderr)
        sys.exit(2)


def sh(*argv, check=True):
    try:
        r = subprocess.run(argv, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    except OSError as e:
        r = subprocess.CompletedProcess(argv, 127, "", e.strerror)
    if check and r.returncode:
        raise Failure(f"{' '.join(argv)}: {(r.stderr or r.stdout).strip()}")
    return r


def until(what, cond, limit=10.0):
    """Wait until cond() gives something true and return that."""
    end = time.monotonic() + limit
    while True:
        v = cond()
        if v:
            return v
        if time.monotonic() > end:
            raise Failure(f"waited {limit:g} s for {what}")
        time.sleep(.01)


def read(path, default=""):
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return default


def conditions(a, progs):
    """What a reader of the figures must know about how they came about"""
    cpu = re.search(r"model name\s*:\s*(.*)", read("/proc/cpuinfo"))
    head = [f"mtu={a.mtu or 'default'} cc={a.cc} rounds={a.rounds} secs={a.secs}; medians (cpu seconds per run)",
            f"kernel {os.uname().release}, {os.cpu_count()} x {cpu.group(1) if cpu else os.uname().machine}, load at start {os.getloadavg()[0]:.1f}"]
    if os.getloadavg()[0] > .3 * os.cpu_count():
        head.append("NOT QUIET: other programs are running; compare ratios only, with care")
    return head + [f"{p.name}: {p.missing and 'MISSING' or p.version}{''.join(' ' + o for o in p.options)}" for p in progs if not p.bare]


class Ground:
    """The private mounts, the ordinary user, the load generator, and the list of processes. Use with `with`."""

    def __init__(self, nb="", floor=""):
        self.nb, self.floor, self.stack = nb, floor, contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as s:
            self._build(s)
            self.stack = s.pop_all()
        return self

    def __exit__(self, *_):
        for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(s, signal.SIG_IGN)
        self.stack.close()

    def _build(self, stack):
        if os.geteuid():
            raise Failure("root is needed to make network namespaces and to run programs as another user: try it with sudo")
        for tool in ("ip", "mount", "unshare", "nsenter", "setpriv", "sysctl"):
            if not shutil.which(tool):
                raise Failure(f"the command {tool} is missing: apt-get install iproute2 util-linux procps")
        if not os.path.exists("/dev/net/tun"):
            raise Failure("/dev/net/tun is missing: modprobe tun, or give it to this container")
        self.work = tempfile.mkdtemp(prefix="gemelli-bench.")
        stack.callback(os.rmdir, self.work)
        if LIBC.unshare(CLONE_NEWNS):
            raise Failure(f"unshare of mounts: {os.strerror(ctypes.get_errno())}: this container may not make namespaces")
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        sh("mount", "--make-rprivate", "/")
        sh("mount", "-t", "tmpfs", "-o", "mode=755", "gemelli-bench", self.work)
        stack.callback(sh, "umount", "-l", self.work, check=False)
        os.makedirs("/run/netns", exist_ok=True)
        sh("mount", "-t", "tmpfs", "-o", "mode=755", "gemelli-bench", "/run/netns")
        stack.callback(self._sweep)
        self.guard = self.start("sh", "-c", GUARD, "sh", self.work, dies=False)
        stack.callback(self.guard.stdin.close)
        stack.callback(self.watch, -1)
        self._user()
        self._tun(stack)
        self.nb = self.tool("nb", self.nb)
        allowed = read(ALLOWED)
        stack.callback(self._put_back, allowed)

    def _user(self):
        """One more line in private copies of passwd and group, so that no user is added to the machine."""
        for name, line in (("passwd", "{u}:x:{i}:{i}::/:/bin/sh"), ("group", "{u}:x:{i}:")):
            text = read(f"/etc/{name}")
            used = {x.split(":")[2] for x in text.splitlines() if x.count(":") > 2 or name == "group" and x.count(":") > 1}
            if name == "passwd":
                self.uid = next(i for i in range(59000, 60000) if str(i) not in used)
            copy = f"{self.work}/{name}"
            with open(copy, "w") as f:
                f.write(text + "\n" + line.format(u=USER, i=self.uid) + "\n")
            os.chmod(copy, 0o644)
            sh("mount", "--bind", copy, f"/etc/{name}")

    def _tun(self, stack):
        """A node of our own over /dev/net/tun; where none may be made, the machine's node is opened up until the end."""
        if os.stat("/dev/net/tun").st_mode & 0o006 == 0o006:
            return
        node = f"{self.work}/tun"
        try:
            os.mknod(node, 0o20666, os.makedev(10, 200))
            os.chmod(node, 0o666)
            os.close(os.open(node, os.O_RDWR))
            sh("mount", "--bind", node, "/dev/net/tun")
        except OSError:
            mode = os.stat("/dev/net/tun").st_mode & 0o7777
            os.chmod("/dev/net/tun", 0o666)
            stack.callback(os.chmod, "/dev/net/tun", mode)

    def tool(self, name, built):
        """A C program of ours where every user of the laboratory can run it: a copy of the file `built`, or built here from source"""
        copy = f"{self.work}/{name}"
        if os.path.exists(copy):
            return copy
        if built:
            shutil.copy(built, copy)
        else:
            sh(os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-pthread", os.path.join(HERE, f"{name}.c"), "-o", copy)
        os.chmod(copy, 0o755)
        return copy

    def _put_back(self, allowed):
        if self.changed and read(ALLOWED) == self.changed:
            with open(ALLOWED, "w") as f:
                f.write(allowed)

    changed = ""

    def allow(self, cc):
        """Namespaces may only choose what the machine allows."""
        now = read(ALLOWED).split()
        if cc in now:
            return
        if cc not in read("/proc/sys/net/ipv4/tcp_available_congestion_control").split():
            sh("modprobe", f"tcp_{cc}", check=False)
        try:
            with open(ALLOWED, "w") as f:
                f.write(" ".join(now + [cc]))
        except OSError as e:
            raise Failure(f"congestion control {cc} cannot be allowed ({ALLOWED}): {e.strerror}: this kernel has: "
                          + read("/proc/sys/net/ipv4/tcp_available_congestion_control")) from None
        self.changed = read(ALLOWED)

    def _sweep(self):
        """End what is still there. Orphans of our children became our own (subreaper), so this finds daemons too."""
        def left():
            kids = read(f"/proc/self/task/{os.getpid()}/children").split()
            for k in kids:
                with contextlib.suppress(OSError):
                    os.kill(int(k), signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            return not kids
        with contextlib.suppress(Failure):
            until("processes to end", left)

    def start(self, *argv, dies=True):
        """A process that prints one line when it is ready; returns it. It ends with us and never sees the terminal's Ctrl-C."""
        q = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             start_new_session=True, preexec_fn=lambda: dies and LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        if not select.select([q.stdout], [], [], 10)[0] or not q.stdout.readline():
            q.kill()
            raise Failure(f"{' '.join(argv)}: not ready: {q.communicate()[1].strip()}")
        return q

    def watch(self, pid):
        """Tell the guard which daemon has to go if we are killed, 0 when it has ended, -1 when all is well."""
        self.guard.stdin.write(f"{pid}\n")
        self.guard.stdin.flush()

    def stop(self, q):
        q.kill()
        q.communicate()

    def as_user(self):
        return ("setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups", "--inh-caps=-all",
                "env", "HOME=/", f"USER={USER}", f"LOGNAME={USER}")


class Lab:
    """Two namespaces and a veth pair, with one congestion control. Use with `with`, on a Ground."""

    def __init__(self, ground, cc):
        self.ground, self.nb, self.cc, self.procs = ground, ground.nb, cc, []

    def enter(self, ns):
        return ("ip", "netns", "exec", ns)

    def __enter__(self):
        with contextlib.ExitStack() as s:
            s.callback(self.close)
            for ns in ("hst", "peer"):
                sh("ip", "netns", "add", ns)
                sh("ip", "-n", ns, "link", "set", "lo", "up")
            sh("ip", "link", "add", "v0", "netns", "hst", "type", "veth", "peer", "name", "v1", "netns", "peer")
            for ns, dev, last in (("hst", "v0", "2"), ("peer", "v1", "1"), ("peer", "v1", "3")):
                sh("ip", "-n", ns, "addr", "add", f"10.77.0.{last}/24", "dev", dev)
                sh("ip", "-n", ns, "addr", "add", f"fd77::{last}/64", "dev", dev, "nodad")
                sh("ip", "-n", ns, "link", "set", dev, "up")
            sh("ip", "-n", "hst", "route", "add", "default", "via", "10.77.0.1")
            sh("ip", "-n", "hst", "-6", "route", "add", "default", "via", "fd77::1")
            sh(*self.enter("hst"), "sysctl", "-qw", "net.ipv4.ping_group_range=0 2147483647")
            for ns in ("hst", "peer"):
                self.choose_cc(self.enter(ns))
            for a in ("10.77.0.3", "fd77::3"):
                self.procs.append(self.ground.start(*self.enter("peer"), self.nb, "serve", a, PORT))
            s.pop_all()
        return self

    def choose_cc(self, inside):
        """Set and read back: a figure for the wrong algorithm is worse than none."""
        self.ground.allow(self.cc)
        key = "net.ipv4.tcp_congestion_control"
        sh(*inside, "sysctl", "-qw", f"{key}={self.cc}", check=False)
        got = sh(*inside, "sysctl", "-n", key).stdout.strip()
        if got != self.cc:
            raise Failure(f"congestion control stays {got}, {self.cc} was wanted, in: {' '.join(inside)}")

    def __exit__(self, *_):
        self.close()

    def close(self):
        for q in self.procs:
            self.ground.stop(q)
        self.procs = []
        for ns in ("hst", "peer"):
            sh("ip", "netns", "del", ns, check=False)


class Program:
    """What a NAME[=PATH[,OPTION...]] word on the command line says; `bare` names those that are no program and have no path."""

    def __init__(self, word, bare=("veth",)):
        self.name, _, rest = word.partition("=")
        path, *self.options = rest.split(",")
        self.bare = not rest
        self.relay = self.bare and self.name == "floor"
        if self.bare and self.name not in bare:
            raise Failure(f"{word}: expected NAME=PATH, or {' or '.join(bare)}")
        self.path = os.path.abspath(path) if path else ""
        self.missing = "" if self.bare or os.access(self.path, os.X_OK) else f"{path} is not there"
        self.version = ""
        if not self.bare and not self.missing:
            self.version = self._version()

    def _version(self):
        """First line of --version, on a terminal of its own: the version of trixie prints nothing into a pipe."""
        master, slave = os.openpty()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run((self.path, "--version"), stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, timeout=5)
        os.write(slave, b"\n")
        line = os.read(master, 4096).decode(errors="replace").strip().partition("\n")[0].strip()
        os.close(master)
        os.close(slave)
        if self.path.startswith("/usr/bin/") and "unknown" in line and shutil.which("dpkg-query"):
            line = sh("dpkg-query", "-W", "-f", "package ${Package} ${Version}", "passt", check=False).stdout or line
        return line or "says no version"

    @property
    def ours(self):
        return self.name == "ours" or self.name.startswith("ours-")


class Target:
    """One program attached to its own namespace, or the bare host path, or the least relay. Use with `with`, in a Lab."""

    def __init__(self, lab, prog, mtu=0):
        self.lab, self.prog, self.mtu, self.pid, self.procs, self.silent = lab, prog, mtu, 0, [], []

    def __enter__(self):
        with contextlib.ExitStack() as s:
            s.callback(self.close)
            if self.prog.relay:
                self._relay()
            else:
                self._serve()
            s.pop_all()
        return self

    def _serve(self):
        """All ways, out and in"""
        if self.prog.bare:
            self.inside = self.lab.enter("hst")
        else:
            self._attach()
        for a in ("0.0.0.0", "::"):
            self.procs.append(self.lab.ground.start(*self.inside, self.lab.nb, "serve", a, INNER))
        self.silent = self._probe()

    def _contain(self, run):
        """A namespace of the ordinary user; returns the process that holds it. It reads from a pipe of ours: the namespace goes when
        we do, even with SIGKILL."""
        holder = self.lab.ground.start(*run, "unshare", "-rUn", "sh", "-c", "echo ready; exec cat >/dev/null")
        self.procs.append(holder)
        self.inside = ("nsenter", "-t", str(holder.pid), "-U", "-n", "--preserve-credentials")
        return str(holder.pid)

    def _relay(self):
        """floor.c: datagrams from the container to the peer's IPv4 server and their answers pass, and nothing else, so no way is tried."""
        g = self.lab.ground
        run = (*self.lab.enter("hst"), *g.as_user())
        relay = g.start(*run, g.tool("floor", g.floor), self._contain(run), "10.77.0.3", PORT)
        self.procs.append(relay)
        self.pid = relay.pid
        g.watch(self.pid)
        # The ordinary user is root in there; we are nobody, and exec would take our capabilities.
        ip = (*g.as_user(), *self.inside, "ip")
        sh(*ip, "link", "set", "floor0", "mtu", str(self.mtu or 65520), "arp", "off", "up")
        sh(*ip, "addr", "add", "10.77.0.2/24", "dev", "floor0")

    def _attach(self):
        g, prog = self.lab.ground, self.prog
        run = (*self.lab.enter("hst"), *g.as_user())
        if sh(*run, "test", "-x", prog.path, check=False).returncode:
            raise Failure(f"{prog.name}: an ordinary user cannot reach {prog.path}: open the folders above it (chmod a+x), or copy it")
        tmp = tempfile.mkdtemp(dir=g.work)
        os.chown(tmp, g.uid, g.uid)
        holder = self._contain(run)
        mtu = ("-m", str(self.mtu)) if self.mtu else ()
        argv = (prog.path, "--config-net", "-q", *mtu, *prog.options, "-t", f"{PORT},{INNER}", "-u", f"{PORT},{INNER}",
                "-T", "none", "-U", "none", "-P", f"{tmp}/pid", holder)
        try:
            r = subprocess.run((*run, *argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, timeout=20)
        except subprocess.TimeoutExpired:
            raise Failure(f"{prog.name}: not in the background after 20 s: {' '.join(argv)}") from None
        if r.returncode:
            why = r.stderr.strip().splitlines() or [f"status {r.returncode}"]
            raise Failure(f"{prog.name}: start failed: {why[0]}: {' '.join(argv)}")
        self.pid = int(until(f"the process id of {prog.name}", lambda: read(f"{tmp}/pid")))
        g.watch(self.pid)
        self.lab.choose_cc(self.inside)

    def _probe(self):
        """Wait until one echo comes back on every path; returns the paths that stay silent, which then measure as 0."""
        ways = {f"{a} from the container": (*self.inside, self.lab.nb, "hold", a, PORT, "0", "1") for a in ("10.77.0.3", "fd77::3")}
        for a, ns in (("10.77.0.2", "peer"), ("fd77::2", "peer"), ("127.0.0.1", "hst")):
            ways[f"{a} from {ns}"] = (*self.lab.enter(ns), self.lab.nb, "hold", a, INNER, "0", "1")
        silent = []
        for name, argv in ways.items():
            try:
                until(name, lambda a=argv: not sh(*a, check=False).returncode)
            except Failure:
                silent.append(name)
        return silent

    def alive(self):
        return not self.pid or read(f"/proc/{self.pid}/stat", ") Z").rsplit(")", 1)[1].split()[0] not in "ZX"

    def cpu(self):
        """Seconds of processor time that the program has used"""
        if not self.pid or not self.alive():
            return 0
        f = read(f"/proc/{self.pid}/stat", ") S" + " 0" * 20).rsplit(")", 1)[1].split()
        return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self):
        """Resident memory, KiB"""
        lines = read(f"/proc/{self.pid}/status").splitlines() if self.pid and not self.prog.bare else []
        return next((int(x.split()[1]) for x in lines if x.startswith("VmRSS:")), 0)

    def nb(self, where, args, limit, wrap=()):
        """Run the load generator in "ct", "hst" or "peer"; returns its key=value pairs, with "error" when it gave no result."""
        return self.finish(self.begin(where, args, wrap), limit)

    def begin(self, where, args, wrap=()):
        """Start the load generator beside others; finish() waits for it, and leaving the Target ends it."""
        pre = self.inside if where == "ct" else self.lab.enter(where)
        q = subprocess.Popen((*wrap, *pre, self.lab.nb, *args), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        self.procs.append(q)
        return q

    def finish(self, q, limit):
        """The result of a load generator that begin() started"""
        try:
            out, err = q.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.lab.ground.stop(q)
            return {"error": f"no result within {limit:g} s"}
        finally:
            self.procs.remove(q)
        kv = dict(x.split("=", 1) for x in out.split() if "=" in x)
        if not kv:
            kv["error"] = err.strip() or f"load generator ended with {q.returncode}"
        if not self.alive():
            kv["error"] = "the program ended"
        return kv

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.pid:
            for sig in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError, Failure):
                    os.kill(self.pid, sig)
                    until("the program to end", self._gone, 3)
                    break
            self.pid = 0
            self.lab.ground.watch(0)
        for q in self.procs:
            self.lab.ground.stop(q)
        self.procs = []

    def _gone(self):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return not os.path.exists(f"/proc/{self.pid}")
