"""Puts a service through incidents, and checks that its log and its metrics name the cause at the first look.

    python3 .ci/incidents.py              runs all incidents, at the same time
    python3 .ci/incidents.py NAME …       runs these
    python3 .ci/incidents.py --verbose …  prints the log of each service

The service (`Tests/Incidents`) and its servers (`incident-server.py`) are processes. It needs a debug build, root, openssl and
iproute2. Each incident asserts the line that names the cause, and the metric that shows it.
"""

import itertools
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent
SERVICE = ROOT / ".build/debug/incident-service"
SERVER = ROOT / ".ci/incident-server.py"

# Below the ephemeral range, so that no other socket gets the port of a server that is down.
PORTS = itertools.count(random.randrange(12_000, 30_000))


def free_port():
    """Returns a port of 127.0.0.1 on which nothing listens."""
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port


class Incident:
    """The processes of one incident, in a directory of its own. All are ended with it."""

    def __init__(self, name, verbose):
        self.name, self.verbose = name, verbose
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="incident-"))
        self.processes, self.undo = [], []
        self.service = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in reversed(self.processes):
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.kill()
                process.wait()
        for command in reversed(self.undo):
            subprocess.run(command, check=False)
        if self.verbose or error[0]:
            print(f"-- {self.name}: the log of the service\n{self.log()}", flush=True)
        shutil.rmtree(self.directory)

    def start(self, command, output, **options):
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=open(self.directory / output, "a"), **options
        )
        self.processes.append(process)
        return process

    # Servers

    def serve(self, *options, prefix=(), port=0):
        """Starts a server, and returns its process and its port."""
        output = f"server-{len(self.processes)}"
        port = port or free_port()
        process = self.start([*prefix, sys.executable, SERVER, "--port", port, *options], output)
        line = self.wait(lambda: re.search(r"^port (\d+)\n", self.read(output)), f"the port of {output}")
        return process, int(line[1])

    def stop(self, process):
        process.terminate()
        process.wait()

    # The service

    def run(self, *options, prefix=(), **further):
        """Starts the service, and waits until it has a link."""
        command = [*prefix, SERVICE, "--metrics", self.directory / "metrics", *options]
        self.service = self.start(command, "log", **further)

    def end(self):
        """Ends the service, so that it writes what it has only counted."""
        self.service.stdin.close()
        self.service.wait(timeout=45)

    def read(self, name):
        path = self.directory / name
        return path.read_text() if path.exists() else ""

    def log(self):
        return self.read("log")

    # Assertions

    def wait(self, condition, what, seconds=45):
        end = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > end:
                code = self.service and self.service.poll()
                ended = "" if code is None else f"; the service has ended with the code {code}"
                raise AssertionError(f"{self.name}: {what}: not within {seconds} s{ended}")
            time.sleep(0.1)

    def line(self, pattern, seconds=45):
        """Waits for a line of the log."""
        return self.wait(lambda: re.search(f"^.*{pattern}.*$", self.log(), re.M), f"a line like {pattern}", seconds)[0]

    def no_line(self, pattern):
        found = re.search(f"^.*{pattern}.*$", self.log(), re.M)
        if found:
            raise AssertionError(f"{self.name}: there is a line like {pattern}: {found[0]}")

    def metric(self, name, *labels, least=1, seconds=15):
        """Waits until a metric with these labels has at least this value, and returns it."""

        def value():
            values = [
                float(line.rsplit(" ", 1)[1])
                for line in self.read("metrics").splitlines()
                if re.match(rf"{name}[ {{]", line) and all(label in line for label in labels)
            ]
            return max(values, default=-1.0) >= least and [max(values)]

        return self.wait(value, f"{name} {labels} of at least {least}", seconds)[0]


def incident(function):
    INCIDENTS[function.__name__.replace("_", "-")] = function
    return function


INCIDENTS = {}


@incident
def half_open_by_stop(i):
    """The server is stopped: its kernel still acknowledges."""
    server, port = i.serve()
    i.run("--endpoint", f"127.0.0.1:{port}")
    i.line("client.ready")
    os.kill(server.pid, signal.SIGSTOP)
    i.line(r"warning incident link\.lost: .*halfOpen: .*the server hangs: its kernel has acknowledged every byte")
    i.metric("trunkline_link_losses_total", 'trunkline_cause="halfOpen"')


@incident
def half_open_by_a_dead_path(i):
    """The address of the server vanishes, and nothing says so."""
    space, near, far = f"incident{os.getpid()}", f"in{os.getpid()}", f"if{os.getpid()}"
    ip = lambda *words: subprocess.run(["ip", *words], check=True)
    ip("netns", "add", space)
    i.undo.append(["ip", "netns", "del", space])
    ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", space)
    # Addresses of its own, should another check run on this machine.
    network = f"10.209.{os.getpid() // 64 % 256}.{os.getpid() % 64 * 4}"
    mine, theirs = (f"{network.rsplit('.', 1)[0]}.{int(network.rsplit('.', 1)[1]) + n}" for n in (1, 2))
    ip("addr", "add", f"{mine}/30", "dev", near)
    ip("link", "set", near, "up")
    ip("-n", space, "addr", "add", f"{theirs}/30", "dev", far)
    ip("-n", space, "link", "set", far, "up")
    _, port = i.serve("--host", theirs, prefix=["ip", "netns", "exec", space])
    # The neighbor stays known, so that the packets are sent and lost.
    ip("neigh", "replace", theirs, "dev", near, "nud", "permanent", "lladdr", link_address(space, far))
    i.run("--endpoint", f"{theirs}:{port}")
    i.line("client.ready")
    ip("-n", space, "addr", "del", f"{theirs}/30", "dev", far)
    i.line(r"warning incident link\.lost: .*halfOpen: .*the path .*(retransmi|not acknowledged|unacknowledged)")
    i.metric("trunkline_link_losses_total", 'trunkline_cause="halfOpen"')


def link_address(space, device):
    text = subprocess.run(["ip", "-n", space, "link", "show", device], check=True, capture_output=True, text=True).stdout
    return re.search(r"link/ether (\S+)", text)[1]


@incident
def exhausted_serials(i):
    """The server takes longer for each answer than the callers wait, and the protocol has few serials."""
    _, port = i.serve("--delay", 20)
    i.run("--endpoint", f"127.0.0.1:{port}", "--few-serials", "--workers", 200)
    i.metric("trunkline_serial_limit", least=64)
    i.metric("trunkline_serial_held", least=64)
    i.line(r"warning incident link\.draining: .*exhausted: .*64 of 64 serial numbers are held by abandoned requests")
    i.metric("trunkline_link_losses_total", 'trunkline_cause="exhausted"', seconds=40)
    i.line(r"warning incident limit\.reached: .*because all serial numbers of the link are in use")


@incident
def server_certificate_expired(i):
    """The server is restarted with a certificate that has expired."""
    authority = Authority(i.directory)
    good, expired = authority.identity("server"), authority.identity("expired", days=-2)
    server, port = i.serve("--tls", *good)
    i.run("--endpoint", f"tls://localhost:{port}", "--roots", authority.certificate)
    i.line("client.ready")
    left = i.metric("trunkline_tls_certificate_not_after_seconds", 'owner="server"') - time.time()
    assert 20 * 86400 < left < 40 * 86400, left
    i.stop(server)
    i.serve("--tls", *expired, port=port)
    i.line(r"error incident attempt\.failed: .*certificate.*expired")
    i.metric("trunkline_link_failures_total", 'trunkline_cause="tls"')


@incident
def client_certificate_expired(i):
    """A rotation installs a certificate of the client that has expired, and the server is restarted."""
    authority = Authority(i.directory)
    server_options = ["--tls", *authority.identity("server"), "--client-roots", authority.certificate]
    certificate, key = authority.identity("worker", days=2)
    expired = authority.identity("expired", days=-2)
    server, port = i.serve(*server_options)
    roots = ["--roots", authority.certificate]
    i.run("--endpoint", f"tls://localhost:{port}", *roots, "--certificate", certificate, "--key", key)
    i.line(r"error incident certificate\.expires: the certificate of this client \(/?CN ?= ?worker\) expires in")
    i.metric("trunkline_tls_certificate_not_after_seconds", 'owner="client"')
    for new, old in zip(expired, (certificate, key)):
        os.replace(new, old)
    i.stop(server)
    i.serve(*server_options, port=port)
    # The server closes without an alert, so the cause is not that of TLS.
    i.line(r"error incident attempt\.failed: .*certificate of this client is not valid: CN=expired expired 2 days ago")
    i.metric("trunkline_link_failures_total", 'trunkline_cause="closedByServer"')
    expiry = lambda: i.metric("trunkline_tls_certificate_not_after_seconds", 'owner="client"')
    i.wait(lambda: expiry() < time.time(), "a metric that shows the certificate that has expired")


@incident
def wrong_token(i):
    """Fifty workers log in with a wrong token. The server must not be asked again and again."""
    _, port = i.serve("--token", "right")
    i.run("--endpoint", f"127.0.0.1:{port}", "--token", "wrong")
    i.line(r"error incident attempt\.failed: .*handshakeRefused: .*the token is wrong")
    i.metric("trunkline_link_failures_total", 'trunkline_cause="handshakeRefused"')
    time.sleep(10)
    logins = i.read("server-0").count("login")
    assert logins <= 2, f"{logins} logins in 10 s"


@incident
def dead_first_address(i):
    """The first address of a name does not answer, and the second one works."""
    _, port = i.serve("--host", "127.0.77.2")
    # A socket that accepts nothing, and whose queue is full.
    dead = socket.socket()
    dead.bind(("127.0.77.1", port))
    dead.listen(0)
    waiting = [socket.socket() for _ in range(4)]
    for other in waiting:
        other.setblocking(False)
        other.connect_ex(("127.0.77.1", port))
    hosts = i.directory / "hosts"
    hosts.write_text("127.0.77.1 gateway.test\n127.0.77.2 gateway.test\n127.0.0.1 localhost\n")
    script = 'mount --bind "$0" /etc/hosts && exec "$@"'
    i.run("--endpoint", f"gateway.test:{port}", prefix=["unshare", "--mount", "sh", "-c", script, hosts])
    i.line(r"client\.ready: ready on gateway\.test:\d+ \(127\.0\.77\.2:")
    i.line(r"incident address\.failed: gateway\.test:\d+: the address 127\.0\.77\.1:\d+ cannot be used")
    i.metric("trunkline_address_failures_total", 'network_peer_address="127.0.77.1')
    for other in [dead, *waiting]:
        other.close()


@incident
def one_slow_server_of_two(i):
    """One of the two servers of a cluster takes longer than the callers wait."""
    _, slow = i.serve("--delay", 20)
    _, good = i.serve()
    endpoints = ["--endpoint", f"127.0.0.1:{slow}", "--endpoint", f"127.0.0.1:{good}"]
    # Longer than a busy machine needs.
    i.run(*endpoints, "--cluster", "--timeout", 4)
    i.line(rf"warning incident server\.ejected: .*127\.0\.0\.1:{slow}")
    i.no_line(rf"server\.ejected: .*127\.0\.0\.1:{good}")
    labels = [f'server_port="{slow}"', 'trunkline_server_state="ejected"']
    i.metric("trunkline_cluster_server_state", *labels)
    i.metric("trunkline_request_errors_total", f'server_port="{slow}"', 'error_type="timedOut"')


@incident
def broken_list_of_servers(i):
    """The file of a discovery is replaced by one with a mistake, and is corrected later."""
    _, port = i.serve()
    servers = i.directory / "servers"
    servers.write_text(f"127.0.0.1:{port}\n")
    i.run("--cluster", "--list", servers)
    i.line(r"incident cluster\.ready")
    servers.write_text(f"127.0.0.1:{port}\n127.0.0.1:many\n")
    i.line(r"warning incident discovery\.failed: .*changes nothing about the servers in use: reading .*: line 2")
    i.metric("trunkline_cluster_discovery_failures_total")
    i.metric("trunkline_cluster_discovery_outage_seconds", least=2)
    servers.write_text(f"127.0.0.1:{port}\n")
    i.line(r"info incident discovery\.recovered: the discovery works again, ")
    i.no_line(r"requests\.failed")


@incident
def child_that_says_why_it_ends(i):
    """A child process ends at each start, and says why on its standard error."""
    i.run("--command", "echo $$: starting >&2; echo the license has expired >&2; exit 3", "--token", "x")
    i.line(r"warning incident attempt\.failed: .*exited: .*exit status 3.*standard error: \"the license has expired\"")
    i.line(r"incident links\.unstable: .* attempts failed .*lines of standard error left out.*\"the license has expired\"")
    assert i.log().count("incident process.output") == 2, "its lines are quoted once"
    i.metric("trunkline_link_failures_total", 'trunkline_cause="exited"', least=3)


@incident
def no_descriptors(i):
    """The service may open no further descriptor, and its server is restarted."""
    server, port = i.serve()
    # The runtime of Swift, too, needs descriptors on Linux. Once a second it opens a file for each thread of its pool, if the
    # pool has more to do than it does, and ends the process if it cannot. So the service has few tasks, and goes first.
    i.run("--endpoint", f"127.0.0.1:{port}", "--workers", 2, prefix=["chrt", "--rr", "1"])
    i.line("client.ready")
    # Its first timer opens one, and without it no task that sleeps wakes up. These calls were made after a sleep.
    i.metric("rpc_client_call_duration_seconds_count", least=10)
    usual = resource.prlimit(i.service.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(i.service.pid, resource.RLIMIT_NOFILE, (3, usual[1]))
    i.stop(server)
    i.line(r"error incident attempt\.failed: .*all 3 file descriptors that this process may have are open.*to do: raise")
    resource.prlimit(i.service.pid, resource.RLIMIT_NOFILE, usual)
    i.serve(port=port)
    i.line(r"incident link\.ready: ready again")
    i.metric("trunkline_link_failures_total", 'trunkline_cause="system"')


@incident
def wrong_serials_now_and_then(i):
    """The server answers some requests twice, the second time with a wrong serial."""
    _, port = i.serve("--wrong-every", 20)
    i.run("--endpoint", f"127.0.0.1:{port}", "--pause", 0.02)
    time.sleep(3)
    i.metric("trunkline_response_unmatched_total", 'trunkline_reason="unknown"')
    i.line(r"info incident responses\.unknown: .*serial \d+ on session 1.*wrong serial number \[127\.0\.0\.1:")
    i.end()
    i.line(r"warning incident responses\.unknown: \d[\d,]* responses came in .* that no request was waiting for")


@incident
def slow_reader_of_pushes(i):
    """The service reads pushes more slowly than they come."""
    _, port = i.serve("--pushes", 2000)
    i.run("--endpoint", f"127.0.0.1:{port}", "--reads-slowly")
    i.line(r"warning incident pushes\.dropped: .*its reader is slower than the pushes come.*type 0x1.*\[127\.0\.0\.1:")
    i.metric("trunkline_push_dropped_total", 'trunkline_push_stream="type 0x1"')


@incident
def stopped_client(i):
    """The service is stopped for longer than the server may be silent."""
    _, port = i.serve()
    i.run("--endpoint", f"127.0.0.1:{port}")
    i.line("client.ready")
    os.kill(i.service.pid, signal.SIGSTOP)
    time.sleep(15)
    os.kill(i.service.pid, signal.SIGCONT)
    # The second, if the process was in a turn of the event loop.
    i.line(r"warning incident loop\.late: this process (did not run|hardly ran) for 1\d(\.\d+)? s")
    i.metric("trunkline_delay_duration_seconds_count", 'trunkline_delay_type="late"')
    i.end()
    i.no_line(r"link\.lost")


@incident
def starved_client(i):
    """Another process takes the processor of the service."""
    processor = str(min(os.sched_getaffinity(0)))
    _, port = i.serve()
    i.run("--endpoint", f"127.0.0.1:{port}", prefix=["taskset", "-c", processor])
    i.line("client.ready")
    loop = "import time\nend = time.monotonic() + 8\nwhile time.monotonic() < end: pass"
    # Before everything else on its processor.
    i.start(["taskset", "-c", processor, "chrt", "--fifo", "50", sys.executable, "-c", loop], "hog").wait()
    i.line(r"warning incident loop\.late: .*no processor was free")
    i.metric("trunkline_delay_duration_seconds_count", 'trunkline_delay_type="late"')
    i.no_line(r"link\.lost")


@incident
def outage_of_a_minute(i):
    """The server is down for 60 s, under load. Few lines say so, and the last one says that it is over."""
    server, port = i.serve()
    i.run("--endpoint", f"127.0.0.1:{port}")
    i.line("client.ready")
    before = len(i.log().splitlines())
    i.stop(server)
    time.sleep(60)
    i.serve(port=port)
    i.line(r"info incident link\.ready: ready again .*there was no link for ([6-9]\d(\.\d+)? s|1\.\d+ min)")
    time.sleep(2)
    # Other incidents keep the machine busy.
    lines = [line for line in i.log().splitlines()[before:] if " loop.late: " not in line]
    assert len(lines) < 12, f"{len(lines)} lines"
    # Ended, and not lost, if no request was in flight.
    assert any(re.search(r"link\.(lost|ended): .*(closedByServer|reset)", line) for line in lines), lines
    i.metric("trunkline_link_failures_total", 'trunkline_cause="refused"', least=3)


@incident
def another_service_at_the_port(i):
    """The port belongs to another service, which the service of this incident speaks to in plaintext, and over TLS."""
    _, port = i.serve("--banner", "SSH-2.0-OpenSSH_9.6\r\n")
    i.run("--endpoint", f"127.0.0.1:{port}")
    i.line(r"warning incident link\.(lost|ended): .*the server answers with SSH: check the host and the port")
    i.metric("trunkline_link_losses_total", 'trunkline_cause="protocolViolation"')
    i.no_line("TLS")
    i.end()
    i.run("--endpoint", f"tls://127.0.0.1:{port}")
    i.line(r"error incident attempt\.failed: .*the server answers with SSH, not with TLS")
    i.metric("trunkline_link_failures_total", 'trunkline_cause="tls"')


@incident
def plaintext_to_a_tls_port(i):
    """The server speaks TLS, and the endpoint lacks it."""
    authority = Authority(i.directory)
    _, port = i.serve("--tls", *authority.identity("server"))
    i.run("--endpoint", f"127.0.0.1:{port}")
    clue = r"(does this port expect TLS|the server answers with TLS: use an endpoint with tls://)"
    i.line(rf"incident link\.(lost|ended): .*{clue}")
    i.metric("trunkline_link_losses_total")


@incident
def server_that_leaves_again_and_again(i):
    """The server announces its shutdown a second after each link was established. No request is lost, so few lines say it."""
    _, port = i.serve("--leave-after", 1)
    i.run("--endpoint", f"127.0.0.1:{port}")
    i.line(r"info incident link\.replaced: .*goAway: the server announced its shutdown")
    i.line(r"warning incident link\.replaced: the link was replaced \d+ more times in .*goAway.*; to do: see why the server")
    i.metric("trunkline_link_losses_total", 'trunkline_cause="goAway"', least=5)
    lines = i.log().splitlines()
    assert len(lines) < 8, f"{len(lines)} lines"


@incident
def name_that_leads_to_a_foreign_host(i):
    """The name leads to a host that accepts connections and is not the server. Its address is what the operator needs."""
    _, port = i.serve("--host", "127.0.77.3", "--mute")
    hosts = i.directory / "hosts"
    hosts.write_text("127.0.77.3 gateway.test\n127.0.0.1 localhost\n")
    script = 'mount --bind "$0" /etc/hosts && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", script, hosts]
    i.run("--endpoint", f"gateway.test:{port}", "--token", "a", prefix=prefix)
    i.line(rf"attempt\.failed: attempt 1 to gateway\.test:{port} \(127\.0\.77\.3:{port}\) failed while handshaking: timedOut")
    i.metric("trunkline_link_failures_total", 'trunkline_cause="timedOut"')


@incident
def firewall_that_rejects(i):
    """A router on the way rejects the connection with ICMP. The routes of this host are in order."""
    network = Network(i)
    target = network.address(2).replace("10.212.", "10.213.")
    network.ip("route", "add", target, "via", network.theirs)
    network.run_there("sysctl", "-qw", "net.ipv4.ip_forward=1")
    network.ip("-n", network.space, "route", "add", "prohibit", target)
    i.run("--endpoint", f"{target}:7000")
    line = i.line(r"warning incident attempt\.failed: .*unreachable: the address cannot be reached; .*a firewall on the way")
    assert "no route" not in line, line
    i.metric("trunkline_link_failures_total", 'trunkline_cause="unreachable"')


@incident
def host_without_a_route(i):
    """This host has no route to the server."""
    i.run("--endpoint", "10.211.0.1:7000", prefix=["unshare", "--net"])
    i.line(r"warning incident attempt\.failed: .*unreachable: .*no route of this host leads to the address")
    i.metric("trunkline_link_failures_total", 'trunkline_cause="unreachable"')


@incident
def firewall_of_this_host_that_drops(i):
    """This host drops what it sends to the server. The server reads, and has nothing to read."""
    network = Network(i)
    _, port = i.serve("--host", network.theirs, prefix=["ip", "netns", "exec", network.space])
    network.ip("neigh", "replace", network.theirs, "dev", network.near, "nud", "permanent", "lladdr", network.link_address())
    # Before the kernel gives the connection up, after which it tells no more.
    i.run("--endpoint", f"{network.theirs}:{port}", "--impatient")
    i.line("client.ready")
    subprocess.run(["tc", "qdisc", "replace", "dev", network.near, "root", "pfifo", "limit", "0"], check=True)
    i.line(r"warning incident link\.lost: .*halfOpen: .*this host does not send: the server takes [\d,]+ bytes")
    i.metric("trunkline_link_losses_total", 'trunkline_cause="halfOpen"')


@incident
def proxy_that_refuses_credentials(i):
    """The proxy does not accept the password."""
    _, port = i.serve("--proxy", "refuse")
    i.run("--endpoint", "gateway.test:7000", "--proxy", f"http://user:wrong@127.0.0.1:{port}")
    i.line(
        r"error incident attempt\.failed: .*: proxy: the proxy refused the user name or the password; .*"
        rf"http://127\.0\.0\.1:{port}.* answered 407"
    )
    i.no_line("cannot be reached")
    i.no_line("wrong")
    i.metric("trunkline_link_failures_total", 'trunkline_cause="proxy"')


@incident
def proxy_that_cuts_the_tunnel(i):
    """The proxy connects, and closes the tunnel: of a link in plaintext, and during the TLS handshake."""
    _, port = i.serve("--proxy", "cut")
    proxy = rf"http://127\.0\.0\.1:{port}"
    for scheme, event in [("", r"link\.(lost|ended)"), ("tls://", r"attempt\.failed")]:
        i.run("--endpoint", f"{scheme}gateway.test:7000", "--proxy", f"http://127.0.0.1:{port}")
        i.line(rf"{event}: .*the tunnel.* was closed by the proxy {proxy}, or by the server behind it")
    i.no_line("the server closed the connection")
    i.metric("trunkline_link_failures_total", 'trunkline_cause="closedByServer"')


@incident
def balancer_that_closes_idle_links(i):
    """Something on the way closes each link that was idle for six seconds."""
    _, port = i.serve("--idle-limit", 6)
    i.run("--endpoint", f"127.0.0.1:{port}", "--workers", 1, "--pause", 8)
    i.line(
        r"info incident link\.ended: .*it was idle for (5\.\d+|6(\.\d+)?) s: if the server or a load balancer closes idle"
        r" connections, let options\.liveness\.interval be shorter"
    )
    i.line(r"it was idle for .*, like the link before: the server or a load balancer closes idle connections; to do: let")
    i.metric("trunkline_link_losses_total", 'trunkline_cause="closedByServer"', least=2)


class Network:
    """A network of this host and another one, in a network namespace, with addresses of their own."""

    def __init__(self, incident):
        number = next(NETWORKS)
        self.space, self.near, self.far = f"incident-{number}", f"in-{number}", f"if-{number}"
        self.ip("netns", "add", self.space)
        incident.undo.append(["ip", "netns", "del", self.space])
        self.number = number
        self.mine, self.theirs = self.address(1), self.address(2)
        self.ip("link", "add", self.near, "type", "veth", "peer", "name", self.far, "netns", self.space)
        self.ip("addr", "add", f"{self.mine}/30", "dev", self.near)
        self.ip("link", "set", self.near, "up")
        self.ip("-n", self.space, "addr", "add", f"{self.theirs}/30", "dev", self.far)
        self.ip("-n", self.space, "link", "set", self.far, "up")

    def address(self, host):
        # Not that of another incident (`half_open_by_a_dead_path`), or of another check on this machine.
        return f"10.212.{self.number // 64 % 256}.{self.number % 64 * 4 + host}"

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True)

    def run_there(self, *words):
        subprocess.run(["ip", "netns", "exec", self.space, *words], check=True)

    def link_address(self):
        return link_address(self.space, self.far)


NETWORKS = itertools.count(os.getpid() % 8000 * 2)


class Authority:
    """Makes certificates."""

    def __init__(self, directory):
        self.directory = directory
        self.certificate, self.key = directory / "root.pem", directory / "root.key"
        self.openssl("req", "-x509", *self.new_key(self.key), "-out", self.certificate, "-days", 30, "-subj", "/CN=root")

    def new_key(self, path):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path]

    def identity(self, name, days=30):
        """Returns the files of a certificate for localhost, and of its key."""
        certificate, key, request = (self.directory / f"{name}.{end}" for end in ("pem", "key", "csr"))
        self.openssl("req", *self.new_key(key), "-out", request, "-subj", f"/CN={name}")
        # The command `ca` is the one that takes dates, also those of the past.
        settings = self.directory / "ca.conf"
        settings.write_text(
            f"[ca]\ndefault_ca = d\n[d]\ndatabase = {self.directory}/index\nnew_certs_dir = {self.directory}\n"
            "rand_serial = yes\ndefault_md = sha256\npolicy = p\nunique_subject = no\nx509_extensions = e\n"
            "[p]\ncommonName = supplied\n[e]\nsubjectAltName = DNS:localhost, IP:127.0.0.1\n"
        )
        (self.directory / "index").touch()
        day = lambda days: time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + 86_400 * days))
        self.openssl(
            "ca", "-batch", "-config", settings, "-in", request, "-cert", self.certificate, "-keyfile", self.key,
            "-out", certificate, "-notext", "-startdate", day(-10), "-enddate", day(days),
        )  # fmt: skip
        return certificate, key

    def openssl(self, *words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@incident
def stopped_client_of_a_cluster(i):
    """The service, with links to four servers, is stopped. That is one fact, and no server has a part in it."""
    ports = [i.serve()[1] for _ in range(4)]
    i.run(*(word for port in ports for word in ("--endpoint", f"127.0.0.1:{port}")), "--cluster")
    i.line("cluster.created")
    i.metric("rpc_client_call_duration_seconds_count", least=20)
    os.kill(i.service.pid, signal.SIGSTOP)
    time.sleep(15)
    os.kill(i.service.pid, signal.SIGCONT)
    late = r"warning incident loop\.late: .*this process (did not run|hardly ran) for 1\d(\.\d+)? s"
    i.line(late)
    i.end()
    lines = re.findall(f"^.*{late}.*$", i.log(), re.M)
    assert len(lines) == 1, lines
    i.no_line(r"loop\.late: .*(servers|\[server)")
    i.no_line(r"server\.ejected|link\.lost")


def main(arguments):
    # So that each incident ends its processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    verbose = "--verbose" in arguments
    names = [argument for argument in arguments if argument != "--verbose"] or list(INCIDENTS)
    failures = []

    def run(name):
        begin = time.monotonic()
        try:
            with Incident(name, verbose) as one:
                INCIDENTS[name](one)
            print(f"{name}: named, after {time.monotonic() - begin:.0f} s", flush=True)
        except Exception:
            failures.append(f"{name}\n{traceback.format_exc()}")

    threads = [threading.Thread(target=run, args=[name], daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit("\n".join(failures))
    print(f"{len(names)} incidents, each named by a line and shown by a metric")


if __name__ == "__main__":
    main(sys.argv[1:])
