"""tuffet batch"""
import json
import os
import pathlib
import signal
import subprocess

from program import PATIENCE, TUFFET, Case, main, wait_until
from test_serve import ENDLESS, ZEPHYR, Server


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 8,
            **more}


def request(name, body, url="/v1/chat/completions", **more):
    return {"custom_id": name, "method": "POST", "url": url, "body": body, **more}


class Batch(Case):
    def model(self, **settings):
        return self.toy(**{"template": ZEPHYR, "endless": 1, "ctx": 400, **settings})

    def lines(self, name, requests):
        return self.write(name, "".join(json.dumps(r) + "\n" for r in requests).encode())

    def replies(self, path):
        """By custom_id. Each reply is there once, in OpenAI's form."""
        found = {}
        for line in pathlib.Path(path).read_text().splitlines():
            reply = json.loads(line)
            self.assertEqual(set(reply), {"id", "custom_id", "response", "error"})
            self.assertIsNone(reply["error"])
            self.assertEqual(set(reply["response"]), {"status_code", "request_id", "body"})
            self.assertNotIn(reply["custom_id"], found)
            found[reply["custom_id"]] = reply["response"]
        return found

    def run_batch(self, requests, out, *args, **settings):
        path = self.lines("requests.jsonl", requests)
        said = self.tuffet("batch", self.model(**settings), "-f", path, "-o", out, *args)
        return said.decode(), self.replies(out)

    def test_replies_are_those_of_the_server(self):
        bodies = {"chat": ("/v1/chat/completions", chat("hello")),
                  "text": ("/v1/completions", {"prompt": ["hello", "once"], "temperature": 0,
                                               "logprobs": 2, "n": 2}),
                  "vector": ("/v1/embeddings", {"input": ["hello", "once upon"]}),
                  "response": ("/v1/responses", {"input": "hello", "temperature": 0,
                                                 "max_output_tokens": 8}),
                  "form \"é": ("/v1/chat/completions", chat("hi", grammar='root ::= "yes"',
                                                             stream=False))}
        requests = [request(name, body, url) for name, (url, body) in bodies.items()]
        said, got = self.run_batch(requests, self.path("out"))
        self.assertEqual(said, f"{self.path('out')}: 5 of 5 replies, 0 new ones are errors\n")
        self.assertEqual(set(got), set(bodies))
        with Server(self.model()) as s:
            for name, (url, body) in bodies.items():
                want = s.answer(url, **body)
                self.assertEqual(got[name]["status_code"], 200)
                for part in "choices", "data":
                    self.assertEqual(got[name]["body"].get(part), want.get(part), name)
            text = got["response"]["body"]["output"][0]["content"][0]["text"]
            self.assertEqual(text, want_text(s.answer("/v1/responses", **bodies["response"][1])))

    def test_many_at_once(self):
        texts = [f"hello {i} once" for i in range(100)]
        requests = [request(f"r{i}", chat(text)) for i, text in enumerate(texts)]
        _, many = self.run_batch(requests, self.path("many"), "--slots=16", "-t2")
        _, one = self.run_batch(requests, self.path("one"), "--slots=1")
        self.assertEqual(len(many), 100)
        for i in range(100):
            self.assertEqual(many[f"r{i}"]["body"]["choices"], one[f"r{i}"]["body"]["choices"])

    def test_errors_of_requests_are_replies(self):
        requests = [request("long", chat("hello world " * 300)), request("good", chat("hello")),
                    request("wrong", chat("hello", temperature="hot")),
                    request("lacks", chat("hello", lora=[1]))]
        said, got = self.run_batch(requests, self.path("errors"))
        self.assertIn("4 of 4 replies, 3 new ones are errors", said)
        self.assertEqual({name: r["status_code"] for name, r in got.items()},
                         {"long": 400, "good": 200, "wrong": 400, "lacks": 501})
        self.assertIn("temperature", got["wrong"]["body"]["error"]["message"])

    def test_bounds(self):
        requests = [request("a", chat("hello", max_tokens=50))]
        _, got = self.run_batch(requests, self.path("bounds"), "-n3")
        choice = got["a"]["body"]["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["tuffet_stop"]), ("length", "limit"))

    def test_it_goes_on_where_it_stopped(self):
        requests = [request(f"r{i}", chat(f"hello {i}")) for i in range(20)]
        out = self.path("resumed")
        _, whole = self.run_batch(requests, self.path("whole"))
        self.run_batch(requests[:7], out)
        before = self.read(out)
        with open(out, "ab") as f:  # as if the program had been killed while it wrote
            f.write(b'{"id":"batch_req_1","custom_id":"r9","resp')
        said, got = self.run_batch(requests, out)
        self.assertIn("20 of 20 replies", said)
        self.assertTrue(self.read(out).startswith(before))
        for name, reply in whole.items():
            self.assertEqual(got[name]["body"]["choices"], reply["body"]["choices"])
        after = self.read(out)
        self.assertEqual(json.loads(self.run_batch(requests, out, "--json")[0]),
                         {"requests": 20, "replies": 20, "new_errors": 0})
        self.assertEqual(self.read(out), after)

    def test_replies_of_another_program(self):
        out = self.write("another", b'{"custom_id": "a", "response": {}}')
        path = self.lines("two.jsonl", [request("a", chat("hello")), request("b", chat("hello"))])
        self.tuffet("batch", self.model(), "-f", path, "-o", out)
        self.assertEqual([json.loads(line)["custom_id"] for line in self.read(out).splitlines()],
                         ["a", "b"])

    def test_a_byte_order_mark(self):
        line = json.dumps(request("a", chat("hello"))).encode()
        path = self.write("marked", b"\xef\xbb\xbf" + line)
        self.tuffet("batch", self.model(), "-f", path, "-o", self.path("marked.out"))
        self.assertEqual(self.replies(self.path("marked.out"))["a"]["status_code"], 200)

    def test_signals(self):
        """What is in the output stays whole, however the program ends."""
        model = self.model(ctx=ENDLESS)
        short = [request(f"r{i}", chat(f"hello {i}")) for i in range(5)]
        endless = [request(f"e{i}", chat("hello", max_tokens=None)) for i in range(2)]
        path = self.lines("signals.jsonl", [*short, *endless])
        for number, status in (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL):
            out = self.path(f"signal{number}")
            p = subprocess.Popen([*TUFFET, "batch", model, "-f", path, "-o", out, "--slots=4"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            wait_until(lambda: os.path.exists(out) and self.read(out).count(b"\n") == 5)
            p.send_signal(number)
            self.assertEqual(p.communicate(timeout=PATIENCE)[1], b"")
            self.assertEqual(p.returncode, status)
            self.assertEqual(set(self.replies(out)), {f"r{i}" for i in range(5)})

    def test_what_is_no_batch(self):
        good = request("a", chat("hello"))
        out = self.path("none")
        for lines, says in [
            ([{**good, "custom_id": ""}], ":1: custom_id must be"),
            ([good, {**good, "custom_id": 7}], ":2: custom_id must be"),
            ([good, good], ":2: another line has this custom_id"),
            ([{**good, "method": "GET"}], ":1: method must be POST"),
            ([{**good, "url": "/v1/morse"}], ":1: url must be"),
            ([{**good, "body": []}], ":1: body must be"),
            ([{**good, "body": chat("a", stream=True)}], ":1: a batch has no streams"),
        ]:
            path = self.lines("wrong.jsonl", lines)
            said = self.fails("batch", self.model(), "-f", path, "-o", out)
            self.assertIn(path + says, said)
            self.assertFalse(os.path.exists(out))
        path = self.write("wrong.jsonl", b"\n[1]\n")
        self.assertIn(path + ":2: the line is not", self.fails("batch", self.model(), "-f", path,
                                                               "-o", out))
        path = self.lines("right.jsonl", [good])
        for text in b"a text of the user\n", b"a text without a newline", b'{"id": 1}':
            other = self.write("other", text)
            self.assertIn(other + ":1: this is no reply",
                          self.fails("batch", self.model(), "-f", path, "-o", other))
            self.assertEqual(self.read(other), text)
        for special in "/dev/zero", "/dev/full", self.folder.name:  # without an end, or no lines
            for args in ["-f", special, "-o", out], ["-f", path, "-o", special]:
                self.assertRegex(self.fails("batch", self.model(), *args),
                                 rf"{special}: (is not a regular file|Is a directory)")
        self.assertFalse(os.path.exists(out))
        self.assertIn("would replace it", self.fails("batch", self.model(), "-f", path, "-o", path))
        self.assertIn("none.jsonl: ", self.fails("batch", self.model(), "-f",
                                                 self.path("none.jsonl"), "-o", out))
        self.assertIn("-o FILE is missing", self.fails("batch", self.model(), "-f", path, status=2))


def want_text(response):
    return response["output"][0]["content"][0]["text"]


if __name__ == "__main__":
    main()
