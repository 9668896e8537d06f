#!/usr/bin/env python3
"""Random requests to tuffet serve, by several clients at once, against the answers of a server with
one slot that is erased before each request:

    serve_soak.py TUFFET TOY [REQUESTS [SEED]]

TUFFET and TOY are programs of a build (tools/tuffet, tests/toy). Requests share beginnings, so that
slots are reused and copied; some are aborted, and slots are saved, restored and erased meanwhile.
There are more conversations than slots, and memory and disk for some of them only: sessions are
stored, loaded and evicted. Every 1,000 requests the server is killed (kill -9) in the middle of
writing, and started again with the same --cache-dir. Prints the number of requests that were
compared, cached tokens, where they came from, and the memory of the server.
"""
import collections
import concurrent.futures
import http.client
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

WORDS = "once upon a time the hello world and in was to of".split()
SLOTS = 8
TEXTS = 40
EACH = 1000  # requests between kills
MEMORY, DISK = 1 << 20, 2 << 20


class Server:
    def __init__(self, tuffet, *args):
        self.process = subprocess.Popen([tuffet, "serve", *args, "--port=0", "--json"],
                                        stdout=subprocess.PIPE)
        self.port = json.loads(self.process.stdout.readline())["port"]

    def ask(self, path, body, abort=False):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request("POST", path, json.dumps(body))
        if abort:
            c.close()
            return None
        r = c.getresponse()
        answer = json.loads(r.read())
        c.close()
        return r.status, answer

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0])

    def metrics(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request("GET", "/metrics")
        text = c.getresponse().read().decode()
        c.close()
        return {name: int(float(value)) for name, value in
                re.findall(r"^tuffet:cache_(\w+) (\S+)$", text, re.M)}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60):
            sys.exit(f"the server ended with {self.process.returncode}")


def requests(n, rng):
    """Each begins as one of a few texts, up to some word of it."""
    texts = [rng.choices(WORDS, k=120) for _ in range(TEXTS)]
    for _ in range(n):
        text = rng.choice(texts)
        text = " ".join(text[:rng.randint(1, len(text))] + rng.choices(WORDS, k=rng.randint(0, 5)))
        body = {"prompt": text, "seed": rng.randrange(1000), "max_tokens": rng.randint(1, 24),
                "temperature": rng.choice([0, 0.8, 1.5])}
        if rng.random() < 0.2:
            body["stop"] = rng.choice(WORDS)[:2]
        if rng.random() < 0.2:
            body["presence_penalty"] = 1
        if rng.random() < 0.1:
            body["grammar"] = 'root ::= [a-z ]{1,20} | "{" [0-9]+ "}"'
        yield body


def disturb(server, rng, body):
    what, slot = rng.randrange(8), rng.randrange(SLOTS)
    if what == 0:
        server.ask("/v1/completions", {**body, "max_tokens": 500}, abort=True)
    elif what == 1:
        server.ask(f"/slots/{slot}?action=save", {"filename": f"{slot}.session"})
    elif what == 2:
        server.ask(f"/slots/{slot}?action=restore", {"filename": f"{rng.randrange(SLOTS)}.session"})
    elif what == 3:
        server.ask(f"/slots/{slot}?action=erase", {})


def one(server, seed, body):
    disturb(server, random.Random(seed), body)
    return server.ask("/v1/completions", body)


def one_lost(server, body):
    """A request whose server is killed."""
    try:
        server.ask("/v1/completions", body)
    except (OSError, http.client.HTTPException):
        pass


def main(tuffet, toy, n=10000, seed=1):
    rng = random.Random(int(seed))
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/toy.gguf"
        subprocess.run([toy, "write", model, "endless=1", "ctx=1000"], check=True)
        args = [model, "--slot-save-path", folder, "--queue=1000"]
        cache = [f"--cache-dir={folder}/cache", f"--cache-mem={MEMORY}", f"--cache-disk={DISK}"]
        alone = Server(tuffet, *args, "--slots=1", "--cache-mem=0")
        cached = wrong = done = 0
        asked, hits = list(requests(int(n), rng)), collections.Counter()
        for at in range(0, len(asked), EACH):
            some = asked[at:at + EACH]
            many = Server(tuffet, *args, *cache, f"--slots={SLOTS}")
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                answers = pool.map(one, [many] * len(some), range(at, at + EACH), some)
                for body, (status, answer) in zip(some, answers):
                    alone.ask("/slots/0?action=erase", {})
                    _, want = alone.ask("/v1/completions", body)
                    if status != 200 or answer["choices"] != want["choices"]:
                        wrong += 1
                        print("differs:", json.dumps(body), answer, want, sep="\n")
                    else:
                        cached += answer["usage"]["prompt_tokens_details"]["cached_tokens"]
                    done += 1
            m, memory = many.metrics(), many.memory()
            for name in ("hits_slot_total", "hits_memory_total", "hits_disk_total", "saved_total"):
                hits[name] += m[name]
            if m["memory_bytes"] > MEMORY or m["disk_bytes"] > DISK:
                wrong += 1
                print("more than the bounds:", m)
            print(f"{done} requests, {wrong} differ, {cached} tokens cached, {memory} kB",
                  dict(hits), flush=True)
            if done < len(asked):
                # while it computes, stores and writes
                threads = [threading.Thread(target=one_lost, args=(many, body)) for body in
                           asked[:16]]
                for t in threads:
                    t.start()
                time.sleep(rng.uniform(0, 0.2))
                many.kill()
                for t in threads:
                    t.join()
            else:
                many.end()
        alone.end()
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
