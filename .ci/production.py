"""Runs the program of the article *In production* with a real Prometheus, the alerts and the dashboard of the article.

    python3 .ci/production.py --write FILE        writes the code of the article, from its first block to its last
    python3 .ci/production.py PROGRAM             runs the program that was built from it
    python3 .ci/production.py --verbose PROGRAM   also prints its log

It needs prometheus, promtool and openssl. `.ci/consumers` builds the program in another package, and runs it. The
executable of `Snippets/InProduction.swift` is the same program.
"""

import collections
import itertools
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True  # or the import below leaves a directory behind

import dashboard
from incidents import ROOT, Authority, Incident, free_port

ARTICLE = ROOT / "Sources/Trunkline/Documentation.docc/Articles/InProduction.md"
RULES = ROOT / "Sources/Trunkline/Documentation.docc/Resources/trunkline-alerts.yml"
TESTS = ROOT / ".ci/alerts.yml"
# Panels without data: no such thing has happened, or it is not measured by default (`measuresByName`).
EMPTY = re.compile("Cluster|Address failures|Request duration|Request rejections|Link reasons|Share of calls that fail|Server request |Cache ")


def check_rules():
    """Every rule has an incident that makes it fire and compares its text, and is silent for a healthy client."""
    subprocess.run(["promtool", "check", "rules", RULES], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["promtool", "test", "rules", TESTS], text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"promtool test rules {TESTS}\n{done.stdout}{done.stderr}")
    # Several rules may have one name. Where an alert is listed, promtool compares its text too.
    rules = collections.Counter(re.findall(r"alert: (\w+)", RULES.read_text()))
    fired = collections.Counter()
    blocks = r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:\n((?: {10,}.*\n)+)"
    for name, alerts in re.findall(blocks, TESTS.read_text()):
        fired[name] = max(fired[name], alerts.count("exp_annotations:"))
    if missing := rules - fired:
        sys.exit(f"alerts whose text has no test in {TESTS}: {sorted(missing)}")
    return set(rules)


def get(port, target):
    """The status and the text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{target}", timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def exchange(port, text):
    """What the server answers to these bytes, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(text)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer.decode()


class Prometheus:
    def __init__(self, i, targets):
        self.port = free_port()
        (i.directory / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: ['{RULES}']\n"
            f"scrape_configs: [{{job_name: service, static_configs: [{{targets: {json.dumps(targets)}}}]}}]\n"
        )
        i.start(
            ["prometheus", f"--config.file={i.directory}/prometheus.yml", f"--storage.tsdb.path={i.directory}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            "prometheus", stderr=subprocess.STDOUT,
        )  # fmt: skip

    def api(self, path, **arguments):
        """The data of an answer; `None` while Prometheus starts. An expression that is not valid is an error."""
        try:
            status, text = get(self.port, f"/api/v1/{path}?{urllib.parse.urlencode(arguments)}")
        except OSError:
            return None
        if status == 503:
            return None
        answer = json.loads(text)
        if answer["status"] != "success":
            raise AssertionError(f"{path} {arguments}: {answer}")
        return answer["data"]

    def query(self, expression):
        return self.api("query", query=expression)["result"]

    def alerts(self, name):
        return self.query(f'ALERTS{{alertname="{name}"}}')


def empty_panels(prometheus):
    """The panels of the dashboard that have no data, of those that must have some."""
    board = json.loads(dashboard.DASHBOARD.read_text())
    found = []
    for title, expression in dashboard.expressions(board):
        for variable, value in {"$__rate_interval": "5s", "$instance": ".*", "$client": ".*"}.items():
            expression = expression.replace(variable, value)
        if not prometheus.query(expression) and not EMPTY.match(title):
            found.append(f"{title}: {expression}")
    return found


def service(i, program, output, environment):
    """Starts the program, and returns its process and the port of its pages."""
    process = i.start([program], output, env=os.environ | environment, stderr=subprocess.STDOUT)
    line = i.wait(lambda: re.search(r"/live at port (\d+)\n", i.read(output)), f"the port of {output}", 15)
    return process, int(line[1])


def check_pages(port):
    """Checks the HTTP server. Returns a connection whose request never ends."""
    slow = socket.create_connection(("127.0.0.1", port), timeout=10)
    slow.sendall(b"GET /live HTTP/1.1\r\n")
    # It does not keep others waiting.
    assert get(port, "/live") == (200, "alive\n")
    assert get(port, "/ready?verbose")[0] == 200
    assert get(port, "/")[0] == 404
    assert exchange(port, b"POST /ready HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc").startswith("HTTP/1.1 405 ")
    assert exchange(port, b"nonsense\r\n\r\n").startswith("HTTP/1.1 400 ")
    assert exchange(port, b"GET /ready HTTP/1.1\r\nX: " + b"x" * 20_000).startswith("HTTP/1.1 431 ")
    head = exchange(port, b"HEAD /live HTTP/1.1\r\n\r\n")
    assert head.endswith("\r\n\r\n") and "Content-Length: 6\r\nConnection: close\r\n" in head, head
    return slow


def check_settings(program):
    """An environment that is not valid ends the program at once, with a line that says why."""
    valid = {"GATEWAY_ENDPOINTS": "a:1", "GATEWAY_TOKEN": "x"}
    for environment, line in [
        ({"GATEWAY_ENDPOINTS": "a:1,b"}, 'GATEWAY_ENDPOINTS: invalid endpoint "b": the port is missing'),
        ({"GATEWAY_TOKEN": ""}, "GATEWAY_TOKEN is not set"),
        ({"GATEWAY_ROOTS": "/missing"}, "GATEWAY_ROOTS: cannot read the file /missing"),
        ({"GATEWAY_ROOTS": "/dev/null"}, "GATEWAY_ENDPOINTS: with certificates, write tls:// before a:1"),
        ({"GATEWAY_KEY": "/dev/null"}, "set both GATEWAY_CERTIFICATE and GATEWAY_KEY, or neither"),
        ({"HTTP_PORT": "many"}, 'HTTP_PORT: "many" is not a number from 0 to 65535'),
    ]:
        environment = os.environ | valid | environment
        done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=20)
        assert done.returncode == 78 and done.stderr.startswith(line), (line, done)


def run(i, program):
    authority = Authority(i.directory)
    certificate, key = authority.identity("worker")
    server_options = [
        "--tls", *authority.identity("server"), "--client-roots", authority.certificate, "--token", "secret",
    ]  # fmt: skip
    server, port = i.serve(*server_options)
    environment = {
        "GATEWAY_ENDPOINTS": f"tls://localhost:{port}", "GATEWAY_TOKEN": "secret", "HTTP_PORT": "0",
        "GATEWAY_ROOTS": str(authority.certificate), "GATEWAY_CERTIFICATE": str(certificate), "GATEWAY_KEY": str(key),
    }  # fmt: skip
    first, pages = service(i, program, "log", environment)
    second, others = service(i, program, "second", environment)
    prometheus = Prometheus(i, [f"127.0.0.1:{pages}"])
    i.wait(lambda: get(pages, "/ready")[0] == 200, "readiness", 15)
    slow = check_pages(pages)
    check_settings(program)

    # Healthy.
    targets = lambda: (prometheus.api("targets") or {"activeTargets": []})["activeTargets"]
    i.wait(lambda: [target for target in targets() if target["health"] == "up"], "a target that is up", 15)
    try:
        i.wait(lambda: not empty_panels(prometheus), "data in every panel", 15)
    except AssertionError:
        print("\n".join(empty_panels(prometheus)))
        raise
    rules = lambda: [rule for group in prometheus.api("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules()} == set(re.findall(r"alert: (\w+)", RULES.read_text()))
    i.wait(lambda: all(rule["health"] == "ok" for rule in rules()), "an evaluation of every rule", 15)
    # The event loop may be late, because the machine is busy.
    firing = prometheus.query('ALERTS{alertstate="firing", alertname!="TrunklineEventLoopLate"}')
    assert not firing, firing
    # The connection is closed without an answer.
    assert slow.recv(1) == b""
    slow.close()

    # No descriptor is left. The page is served with the one in reserve, again and again.
    usual = resource.prlimit(first.pid, resource.RLIMIT_NOFILE)
    taken = {int(number) for number in os.listdir(f"/proc/{first.pid}/fd")}
    free = next(number for number in itertools.count() if number not in taken)
    resource.prlimit(first.pid, resource.RLIMIT_NOFILE, (free, usual[1]))
    for _ in range(4):
        assert get(pages, "/metrics")[0] == 200
    resource.prlimit(first.pid, resource.RLIMIT_NOFILE, usual)
    for _ in range(4):
        assert get(pages, "/metrics")[0] == 200

    # The server is gone. Meanwhile the certificate of the client is replaced by one that expires soon.
    i.stop(server)
    i.wait(lambda: get(pages, "/ready")[0] == 503, "no readiness without a link")
    assert get(pages, "/live")[0] == 200
    i.wait(lambda: prometheus.alerts("TrunklineNoLink"), "the alert that there is no link", 15)
    for new, old in zip(authority.identity("rotated", days=2), (certificate, key)):
        os.replace(new, old)
    server, _ = i.serve(*server_options, port=port)
    i.wait(lambda: get(pages, "/ready")[0] == 200 and get(others, "/ready")[0] == 200, "readiness after the incident")
    i.wait(lambda: prometheus.alerts("TrunklineCertificateExpiresSoon"), "the alert of the new certificate", 15)
    i.wait(lambda: not prometheus.alerts("TrunklineNoLink"), "the end of the alert that there is no link", 15)

    # The end, with requests in flight: the server is stopped.
    os.kill(server.pid, signal.SIGSTOP)
    in_flight = lambda port: re.search(r"^trunkline_request_in_flight\{.*\} [1-9]", get(port, "/metrics")[1], re.M)
    i.wait(lambda: in_flight(pages) and in_flight(others), "requests in flight", 10)
    # A second signal does not wait for the requests.
    second.send_signal(signal.SIGTERM)
    i.wait(lambda: get(others, "/ready") == (503, "ending\n"), "the end of the readiness", 10)
    second.send_signal(signal.SIGINT)
    assert second.wait(10) == 0
    # After one signal, they are answered.
    i.wait(lambda: in_flight(pages), "requests in flight", 10)
    first.send_signal(signal.SIGTERM)
    i.wait(lambda: get(pages, "/ready") == (503, "ending\n"), "the end of the readiness", 10)
    os.kill(server.pid, signal.SIGCONT)
    assert first.wait(15) == 0
    # No request has failed because the client was closed.
    closed = re.search(r"client\.closed: .*", i.log())[0]
    assert "closed (" not in closed, closed


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--write":
        blocks = re.findall(r"^<!-- snippet: InProduction -->\n```swift\n((?:.*\n)*?)```", ARTICLE.read_text(), re.M)
        return pathlib.Path(arguments[1]).write_text("\n".join(blocks))
    verbose = "--verbose" in arguments
    programs = [argument for argument in arguments if argument != "--verbose"]
    if len(programs) != 1:
        sys.exit(__doc__)
    begin = time.monotonic()
    alerts = check_rules()
    with Incident("production", verbose) as one:
        run(one, programs[0])
    seconds = time.monotonic() - begin
    print(f"{len(alerts)} alerts and every panel of the dashboard, checked by Prometheus in {seconds:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
