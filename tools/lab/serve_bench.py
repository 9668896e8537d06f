#!/usr/bin/env python3
"""How fast tuffet serve answers many clients, and one whose prompt is cached, beside llama-server:

    serve_bench.py TUFFET MODEL [--peer LLAMA_SERVER] [-r ROUNDS] [-t THREADS] [--slots N] ...

Each round starts the servers one after the other, with the same threads, slots and context of a
slot, and asks both for the same: prompts of made-up tokens, other ones in each round, and a fixed
number of tokens as an answer. Prints Markdown: medians of the rounds, and the range; and each round
as it ends, to stderr.

    serve_bench.py TUFFET MODEL --beside OTHER [-r ROUNDS] [-t THREADS] [--samples N]

measures one server with two models: how long a short request of OTHER takes, alone and while MODEL
reads long prompts all the time.
"""
import argparse
import concurrent.futures
import http.client
import itertools
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

EOS = 2
VOCABULARY = range(300, 6000)


def tuffet(a, model, port):
    return [a.tuffet, "serve", model, f"--port={port}", f"-t{a.threads}", f"--slots={a.slots}",
            f"--ctx={a.ctx}", "--queue=1000"]


def llama_server(a, model, port):
    return [a.peer, "-m", model, "--port", str(port), "-t", str(a.threads), "-np", str(a.slots),
            "-c", str(a.ctx * a.slots), "--log-disable", "--no-webui"]


def tuffet_of_two(a, model, port):
    return [*tuffet(a, f"long={model}", port), f"short={a.beside}"]


class Server:
    def __init__(self, command, a, model):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.process = subprocess.Popen(command(a, model, self.port), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        while not self.is_ready():
            if self.process.poll() is not None:
                raise SystemExit(f"{command.__name__} ended with {self.process.returncode}")
            time.sleep(0.1)

    def is_ready(self):
        try:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            c.request("GET", "/health")
            return c.getresponse().status == 200
        except OSError:
            return False

    def ask(self, prompt, n, **of):
        """Seconds until the answer of n tokens is there."""
        body = {"prompt": prompt, "n_predict": n, "temperature": 0, "cache_prompt": True,
                "logit_bias": [[EOS, False]], **of}
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        start = time.perf_counter()
        c.request("POST", "/completion", json.dumps(body))
        r = c.getresponse()
        answer = json.loads(r.read())
        took = time.perf_counter() - start
        c.close()
        if r.status != 200 or answer["tokens_predicted"] != n:
            raise SystemExit(f"status {r.status}: {str(answer)[:500]}")
        return took

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(f.read().split("RssAnon:")[1].split()[0]) / 1e3

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def tokens(rng, least, most):
    return rng.choices(VOCABULARY, k=rng.randint(least, most))


def throughput(server, a, clients, rng):
    """Tokens written and read per second by all clients, each of which asks a.requests times."""
    prompts = [tokens(rng, 8, a.prompt) for _ in range(clients * a.requests)]
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(lambda p: server.ask(p, a.answer), prompts))
    took = time.perf_counter() - start
    return len(prompts) * a.answer / took, sum(map(len, prompts)) / took


def percentiles(seconds):
    """p50 and p99, in milliseconds."""
    cut = statistics.quantiles(seconds, n=100, method="inclusive")
    return 1e3 * cut[49], 1e3 * cut[98]


def first_tokens(server, a, rng, others):
    """p50 and p99 of the time to the first token behind a prefix that is cached, while `others`
    clients ask for answers all the time."""
    prefix = tokens(rng, a.prefix, a.prefix)
    server.ask(prefix, 1)
    done = threading.Event()

    def load(seed):
        mine = random.Random(seed)
        while not done.is_set():
            server.ask(tokens(mine, 8, a.prompt), a.answer)

    with concurrent.futures.ThreadPoolExecutor(max(1, others)) as pool:
        busy = [pool.submit(load, rng.random()) for _ in range(others)]
        time.sleep(1 if others else 0)
        took = [server.ask(prefix + tokens(rng, 8, 8), 1) for _ in range(a.samples)]
        done.set()
        for b in busy:
            b.result()
    return percentiles(took)


def waits(server, a, seed):
    """p50 and p99 of a short request of one model: alone, and while the other reads prompts."""
    rng, done = random.Random(seed), threading.Event()
    for model in "long", "short":
        server.ask(tokens(rng, 64, 64), 1, model=model)

    def load():
        mine = random.Random(seed + 1)
        while not done.is_set():
            server.ask(tokens(mine, a.ctx - 8, a.ctx - 8), 1, model="long")

    def short():
        return percentiles([server.ask(tokens(rng, 8, 8), 1, model="short")
                            for _ in range(a.samples)])

    alone = short()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        busy = pool.submit(load)
        time.sleep(1)
        beside = short()
        done.set()
        busy.result()
    return alone, beside


def main_beside(a):
    rounds = []
    for seed in range(a.rounds):
        server = Server(tuffet_of_two, a, a.model[0])
        try:
            rounds.append(waits(server, a, seed))
        finally:
            server.end()
    print("| a short request, ms | p50 | p99 |\n|---|---:|---:|")
    for i, what in enumerate(["alone", "beside prompts of the other model"]):
        cells = (shown([r[i][k] for r in rounds]) for k in range(2))
        print(f"| {what} | " + " | ".join(cells) + " |")


def measure(server, a, seed):
    """The numbers of a round, by row of the table and unit."""
    server.ask(tokens(random.Random(seed), 64, 64), 8)  # a session is there, memory is warm
    rows = {}
    for clients in a.clients:
        rng = random.Random(f"{seed} {clients}")
        rows["clients", clients] = throughput(server, a, clients, rng)
    for others in (0, a.others):
        rows["first", others] = first_tokens(server, a, random.Random(f"{seed} f{others}"), others)
    return rows


def shown(numbers):
    numbers = [n for n in numbers if n is not None]
    digits = 1 if statistics.median(numbers) < 100 else 0
    text = f"{statistics.median(numbers):.{digits}f}"
    return text + (f" ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"
                   if len(numbers) > 1 else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tuffet")
    parser.add_argument("model", nargs="+", help="the peer gets the first one only")
    parser.add_argument("--peer", help="llama-server")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--ctx", type=int, default=1024, help="of a slot")
    parser.add_argument("--clients", type=lambda s: [int(n) for n in s.split(",")],
                        default=[1, 4, 16, 64])
    parser.add_argument("--requests", type=int, default=1, help="of each client")
    parser.add_argument("--prompt", type=int, default=128, help="longest prompt, of at least 8")
    parser.add_argument("--answer", type=int, default=32)
    parser.add_argument("--prefix", type=int, default=512, help="tokens that are cached")
    parser.add_argument("--samples", type=int, default=40, help="requests behind the prefix")
    parser.add_argument("--others", type=int, default=4, help="clients beside them")
    parser.add_argument("--beside", metavar="OTHER", help="a second model of the server")
    a = parser.parse_args()
    if a.beside:
        main_beside(a)
        return
    servers = [(f"tuffet, {os.path.basename(m)}", tuffet, m) for m in a.model]
    if a.peer:
        servers.append((f"llama-server, {os.path.basename(a.model[0])}", llama_server, a.model[0]))
    rounds = {name: [] for name, _, _ in servers}
    memory = {name: [] for name, _, _ in servers}
    for seed, (name, command, model) in itertools.product(range(a.rounds), servers):
        server = Server(command, a, model)
        try:
            rounds[name].append(measure(server, a, seed))
            memory[name].append(server.memory())
            print(f"round {seed + 1}, {name}: {rounds[name][-1]}", file=sys.stderr, flush=True)
        finally:
            server.end()

    def row(title, cell):
        print(f"| {title} | " + " | ".join(cell(name) for name in rounds) + " |", flush=True)

    row("", str)
    print("|---|" + "---:|" * len(rounds))
    for clients in a.clients:
        for i, what in enumerate(["written", "read"]):
            row(f"{clients} clients, tokens {what} per second",
                lambda name: shown([r["clients", clients][i] for r in rounds[name]]))
    for others in (0, a.others):
        for i, what in enumerate(["p50", "p99"]):
            row(f"first token, {others} other clients, {what}, ms",
                lambda name: shown([r["first", others][i] for r in rounds[name]]))
    row("memory of its own at the end, MB", lambda name: shown(memory[name]))


if __name__ == "__main__":
    main()
