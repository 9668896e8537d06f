#!/usr/bin/env python3
"""tuffet serve under clients that misbehave, while others must get the right answers:

    serve_load.py TUFFET TOY [--connections N] [--rounds N] [--sent BYTES] [--seed N]

TUFFET and TOY are programs of a build (tools/tuffet, tests/toy). In each round N connections come
at once. Half of them are slow, and most of the others send what no client should. Meanwhile a few
send proper requests, whose answers must be those that the server gave alone. Then all descriptors
must be free again. At last the server gets fewer descriptors than connections. Prints a line for
each round: answers that were right, milliseconds that they took (median, 99th percentile, longest),
and the memory of the server. Fails if an answer was wrong, or the server has ended or has grown.
"""
import argparse
import asyncio
import json
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

MEGABYTE = 1 << 20
PATIENCE = 120  # seconds, for what should take less than one
QUIET = 60  # seconds between two messages of the server about descriptors
GROWTH = 8 * 1024  # kB: from the least memory after an early round to that after a late one
POST = "POST {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n"


class Server:
    def __init__(self, tuffet, model, *args):
        self.process = subprocess.Popen([tuffet, "serve", model, "--port=0", "--json", *args],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(self.process.communicate()[1].decode())
        self.port = json.loads(line)["port"]
        self.proc = pathlib.Path("/proc", str(self.process.pid))

    def memory(self):
        """In kB, beside files."""
        return int(re.search(r"RssAnon:\s+(\d+)", (self.proc / "status").read_text())[1])

    def descriptors(self):
        return len(list((self.proc / "fd").iterdir()))

    def sleeps(self):
        """Whether its event loop has nothing to do now."""
        return (self.proc / "stat").read_text().rsplit(")", 1)[1].split()[0] == "S"

    def end(self):
        """What it has written to stderr."""
        self.process.send_signal(signal.SIGTERM)
        text = self.process.communicate(timeout=PATIENCE)[1].decode()
        if self.process.returncode:
            sys.exit(f"the server ended with {self.process.returncode}: {text}")
        return text


# ---- requests and replies

def request(body, path="/v1/completions", more=""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = f"Content-Length: {len(data)}" + (f"\r\n{more}" if more else "")
    return POST.format(path, length).encode() + data


async def read_reply(reader):
    """The status and the body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status = int(head.split()[1])
    length = re.search(r"(?i)content-length: (\d+)", head)
    if length:
        return status, await reader.readexactly(int(length[1]))
    body = b""
    while "chunked" in head.lower():
        size = int(await reader.readline(), 16)
        body += (await reader.readexactly(size + 2))[:-2]
        if not size:
            break
    return status, body


def text_of(body):
    return json.loads(body)["choices"][0]["text"]


class Connection:
    """pace: waiting takes so many times as long"""
    def __init__(self, port, pace=1.0):
        self.port, self.pace = port, pace

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_):
        self.writer.close()

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, data):
        await self.send(data)
        return await read_reply(self.reader)

    async def wait(self, seconds):
        await asyncio.sleep(seconds * self.pace)

    async def rest(self):
        """All that comes, which may end badly."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    async def send_last(self, *parts):
        """Sends what the server need not read, and waits until it hangs up."""
        try:
            for part in parts:
                await self.send(part)
            self.writer.write_eof()
        except OSError:  # it has done so already
            return
        await self.rest()


class Wrong(Exception):
    pass


def must(what, got):
    if not what:
        raise Wrong(got)


# ---- clients; each is given a connection, the known answers and random numbers



async def proper(c, known, rng):
    body, text = rng.choice(known)
    status, got = await c.ask(request(body))
    must(status == 429 or (status == 200 and text_of(got) == text), (status, got))
    return status == 200


async def slow(c, known, rng):
    """A byte now and then."""
    body, text = rng.choice(known)
    data = request(body)
    while data:
        n = rng.randint(1, 40)
        await c.send(data[:n])
        data = data[n:]
        await c.wait(rng.random() / 4)
    status, got = await read_reply(c.reader)
    must(status == 429 or (status == 200 and text_of(got) == text), (status, got))


async def slow_reader(c, _, rng):
    text = "x" * rng.randint(1, MEGABYTE // 8)
    await c.send(request({"content": text, "with_pieces": True}, "/tokenize"))
    for _ in range(20):
        await c.reader.read(rng.randint(1, 4096))
        await c.wait(rng.random() / 4)


async def half(c, known, rng):
    data = request(rng.choice(known)[0])
    await c.send(data[:rng.randrange(len(data))])
    await c.wait(rng.random() * 3)


async def leaves(c, known, rng):
    """Hangs up at a random moment, sometimes by a reset."""
    body = {**rng.choice(known)[0], "max_tokens": 400, "stream": rng.random() < 0.5}
    await c.send(request(body))
    await c.wait(rng.random() * 2)
    if rng.random() < 0.5:
        c.writer.transport.abort()


async def garbage(c, _, rng):
    await c.send_last(rng.randbytes(rng.randint(1, 100000)))


async def headers(c, _, rng):
    line = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    lines = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 50) for i in range(rng.choice([900, 20000])))
    got = b""
    try:
        await c.send(line + rng.choice([lines, b"X: " + b"y" * MEGABYTE]) + b"\r\n")
        got = await c.rest()
    except ConnectionError:
        pass
    must(not got or b" 400 " in got[:30] or b" 200 " in got[:30], got)


async def declared(c, known, rng):
    """A body of a gigabyte, of which nothing comes."""
    await c.send(POST.format("/v1/completions", f"Content-Length: {10**9}").encode())
    got = await c.rest()
    must(b" 413 " in got[:30], got)


async def pipelined(c, known, rng):
    asked = rng.choices(known, k=5)
    await c.send(b"".join(request(body) for body, _ in asked))
    for _, text in asked:
        status, got = await read_reply(c.reader)
        must(status == 429 or (status == 200 and text_of(got) == text), (status, got))


async def wrong_text(c, _, rng):
    bad = rng.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xe2\x82"])
    status, got = await c.ask(request(b'{"prompt": "a' + bad + b'"}'))
    must(status == 400, (status, got))


async def deep(c, _, rng):
    opening = rng.choice([b"[", b'{"a":', b'{"prompt":['])
    status, got = await c.ask(request(opening * 200000))
    must(status == 400, (status, got))


async def chunked(c, known, rng):
    body, text = rng.choice(known)
    data = json.dumps(body).encode()
    parts = [data[i:i + 7] for i in range(0, len(data), 7)] + [b""]
    coded = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    bad = rng.random() < 0.5
    if bad:
        coded[rng.randrange(len(coded))] = rng.choice([
            b"zz\r\n", b"-5\r\n", b"7fffffffffffffff\r\n", b"\r\n", b"ffffffffffffffff\r\nxx"])
    coded.insert(0, POST.format("/v1/completions", "Transfer-Encoding: chunked").encode())
    if bad:
        await c.send_last(*coded)
        return
    for part in coded:
        await c.send(part)
    status, got = await read_reply(c.reader)
    must(status == 429 or (status == 200 and text_of(got) == text), (status, got))


ROUGH = [half, leaves, leaves, garbage, headers, declared, pipelined, wrong_text, deep, chunked]


async def send_all(c, size):
    """A body that is declared, and really sent."""
    try:
        await c.send(POST.format("/v1/completions", f"Content-Length: {size}").encode())
        for _ in range(size // MEGABYTE):
            await c.send(b" " * MEGABYTE)
        got = await c.rest()
    except ConnectionError:
        return
    must(not got or b" 413 " in got[:30], got)


# ---- rounds

class Load:
    """Fewer than 200 connections make less work for the server, in less time."""
    def __init__(self, port, known, seed, connections):
        self.port, self.known, self.rng = port, known, random.Random(seed)
        self.pace = min(1, connections / 200)
        self.took, self.wrong, self.full = [], [], 0

    async def one(self, client, *args):
        try:
            async with Connection(self.port, self.pace) as c:
                await client(c, *args)
        except (ConnectionError, asyncio.IncompleteReadError, Wrong) as e:
            self.wrong.append(f"{client.__name__}: {str(e)[:300]}")

    async def well_behaved(self, others):
        """One request after the other, until the others are done."""
        rng = random.Random(self.rng.random())
        while not others.done():
            start = time.monotonic()
            async with Connection(self.port) as c:
                right = await proper(c, self.known, rng)
            if right:
                self.took.append(time.monotonic() - start)
            else:
                self.full += 1
                await asyncio.sleep(0.05)

    async def round(self, n, sent):
        clients = [slow if i % 4 else slow_reader for i in range(n // 2)]
        clients += [ROUGH[i % len(ROUGH)] for i in range(n - n // 2)]
        rough = asyncio.gather(
            self.one(send_all, sent),
            *(self.one(client, self.known, random.Random(self.rng.random())) for client in clients))
        await asyncio.gather(rough, *(self.well_behaved(rough) for _ in range(4)))


async def learn(port, n, rng):
    """Requests, with the answers that they get alone."""
    known = []
    for seed in range(n):
        words = rng.choices("once upon a time the hello world and in was to of".split(), k=12)
        body = {"prompt": " ".join(words), "seed": seed, "max_tokens": rng.randint(1, 12)}
        async with Connection(port) as c:
            status, got = await c.ask(request(body))
        must(status == 200, got)
        known.append((body, text_of(got)))
    return known


async def until(is_so, what):
    for _ in range(PATIENCE * 50):
        if is_so():
            return
        await asyncio.sleep(0.02)
    sys.exit(f"after {PATIENCE} s: {what}")


async def rounds(server, o):
    known = await learn(server.port, 20, random.Random(o.seed))
    idle, memory, failed = server.descriptors(), [], False
    for i in range(o.rounds):
        load = Load(server.port, known, o.seed + i, o.connections)
        await load.round(o.connections, o.sent)
        await until(lambda: server.descriptors() <= idle, f"more than {idle} descriptors")
        memory.append(server.memory())
        ms = sorted(round(t * 1000) for t in load.took)
        print(f"round {i + 1}: {len(ms)} right, {len(load.wrong)} wrong, {load.full} refused, "
              f"{ms[len(ms) // 2]} {ms[len(ms) * 99 // 100]} {ms[-1]} ms, {memory[-1]} kB",
              *load.wrong, sep="\n  ", flush=True)
        failed |= bool(load.wrong)
    half = len(memory) // 2  # freed memory comes back or stays in the heap: single rounds differ
    if half and min(memory[half:]) > min(memory[:half]) + GROWTH:
        sys.exit("the server has grown")
    if failed:
        sys.exit("wrong answers")


# ---- descriptors

async def run_out(server, known):
    """More connections than the server has descriptors; then they end. Meanwhile it must sleep,
    rather than try to accept them again and again. Returns for how many seconds."""
    limit = server.descriptors() + 20
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    start = time.monotonic()
    held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(60)]
    await until(lambda: server.descriptors() >= limit, f"fewer than {limit} descriptors")
    for _ in range(5):
        await until(server.sleeps, "the server spins")
        await asyncio.sleep(0.02)
    for _, writer in held:
        writer.close()
    async with Connection(server.port) as c:
        await proper(c, known, random.Random(1))
    print("without descriptors: the server sleeps")
    return time.monotonic() - start


async def all_of(server, o):
    await rounds(server, o)
    return await run_out(server, await learn(server.port, 3, random.Random(o.seed)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tuffet")
    p.add_argument("toy")
    p.add_argument("--connections", type=int, default=1000)
    p.add_argument("--rounds", type=int, default=10)
    p.add_argument("--sent", type=int, default=1 << 30, help="bytes of a body that is really sent")
    p.add_argument("--seed", type=int, default=1)
    o = p.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/toy.gguf"
        subprocess.run([o.toy, "write", model, "endless=1", "ctx=1000",
                        "template={% for m in messages %}{{ m.content }}{% endfor %}"], check=True)
        server = Server(o.tuffet, model, "--queue=100")
        try:
            seconds = asyncio.run(all_of(server, o))
            said = server.end()
        finally:
            server.process.kill()
    print(said, end="")
    times = said.count("Too many open files")
    if not 1 <= times <= 1 + seconds // QUIET or times != said.count("\n"):
        sys.exit("the server must say once that it has no more descriptors")


if __name__ == "__main__":
    main()
