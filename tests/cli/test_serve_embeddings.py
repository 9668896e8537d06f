"""Embeddings of tuffet serve: OpenAI's, llama.cpp's and Ollama's."""
import base64
import http.client
import json
import math
import struct
import threading

from program import PATIENCE, Case, main, wait_until
from test_serve import ENDLESS, ZEPHYR, Server

TEXTS = ["hello", "Once upon a time, there was a tuffet", "\u00e9t\u00e9 " * 40, "the " * 300]
SHORT = "the " * 90


def length(v):
    return math.sqrt(sum(x * x for x in v))


class Embeddings(Case):
    def serve(self, *args, **settings):
        return Server(self.toy(**{"template": ZEPHYR, "endless": 1, "ctx": 2000, **settings}),
                      *args)

    def vectors(self, s, texts, **more):
        got = s.answer("/v1/embeddings", input=texts, **more)
        self.assertEqual((got["object"], [d["index"] for d in got["data"]]),
                         ("list", list(range(len(got["data"])))))
        return [d["embedding"] for d in got["data"]]

    def close(self, got, want, bound=1e-6):
        self.assertEqual(len(got), len(want))
        self.assertLess(max(abs(a - b) for a, b in zip(got, want)), bound)

    def test_inputs_and_forms(self):
        with self.serve() as s:
            ids = [s.answer("/tokenize", content=t, add_special=True)["tokens"] for t in TEXTS]
            got = s.answer("/v1/embeddings", input=TEXTS, model="any")
            n = sum(map(len, ids))
            self.assertEqual(got["usage"], {"prompt_tokens": n, "total_tokens": n})
            self.assertEqual(got["model"], s.ask("/v1/models")[2]["data"][0]["id"])
            want = self.vectors(s, TEXTS)
            self.assertEqual(len(set(map(tuple, want))), len(TEXTS))
            for v in want:
                self.assertEqual(len(v), 32)
                self.assertAlmostEqual(length(v), 1, 6)
            self.assertEqual(self.vectors(s, ids), want, "lists of tokens")
            self.assertEqual(self.vectors(s, [TEXTS[0], ids[1]]), want[:2], "both")
            for text, tokens, v in zip(TEXTS, ids, want):
                self.assertEqual(self.vectors(s, text), [v])
                self.assertEqual(self.vectors(s, tokens), [v])
                self.assertEqual(self.vectors(s, [text], encoding_format="float"), [v])
                (packed,) = self.vectors(s, text, encoding_format="base64")
                self.assertEqual(base64.b64decode(packed, validate=True),
                                 struct.pack("<32f", *v))
            for n in (1, 5, 31):
                (v,) = self.vectors(s, TEXTS[1], dimensions=n)
                size = length(want[1][:n])
                self.close(v, [x / size for x in want[1][:n]])
                (packed,) = self.vectors(s, TEXTS[1], dimensions=n, encoding_format="base64")
                self.assertEqual(base64.b64decode(packed, validate=True),
                                 struct.pack(f"<{n}f", *v), "no, one and two signs of padding")

    def test_pooling_is_the_mean_or_the_last(self):
        """The vector of a token depends on what comes before it alone: that of token i is the last
        one of the first i + 1 tokens."""
        raw = {"embd_normalize": -1}
        with self.serve() as s, self.serve("--pooling", "last") as last:
            ids = s.answer("/tokenize", content="a" * 70, add_special=True)["tokens"]
            self.assertGreater(len(ids), 64, "more than a chunk")
            each = [e["embedding"][0] for e in last.answer(
                "/embedding", content=[ids[:n + 1] for n in range(len(ids))], **raw)]
            mean = [sum(column) / len(ids) for column in zip(*each)]
            (got,) = s.answer("/embedding", content=ids, **raw)
            self.close(got["embedding"][0], mean, 2e-6)
            self.close(self.vectors(s, ids)[0], [x / length(mean) for x in mean])
            self.close(self.vectors(last, ids)[0], [x / length(each[-1]) for x in each[-1]])
            self.assertEqual(last.answer("/embedding", input=ids)[0]["embedding"],
                             self.vectors(last, ids), "the other name, and length 1")
            mean_ids, last_ids = self.vectors(s, ids), self.vectors(last, ids)
        for settings, want in [({"pooling": 0}, mean_ids), ({"pooling": 1}, mean_ids),
                               ({"pooling": 3}, last_ids)]:
            with self.serve(**settings) as s:
                self.assertEqual(self.vectors(s, ids), want, "the file says so")
        with self.serve(pooling=2) as s:
            status, _, answer = s.ask("/v1/embeddings", {"input": "x"})
            self.assertEqual((status, answer["error"]["type"]), (501, "not_supported_error"))
        with self.serve("--pooling", "mean", pooling=2) as s:
            self.assertEqual(self.vectors(s, ids), mean_ids)
        self.assertIn("--pooling must be mean or last", self.fails(
            "serve", self.toy(template=ZEPHYR), "--pooling", "cls", status=2))

    def test_the_end_of_a_text(self):
        toys = [self.toy(template=ZEPHYR, ctx=2000, **more) for more in ({"adds_eos": 1}, {})]
        last = "--pooling=last"
        with Server(toys[0], last) as s, Server(toys[1], last) as plain:
            ids = s.answer("/tokenize", content="hello", add_special=True)["tokens"]
            name = s.ask("/props")[2]["eos_token"]
            eos = s.answer("/tokenize", content=name)["tokens"]
            self.assertEqual(len(eos), 1)
            got = s.answer("/v1/embeddings", input="hello")
            self.assertEqual(got["usage"]["prompt_tokens"], len(ids) + 1)
            self.assertEqual([got["data"][0]["embedding"]], self.vectors(plain, ids + eos))
            self.assertEqual(self.vectors(s, ids), self.vectors(plain, ids), "tokens as they are")
            (cut,) = s.answer("/api/embed", input="a" * 3000)["embeddings"]
            long = s.answer("/tokenize", content="a" * 3000, add_special=True)["tokens"]
            self.assertEqual([cut], self.vectors(plain, long[:1999] + eos))

    def test_ollama(self):
        with self.serve() as s:
            want = self.vectors(s, TEXTS)
            n = s.answer("/v1/embeddings", input=TEXTS)["usage"]["prompt_tokens"]
            got = s.answer("/api/embed", model="any", input=TEXTS)
            self.assertEqual(got["embeddings"], want)
            self.assertEqual(got["prompt_eval_count"], n)
            self.assertIsInstance(got["total_duration"], int)
            self.assertEqual(s.answer("/api/embed", input=TEXTS[0])["embeddings"], want[:1])
            raw = s.answer("/api/embeddings", prompt=TEXTS[1])["embedding"]
            self.assertEqual([raw], [e["embedding"][0] for e in s.answer(
                "/embedding", content=TEXTS[1], embd_normalize=-1)])
            self.close([x / length(raw) for x in raw], want[1])
            ids = s.answer("/tokenize", content="a" * 3000, add_special=True)["tokens"]
            cut = s.answer("/api/embed", input=["a" * 3000, "hello"])
            self.assertEqual(cut["embeddings"], self.vectors(s, [ids[:2000], "hello"]))
            self.assertEqual(cut["prompt_eval_count"], 2000 + 2)
            status, _, answer = s.ask("/api/embed", {"input": "a" * 3000, "truncate": False})
            self.assertEqual((status, list(answer)), (400, ["error"]))
            self.assertIn("the context holds only 2000", answer["error"])
            for wrong in ({"prompt": 3}, {"prompt": ["x"]}):
                self.assertEqual(s.ask("/api/embeddings", wrong)[0], 400)
            for none in {}, {"prompt": ""}, {"prompt": None}:  # such a request loads the model
                self.assertEqual(s.answer("/api/embeddings", **none), {"embedding": []})
            for none in {}, {"input": ""}, {"input": []}:
                self.assertEqual(s.answer("/api/embed", **none)["embeddings"], [])

    def test_members_of_other_routes(self):
        """They are refused, and not ignored."""
        with self.serve() as s:
            for path, body, name, status in [
                    ("/v1/embeddings", {"input": "x", "embd_normalize": -1}, "embd_normalize", 501),
                    ("/embedding", {"content": "x", "encoding_format": "base64"},
                     "encoding_format", 501),
                    ("/embedding", {"content": "x", "input": "y"}, "input and content", 400),
                    ("/api/embed", {"input": "x", "encoding_format": "base64"},
                     "encoding_format", 501),
                    ("/api/embeddings", {"prompt": "x", "embd_normalize": 1},
                     "embd_normalize", 501),
                    ("/api/embeddings", {"prompt": "a" * 3000, "truncate": False},
                     "the context holds only 2000", 400)]:
                got, _, answer = s.ask(path, body)
                self.assertEqual(got, status, body)
                self.assertIn(name, str(answer["error"]))
            for path, body in [("/v1/embeddings", {"input": "x", "embd_normalize": 2}),
                               ("/embedding", {"content": "x", "encoding_format": "float"}),
                               ("/api/embed", {"input": "x", "encoding_format": None})]:
                self.assertEqual(s.ask(path, body)[0], 200, body)

    def test_errors(self):
        with self.serve(ctx=100) as s:
            bad = [{}, {"input": []}, {"input": 3}, {"input": {}}, {"input": [[]]},
                   {"input": ["x", 3]}, {"input": [3, "x"]}, {"input": [["x"]]}, {"input": [-1]},
                   {"input": [420]}, {"input": [1.5]}, {"input": ["x", [420]]},
                   {"input": ["x"] * 2049}]
            bad += [{"input": "x", **wrong} for wrong in [
                {"encoding_format": "int8"}, {"encoding_format": 1}, {"dimensions": 0},
                {"dimensions": 33}, {"dimensions": "1"}]]
            for body in bad:
                status, _, answer = s.ask("/v1/embeddings", body)
                self.assertEqual((status, answer["error"]["type"]),
                                 (400, "invalid_request_error"), (body, answer))
            self.assertEqual(s.ask("/v1/embeddings", {"input": ["x", [420]]})[2]["error"]
                             ["message"], "input[1] is not a list of tokens of the model")
            status, _, answer = s.ask("/v1/embeddings", {"input": ["x", "x" * 99]})
            error = answer["error"]
            self.assertEqual((status, error["type"], error["n_prompt_tokens"], error["n_ctx"]),
                             (400, "exceed_context_size_error", 101, 100))
            status, _, answer = s.ask("/v1/embeddings", {"input": ["x" * 1000] * 301})
            self.assertEqual((status, answer["error"]["message"]),
                             (400, "input has more than 300000 tokens"))
            self.assertEqual(s.ask("/embedding", {"content": "x", "embd_normalize": 1})[0], 400)
            self.assertEqual(len(self.vectors(s, ["x"] * 2048)), 2048)
        with self.serve(vocab="gpt2") as s:  # it puts no token before a text
            self.assertEqual(s.ask("/v1/embeddings", {"input": ["x", ""]})[2]["error"]["message"],
                             "input[1] has no tokens")

    def test_same_bits_beside_others(self):
        """Long texts, several at a time, beside answers: all as alone. The slots keep what they
        have."""
        texts = [f"{i} " + "never " * (7 * i) for i in range(12)]
        with self.serve("--slots", "2", "--kv", "kivi") as s:
            alone = [self.vectors(s, t)[0] for t in texts]
            answer = s.chat(max_tokens=120)["choices"]
            slots = s.ask("/slots")[2]
            self.assertGreater(max(slot["n_past"] for slot in slots), 0)
            self.assertEqual(self.vectors(s, texts), alone)
            self.assertEqual(s.ask("/slots")[2], slots)
            got, wrong = [None] * 8, []

            def ask(i):
                try:
                    if i % 2:
                        got[i] = s.chat(max_tokens=120)["choices"] == answer
                    else:
                        got[i] = self.vectors(s, texts[i // 2:]) == alone[i // 2:]
                except Exception as e:  # of the other thread
                    wrong.append(e)
            threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual((got, wrong), ([True] * 8, []))

    def test_an_answer_does_not_hold_up_a_text(self):
        with self.serve(ctx=ENDLESS) as s:
            want = self.vectors(s, TEXTS)
            c = s.connect()
            c.request("POST", "/v1/completions", json.dumps(
                {"prompt": "a", "max_tokens": -1, "stream": True}))
            c.getresponse().readline()
            self.assertEqual(self.vectors(s, TEXTS), want)
            self.assertIn(True, [slot["is_processing"] for slot in s.ask("/slots")[2]],
                          "the answer is not complete yet")
            c.close()

    @staticmethod
    def computed(s):
        return s.metrics()["prompt_tokens_total"]

    @staticmethod
    def endless(s, n):
        """A request of n short texts and one that takes many minutes. The connection waits for the
        reply."""
        c = s.connect()
        c.request("POST", "/v1/embeddings",
                  json.dumps({"input": [SHORT] * n + ["a" * (ENDLESS - 1000)]}))
        return c

    def one(self, s):
        """How many tokens a short text has."""
        return s.answer("/v1/embeddings", input=SHORT)["usage"]["prompt_tokens"]

    def test_a_client_that_goes_away_frees_the_engine(self):
        for n in (0, 50):  # it goes within a text; at some time
            with self.serve(ctx=ENDLESS) as s:
                one = self.one(s)
                c = self.endless(s, n)
                wait_until(lambda: self.computed(s) > one if n else s.requests() == (1, 0))
                c.close()
                s.wait_for(0)
                done = self.computed(s)
                self.assertLessEqual(done, one * (1 + n))
                self.vectors(s, "hello")
                self.assertEqual(self.computed(s), done + 2, "nothing else goes on")

    def test_clients_take_turns(self):
        """All three wait while a request holds them up; then its client goes away."""
        with self.serve(ctx=ENDLESS) as s:
            one = self.one(s)
            first = self.endless(s, 0)
            s.wait_for(1)
            large = self.endless(s, 3)
            s.wait_for(1, 1)
            other = http.client.HTTPConnection(s.host, s.port, timeout=PATIENCE,
                                               source_address=("127.0.0.2", 0))
            other.request("POST", "/v1/embeddings", json.dumps({"input": [SHORT] * 3}))
            s.wait_for(1, 2)
            first.close()
            self.assertEqual(other.getresponse().status, 200)  # before the text that has no end
            other.close()
            wait_until(lambda: self.computed(s) == one * (1 + 3 + 3))
            s.wait_for(1)  # the large request has come to that text
            large.close()

    def test_too_many_wait(self):
        with self.serve("--queue", "1", ctx=ENDLESS) as s:
            first = self.endless(s, 0)
            s.wait_for(1)
            second = self.endless(s, 0)
            s.wait_for(1, 1)
            status, headers, answer = s.ask("/v1/embeddings", {"input": "hello"})
            self.assertEqual((status, answer["error"]["type"]), (429, "rate_limit_error"))
            self.assertEqual(headers["Retry-After"], "1")
            self.assertEqual(len(s.chat()["choices"]), 1, "answers have a queue of their own")
            first.close()
            second.close()


if __name__ == "__main__":
    main()
