"""The parts of campaign.py that try to break tuffet serve, and its readers of requests, templates
and grammars."""
import http.client
import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

PATIENCE = 20  # seconds for a reply; without memory, libevent may not see that a request is there
TOOL = {"type": "function", "function": {
    "name": "f", "description": "x" * 1022,
    "parameters": {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
          "required": ["a", "b"], "additionalProperties": False}
HELLO = [{"role": "user", "content": "hello"}]
SHORT = {"temperature": 0, "max_tokens": 6}
# members of replies that differ from one to the next
VOLATILE = {"id", "created", "created_at", "timings", "usage", "total_duration", "load_duration",
            "prompt_eval_duration", "eval_duration", "tokens_cached", "prompt_progress", "metrics"}

REQUESTS = [
    ("/v1/completions", {"prompt": "Once upon", **SHORT}),
    ("/v1/completions", {"prompt": "Once upon", "echo": True, "n": 3, "logprobs": 5, **SHORT}),
    ("/v1/completions", {"prompt": "Once upon", "stream": True, **SHORT}),
    ("/v1/completions", {"prompt": [5, 6, 7], "stop": ["a", "the"], "seed": 4, **SHORT}),
    ("/v1/completions", {"prompt": "x", "logit_bias": {"5": 3}, "presence_penalty": 1, **SHORT}),
    ("/v1/completions", {"prompt": "x", "grammar": 'root ::= ("yes" | "no") " "?', **SHORT}),
    ("/v1/chat/completions", {"messages": HELLO, **SHORT}),
    ("/v1/chat/completions", {"messages": HELLO, "stream": True, "logprobs": True,
                              "top_logprobs": 4, **SHORT}),
    ("/v1/chat/completions", {"messages": HELLO, "response_format": {
        "type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
        **SHORT, "max_tokens": 60}),
    ("/v1/chat/completions", {"messages": HELLO, "tools": [TOOL], "tool_choice": "required",
                              **SHORT, "max_tokens": 60}),
    ("/v1/chat/completions", {"messages": [{"role": "system", "content": "be brief"}] + HELLO * 9,
                              **SHORT}),
    ("/v1/embeddings", {"input": ["a cat", "a dog sleeps"]}),
    ("/v1/embeddings", {"input": "a cat", "encoding_format": "base64", "dimensions": 4}),
    ("/completion", {"prompt": "Once", "n_predict": 6, "temperature": 0, "return_tokens": True}),
    ("/tokenize", {"content": "Once upon a time", "with_pieces": True}),
    ("/detokenize", {"tokens": [5, 6, 7]}),
    ("/apply-template", {"messages": HELLO}),
    ("/api/chat", {"messages": HELLO, "stream": False, "options": {"temperature": 0,
                                                                   "num_predict": 6}}),
    ("/api/generate", {"prompt": "hello", "options": {"temperature": 0, "num_predict": 6}}),
    ("/props", None),
]


def essence(value):
    """A reply without the members that differ from one to the next."""
    if isinstance(value, dict):
        return {k: essence(v) for k, v in value.items() if k not in VOLATILE}
    return [essence(v) for v in value] if isinstance(value, list) else value


def parts_of(text):
    """The objects of a reply: one, a line each, or events."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.strip()]
    try:
        return [json.loads(line) for line in lines if line != "[DONE]" and not line.startswith(":")]
    except ValueError:
        return [json.loads(text)]


def mutate(r, data):
    """Other bytes, cut, doubled, or numbers that are extreme, as the random generator r draws."""
    data = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 6])):
        at = r.randrange(len(data) + 1)
        kind = r.randrange(5)
        if kind == 0 and at < len(data):
            data[at] = r.choice([0, 10, 13, 34, 92, 123, 0x7f, 0x80, 0xff, r.randrange(256)])
        elif kind == 1:
            del data[at:at + r.choice([1, 4, 40])]
        elif kind == 2:
            data[at:at] = data[at:at + r.choice([1, 9, 90])] * r.choice([1, 2, 50])
        elif kind == 3:
            data[at:at] = r.choice([b"null", b"-1", b"1e999", b"[]", b"{}", b'""', b"\\u0000",
                                    b"9223372036854775808", b"\\ud800", b"true", b"0.5"])
        else:
            other = json.dumps(r.choice(REQUESTS)[1] or {}).encode()
            data[at:at] = other[r.randrange(len(other)):]
    return bytes(data)


class Server:
    """tuffet serve on a port of its own."""

    def __init__(self, tuffet, *args, env=None):
        self.process = subprocess.Popen([tuffet, "serve", *args, "--port=0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **(env or {})})
        self.port = int(self.process.stdout.readline().rsplit(b":", 1)[1])

    def ask(self, path, body):
        """The status and the essence of the reply; 0 and None: it did not come whole."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            c.request("GET" if body is None else "POST", path,
                      None if body is None else json.dumps(body))
            r = c.getresponse()
            parts = parts_of(r.read().decode())
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None
        finally:
            c.close()
        failed = any(isinstance(p, dict) and "error" in p for p in parts)
        return 500 if failed and r.status == 200 else r.status, essence(parts)

    def raw(self, data):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as c:
                c.sendall(data)
                c.shutdown(socket.SHUT_WR)
                while c.recv(65536):
                    pass
        except OSError:
            pass

    def lives(self):
        return self.process.poll() is None

    def end(self, how=signal.SIGTERM):
        if self.lives():
            self.process.send_signal(how)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self.process.stdout.close()


class ServerParts:
    """campaign: of campaign.py, with models, a folder, a random generator and reports."""

    def __init__(self, campaign):
        self.c = campaign
        self.model = campaign.path("server")
        self.args = [self.model, "--template=chatml", "--slots=4", "-t1"]
        self.sweeps, self.hostile_server = self.sweep(), None

    def close(self):
        self.sweeps.close()
        if self.hostile_server:
            self.end_hostile()

    def start(self, *more, env=None):
        return Server(self.c.tuffet, *self.args, *more, env=env)

    # ---- each allocation of a request fails

    def warm(self, server, request):
        """The right reply. The first request makes things that the server makes once."""
        server.ask(*request)
        return server.ask(*request)

    def count(self, request):
        env = {"LD_PRELOAD": self.c.fail, "FAIL_KIND": "alloc", "FAIL_STEPS": "1",
               "FAIL_LOG": self.c.path("calls")}
        server = self.start("--cache-mem=0", env=env)
        self.warm(server, request)
        server.process.send_signal(signal.SIGUSR2)
        time.sleep(0.02)
        server.ask(*request)
        server.end()
        with open(self.c.path("calls"), encoding="ascii") as f:
            n = int(f.read())
        os.remove(self.c.path("calls"))
        return n

    def sweep(self):
        """One failing allocation at each step."""
        env = {"LD_PRELOAD": self.c.fail, "FAIL_KIND": "alloc", "FAIL_STEPS": "1"}
        for request in itertools.cycle(REQUESTS):
            n, name = self.count(request), ["serve", request[0], json.dumps(request[1])]
            server = self.start("--cache-mem=0", env=env)
            try:
                status, want = self.warm(server, request)
                if status != 200:
                    self.c.report(f"status {status}", name, "with memory")
                for at in range(1, n + 1):
                    server.process.send_signal(signal.SIGUSR1)
                    time.sleep(0.005)
                    status, got = server.ask(*request)
                    how = f"allocation {at} of {n} fails"
                    if not server.lives():
                        self.c.report("the server ends", name, how)
                        break
                    if status == 200 and got != want:
                        self.c.report("a wrong answer with status 200", name, f"{how}: {got}")
                    yield
                if server.lives() and server.ask(*request) != (200, want):
                    self.c.report("the answer is no more right", name, "after failing allocations")
                if server.end() != 0:
                    self.c.report("the server does not end well", name, "after failing allocations")
            finally:
                server.end(signal.SIGKILL)

    def requests(self):
        next(self.sweeps)

    # ---- requests that nobody should send

    def hostile(self):
        """One request, on a server that goes on; now and then it must answer rightly."""
        r = self.c.random
        if not self.hostile_server:
            self.hostile_server, self.n_hostile = self.start(), 0
            self.hostile_want = self.warm(self.hostile_server, REQUESTS[0])
        path, body = r.choice(REQUESTS)
        body = json.dumps(body or {}).encode()
        if r.random() < 0.7:
            body = mutate(self.c.random, body)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" \
               f"Content-Length: {len(body)}\r\n\r\n".encode()
        if r.random() < 0.4:
            head = mutate(self.c.random, head)
        self.hostile_server.raw(head + body)
        self.n_hostile += 1
        if not self.hostile_server.lives() or self.n_hostile % 25 == 0:
            self.check_hostile((head + body).hex())

    def check_hostile(self, last):
        got = self.hostile_server.ask(*REQUESTS[0])
        if got != self.hostile_want:
            self.c.report(f"status {got[0]} after hostile requests", ["serve"], last)
            self.end_hostile()

    def end_hostile(self):
        status = self.hostile_server.end()
        if status != 0:
            self.c.report(f"the server ends with {status}", ["serve"], "after hostile requests")
        self.hostile_server = None

    # ---- kills

    def server_kills(self):
        """A server that computes and writes is killed; the next one on its folder is right."""
        folder = self.c.path("sessions")
        cache = ["--cache-mem=2M", f"--cache-dir={folder}", "--cache-disk=1M", "--slots=2"]
        server = self.start(*cache)
        want = self.warm(server, REQUESTS[0])
        stop = threading.Event()

        def load(i):
            for n in itertools.count():
                if stop.is_set():
                    break
                server.ask("/v1/completions", {"prompt": f"{i} {n} " + "the " * 60, **SHORT})
        threads = [threading.Thread(target=load, args=[i]) for i in range(4)]
        for t in threads:
            t.start()
        time.sleep(self.c.random.random())
        server.end(signal.SIGKILL)
        stop.set()
        for t in threads:
            t.join()
        again = self.start(*cache)
        if again.ask(*REQUESTS[0]) != want:
            self.c.report("another answer after a kill", ["serve"], "killed")
        if again.end() != 0:
            self.c.report("the server does not end well", ["serve"], "after a kill")
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.stat(path).st_mode & 0o077:
                self.c.report(f"{name} can be read by others", ["serve"], "killed")
            os.remove(path)
        os.rmdir(folder)

    # ---- files that others write

    def seeds(self, folder, pattern):
        root = pathlib.Path(__file__).resolve().parents[2]
        return [p.read_bytes() for p in sorted((root / folder).rglob(pattern))]

    def templates(self):
        seed = self.c.random.choice(self.seeds("tests/chat/templates", "*.jinja"))
        data, path = mutate(self.c.random, seed).replace(b"\0", b" "), self.c.path("damaged")
        subprocess.run([self.c.toy, "write", path, "endless=1", b"template=" + data], check=True)
        self.c.attempt(["chat", path, "-pHello", "-n1", "-t1"], data.hex())
        os.remove(path)

    def grammars(self):
        seed = self.c.random.choice([
            b'root ::= ("a" | "b"){2,40} [^c-x]* "end"\n',
            b'root ::= item ("," item)*\nitem ::= [a-z]+ "=" ("\\"" [^"]* "\\"" | [0-9]{1,9})\n',
            b'root ::= "(" root ")" | "x"? \n# a comment\n', b'root ::= ("a"?){900}\n',
            b'root ::= a b\na ::= "\\u00e9" | b\nb ::= "y" | "z" b?\n'])
        data, path = mutate(self.c.random, seed), self.c.path("damaged")
        with open(path, "wb") as f:
            f.write(data)
        self.c.attempt(["run", self.model, "-pOnce", "-n4", "-t1", "--grammar", path], data.hex())
        os.remove(path)
