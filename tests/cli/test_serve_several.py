"""Two servers behind HAProxy, with packaging/haproxy.cfg as it is but for its ports. Nor does it
look every two seconds whether a server is quick to answer: on a busy machine it may not be.

Exit status 77 where there is no haproxy that works."""
import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys

from program import PATIENCE, Case, main
from test_serve import ZEPHYR, Server

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "haproxy.cfg"
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
OLDEST = (2, 6)  # version that reads the file
SYSTEM = {"role": "system", "content": "the end of the time"}


def works():
    """Whether there is a haproxy to test with. Says so if there is none."""
    if not HAPROXY:
        print("skipped: there is no haproxy")
        return False
    try:
        said = subprocess.run([HAPROXY, "-v"], capture_output=True, check=True, text=True).stdout
        version = tuple(map(int, re.search(r"version (\d+)\.(\d+)", said).groups()))
    except (OSError, subprocess.CalledProcessError, AttributeError) as e:
        print(f"skipped: {HAPROXY} -v does not work: {e}")
        return False
    if version < OLDEST:
        print(f"skipped: {HAPROXY} is older than", ".".join(map(str, OLDEST)))
    return version >= OLDEST


class Several(Case):
    def setUp(self):
        super().setUp()
        model = self.toy(template=ZEPHYR, endless=1, ctx=2000)
        self.servers = [Server(model, "--slots=1"), Server(model, "--slots=1")]
        for s in self.servers:
            self.addCleanup(s.__exit__, None)
        config = CONFIG.read_text("utf-8")
        bind, *ports = re.findall(r"127\.0\.0\.1:(\d+)", config)
        self.assertEqual(len(ports), 2)
        for old, s in zip(ports, self.servers):
            config = config.replace(f"127.0.0.1:{old} check", f"127.0.0.1:{s.port} check inter 1h")
        # HAProxy gets a socket: no other program can take its port before it
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
            config = config.replace(f"bind 127.0.0.1:{bind}", f"bind fd@{s.fileno()}")
            self.proxy = subprocess.Popen([HAPROXY, "-q", "-f", self.write("haproxy.cfg",
                                                                           config.encode())],
                                          pass_fds=[s.fileno()])
        self.addCleanup(self.proxy.wait)
        self.addCleanup(self.proxy.terminate)

    def ask(self, path, port=None, headers=None, **body):
        c = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=PATIENCE)
        c.request("POST", path, json.dumps({"temperature": 0, "max_tokens": 6, **body}),
                  headers or {})
        r = c.getresponse()
        text = r.read()
        c.close()
        self.assertEqual(r.status, 200, text)
        return json.loads(text)

    def counts(self):
        """How many tokens of prompts each server has computed."""
        return [s.metrics()["prompt_tokens_total"] for s in self.servers]

    def talk(self, name, system, turns=3, port=None):
        """A conversation. Its answers, and how many tokens of each prompt were in a cache."""
        said = [SYSTEM] if system else []
        answers, cached = [], []
        for turn in range(turns):
            said.append({"role": "user", "content": f"{name} hello world {turn}"})
            got = self.ask("/v1/chat/completions", port, messages=said)
            said.append(got["choices"][0]["message"])
            answers.append(said[-1]["content"])
            cached.append(got["usage"]["prompt_tokens_details"]["cached_tokens"])
        return answers, cached

    def test_a_conversation_stays_with_its_server(self):
        used = {False: set(), True: set()}
        for i in range(16):
            system = i % 2 == 1
            before = self.counts()
            answers, cached = self.talk(f"number {i}", system)
            served = [a != b for a, b in zip(before, self.counts())]
            self.assertEqual(sum(served), 1, served)
            used[system].add(served.index(True))
            self.assertTrue(0 < cached[1] < cached[2], cached)
            self.assertEqual(answers, self.talk(f"number {i}", system,
                                                port=self.servers[0].port)[0])
        self.assertEqual(used, {False: {0, 1}, True: {0, 1}})

    def test_a_text_and_a_key_of_the_client(self):
        used = set()
        text = "once upon a time the world was hello " * 8
        for i in range(8):
            before = self.counts()
            for more in ("", " and", " and the end"):
                self.ask("/v1/completions", prompt=f"{i} {text}{more}")
                self.ask("/v1/completions", prompt=f"{more} other", headers={"X-Session-Id": "me"})
            served = [b - a for a, b in zip(before, self.counts())]
            used.add(max((n, i) for i, n in enumerate(served))[1])
        self.assertEqual(used, {0, 1})
        before = self.counts()
        for i in range(8):
            self.ask("/v1/completions", prompt=f"{i} hello", headers={"X-Session-Id": "me"})
        self.assertEqual(sum(a != b for a, b in zip(before, self.counts())), 1)

    def test_a_server_that_is_gone(self):
        def talks():  # HAProxy tries a server that is gone for three seconds
            return [self.talk(f"number {i}", False, turns=1)[0] for i in range(6)]
        wanted = talks()
        self.assertGreater(self.counts()[1], 0)
        self.servers[1].__exit__(None)
        self.assertEqual(talks(), wanted)


if __name__ == "__main__":
    if not works():
        sys.exit(77)
    main()
