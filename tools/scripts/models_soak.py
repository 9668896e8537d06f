#!/usr/bin/env python3
"""Clients of five APIs at once, and four models in one tuffet serve that has memory for two:

    models_soak.py TUFFET TOY [--minutes 60] [--clients 8] [--svg FILE]

TUFFET and TOY are programs of a build (tools/tuffet, tests/toy), best with sanitizers. Each API has
--clients clients; each request names one of the models. Models are opened and closed all the time,
by the bound on memory, by requests, and every 20 seconds by SIGHUP, after which some have other
slots and contexts. Some requests are aborted. Every five minutes the server is killed (kill -9) and
started again. Every answer is compared with that of a server with this model
alone, and the four APIs of chat have to give the same text. Prints the requests, the number of
answers that differ, and the memory of the server; --svg draws the memory over time. Ends with 1 if
an answer differs, or if the server ends by itself.
"""
import argparse
import collections
import http.client
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

WORDS = "once upon a time the hello world and in was to of".split()
TEMPLATE = ("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}</s>\n{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>\n{% endif %}")
MODELS, PROMPTS, TOKENS = "abcd", 12, 12
EACH, RELOAD = 300, 20  # seconds between kills, and between SIGHUPs


def openai(model, prompt):
    return "/v1/chat/completions", {"model": model, "temperature": 0, "max_tokens": TOKENS,
                                    "messages": [{"role": "user", "content": prompt}]}


def anthropic(model, prompt):
    return "/v1/messages", openai(model, prompt)[1]


def responses(model, prompt):
    return "/v1/responses", {"model": model, "input": prompt, "temperature": 0,
                             "max_output_tokens": TOKENS}


def ollama(model, prompt):
    return "/api/chat", {"model": model, "stream": False,
                         "messages": [{"role": "user", "content": prompt}],
                         "options": {"temperature": 0, "num_predict": TOKENS}}


def embeddings(model, prompt):
    return "/v1/embeddings", {"model": model, "input": prompt}


# The text of an answer, with what was thought before it.
APIS = {openai: lambda a: (m := a["choices"][0]["message"]).get("reasoning_content", "") +
        m["content"],
        anthropic: lambda a: "".join(b[b["type"]] for b in a["content"]),
        responses: lambda a: "".join(i["content"][0]["text"] for i in a["output"]),
        ollama: lambda a: a["message"].get("thinking", "") + a["message"]["content"],
        embeddings: lambda a: a["data"][0]["embedding"]}


def ask(port, path, body, abort=False):
    """The answer; None if the request was aborted, or lost with its server."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        c.request("POST", path, json.dumps(body))
        if abort:
            return None
        r = c.getresponse()
        text = r.read()
        return r.status, json.loads(text)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        c.close()


class Server:
    def __init__(self, tuffet, *args):
        self.process = subprocess.Popen([tuffet, "serve", *args, "--port=0", "--json",
                                         "--queue=1000"], stdout=subprocess.PIPE)
        self.port = json.loads(self.process.stdout.readline())["port"]
        self.killed = False

    def kb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return int(status.split("RssAnon:")[1].split()[0])

    def end(self):
        self.process.terminate()
        if self.process.wait(120):
            sys.exit(f"the server ended with {self.process.returncode}")


class Soak:
    def __init__(self, a, models, want):
        self.a, self.models, self.want = a, models, want
        self.config = pathlib.Path(next(iter(models.values()))).with_name("serve.ini")
        self.rng = random.Random(2)
        self.lock = threading.Lock()
        self.server, self.stops = None, False
        self.counts = collections.Counter()
        self.memory = []  # minutes, kB

    def write_config(self):
        """The four models, some of them as no server had them before."""
        self.config.write_text("".join(
            f"[model {name}]\npath = {path}\nctx = {self.rng.randint(300, 500)}\n"
            f"slots = {self.rng.randint(1, 4)}\n" if self.rng.random() < 0.5 else
            f"[model {name}]\npath = {path}\n" for name, path in self.models.items()), "ascii")

    def start(self):
        self.write_config()
        self.server = Server(self.a.tuffet, f"--config={self.config}", f"--mem={self.a.mem}")

    def one(self, rng, api):
        model, prompt, server = rng.choice(MODELS), rng.randrange(PROMPTS), self.server
        path, body = api(model, self.want["prompts"][prompt])
        what = rng.random()
        if what < 0.02:
            ask(server.port, "/api/generate", {"model": model, "keep_alive": 0})
        got = ask(server.port, path, body, abort=what > 0.97)
        if got is None:
            outcome = "aborted" if what > 0.97 else "lost"
        elif got[0] == 503:  # no room while all models answer
            outcome = "busy"
        elif got[0] == 200 and APIS[api](got[1]) == self.want[api, model, prompt]:
            outcome = "same"
        else:
            outcome = "wrong"
            print("differs:", path, body, got, self.want[api, model, prompt], flush=True)
        if outcome == "lost" and not server.killed:  # a server that lives loses no request
            outcome = "ended"
        with self.lock:
            self.counts[outcome] += 1
        return outcome

    def client(self, api, seed):
        rng = random.Random(seed)
        try:
            while not self.stops:
                if self.one(rng, api) == "lost":
                    time.sleep(0.5)
        except Exception:
            with self.lock:
                self.counts["wrong"] += 1
            raise

    def run(self):
        begin = time.monotonic()
        self.start()
        threads = [threading.Thread(target=self.client, args=(api, 100 * i + k))
                   for i, api in enumerate(APIS) for k in range(self.a.clients)]
        for t in threads:
            t.start()
        kill, reload = begin + EACH, begin + RELOAD
        while time.monotonic() < begin + 60 * self.a.minutes and not self.counts["ended"]:
            time.sleep(10)
            if self.server.process.poll() is not None:
                self.counts["ended"] += 1
                break
            self.memory.append(((time.monotonic() - begin) / 60, self.server.kb()))
            print(f"{self.memory[-1][0]:.1f} min, {self.memory[-1][1]} kB", dict(self.counts),
                  flush=True)
            if time.monotonic() > reload:
                self.write_config()
                self.server.process.send_signal(signal.SIGHUP)
                reload += RELOAD
            if time.monotonic() > kill:
                old = self.server
                old.killed = True
                old.process.kill()
                self.start()
                old.process.wait()
                kill += EACH
        self.stops = True
        for t in threads:
            t.join()
        if self.server.process.poll() is None:
            self.server.end()
        return self.counts["wrong"] + self.counts["ended"] + (not self.counts["same"])


def expected(a, folder):
    """The files of the models, and the answers of servers with one model."""
    rng = random.Random(1)
    want = {"prompts": [" ".join(rng.choices(WORDS, k=rng.randint(1, 60))) for _ in range(PROMPTS)]}
    models = {}
    for i, name in enumerate(MODELS):
        path = f"{folder}/{name}.gguf"
        subprocess.run([a.toy, "write", path, "endless=1", "ctx=500", f"seed={i + 1}",
                        f"template={TEMPLATE}"], check=True)
        models[name] = path
        alone = Server(a.tuffet, f"{name}={path}", "--slots=1", "--cache-mem=0")
        for k, prompt in enumerate(want["prompts"]):
            texts = set()
            for api, text in APIS.items():
                status, answer = ask(alone.port, *api(name, prompt))
                if status != 200:
                    sys.exit(f"{api.__name__}: {answer}")
                want[api, name, k] = text(answer)
                if api is not embeddings:
                    texts.add(text(answer))
            if len(texts) != 1:
                sys.exit(f"the APIs differ: {texts}")
        alone.end()
    return models, want


def draw(memory, path):
    """A curve: minutes to the right, MB upwards."""
    wide, high, left = 640, 200, 40
    most, end = max(kb for _, kb in memory) * 1.1, memory[-1][0]
    points = " ".join(f"{left + (wide - left) * x / end:.1f},{high - high * y / most:.1f}"
                      for x, y in memory)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high + 24}" '
        'font-family="sans-serif" font-size="11">'
        f'<path d="M{left} 0V{high}H{wide}" fill="none" stroke="#888"/>'
        f'<polyline points="{points}" fill="none" stroke="#06c"/>'
        f'<text x="0" y="12">{most / 1000:.0f} MB</text><text x="0" y="{high}">0</text>'
        f'<text x="{wide}" y="{high + 16}" text-anchor="end">{end:.0f} minutes</text></svg>\n',
        "ascii")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tuffet")
    p.add_argument("toy")
    p.add_argument("--minutes", type=float, default=60)
    p.add_argument("--clients", type=int, default=8)
    p.add_argument("--mem", default="3M", help="memory for models: about two of the four")
    p.add_argument("--svg", type=pathlib.Path)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(a, *expected(a, folder))
        wrong = soak.run()
    if a.svg:
        draw(soak.memory, a.svg)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
