"""tuffet serve with models that write no text: encoders and rerankers. Vectors and scores are those
of tuffet embed and tuffet rerank."""
import json
import re
import threading

from program import Case, main
from test_embedding import SHARED, lines, with_texts
from test_serve import HELLO, ZEPHYR, Server

TEXTS = ["hello world", "once upon a time there was", "x", "a cat sleeps on the mat " * 3]


class Models(Case):
    def file(self, name):
        path = SHARED / "models" / name
        if not path.exists():
            self.skipTest(f"{name} is not in shared/models")
        return path

    def close(self, got, want):
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertEqual(len(a), len(b))
            self.assertLess(max(abs(x - y) for x, y in zip(a, b)), 1e-6)

    def refuses_text(self, s, said):
        for path, body in [("/v1/chat/completions", {"messages": HELLO}),
                           ("/v1/completions", {"prompt": "hello"}),
                           ("/completion", {"prompt": "hello"}),
                           ("/api/generate", {"prompt": "hello", "stream": False}),
                           ("/v1/completions", {"prompt": "hello", "stream": True})]:
            status, _, answer = s.ask(path, body)
            self.assertEqual(status, 400, (path, answer))
            self.assertIn(said, json.dumps(answer), path)
        for path in ("/v1/models", "/props", "/metrics", "/slots", "/health"):
            self.assertEqual(s.ask(path)[0], 200, path)


class Encoder(Models):
    def model(self):
        return self.file("embed/all-minilm-l6-v2.f16.gguf")

    def embed(self, *args, texts=TEXTS):
        out = self.tuffet("embed", *args, stdin=lines(texts))
        return [json.loads(line)["embedding"] for line in out.splitlines()]

    def vectors(self, s, texts, **more):
        got = s.answer("/v1/embeddings", input=texts, **more)
        return [d["embedding"] for d in got["data"]]

    def test_vectors(self):
        model = self.model()
        want, raw = self.embed(model), self.embed(model, "--raw")
        with Server(model) as s:
            self.close(self.vectors(s, TEXTS), want)
            self.close(self.vectors(s, TEXTS[2]), want[2:3])
            self.close(s.answer("/api/embed", input=TEXTS)["embeddings"], want)
            self.close([e["embedding"][0] for e in s.answer(
                "/embedding", content=TEXTS, embd_normalize=-1)], raw)
            self.close(self.vectors(s, TEXTS, dimensions=9), self.embed(model, "--dims=9"))
            ids = self.json("tokenize", model, "--bos", "--eos", "-p", TEXTS[0])["tokens"]
            self.close(self.vectors(s, [ids]), want[:1])
            n = s.answer("/v1/embeddings", input=TEXTS[0])["usage"]["prompt_tokens"]
            self.assertEqual(n, len(ids))
            self.refuses_text(s, "writes no text")
            status, _, answer = s.ask("/v1/rerank", {"query": "x", "documents": ["y"]})
            self.assertEqual(status, 501)
            self.assertIn("no reranker", answer["error"]["message"])
        with Server(model, "--pooling=cls") as s:
            self.close(self.vectors(s, TEXTS), self.embed(model, "--pooling=cls"))

    def test_requests_at_once(self):
        """Each gets its own vectors, whichever texts shared a pass."""
        model = self.model()
        texts = [f"{t} {i}" for i in range(8) for t in TEXTS]
        want = self.embed(model, texts=texts)
        got = {}
        with Server(model) as s:
            def ask(i):
                got[i] = self.vectors(s, texts[4 * i:4 * i + 4] * 3)
            threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        for i in range(8):
            self.close(got[i], want[4 * i:4 * i + 4] * 3)

    def test_passes_beside_another_model(self):
        """A pass is bounded by time there. Before the speed is known it has 32 tokens."""
        model, texts = self.model(), [f"{TEXTS[1]} {i}" for i in range(16)]
        passes, vectors = [], []
        for other in [], [f"other={self.toy()}"]:
            with Server(f"encoder={model}", *other) as s:
                vectors.append(self.vectors(s, texts, model="encoder"))
                metrics = s.ask("/metrics")[2].decode()
                passes.append(int(re.search(r"(?m)^tuffet:n_decode_total\S* (\d+)$", metrics)[1]))
        self.assertEqual(passes[0], 1)
        self.assertGreater(passes[1], 1)
        self.assertEqual(vectors[1], vectors[0])

    def test_long_texts(self):
        model = self.model()
        long = "hello world " * 400
        with Server(model) as s:
            status, _, answer = s.ask("/v1/embeddings", {"input": ["x", long]})
            self.assertEqual((status, answer["error"]["n_ctx"]), (400, 512))
            status, headers, answer = s.ask("/v1/embeddings", {"input": ["x", long],
                                                               "truncate": True})
            self.assertEqual(status, 200)
            self.assertEqual(headers["X-Tuffet-Warning"], "1 of 2 texts were cut to 512 tokens")
            cut = "hello world " * 255  # 510 tokens
            self.close([answer["data"][1]["embedding"]], self.embed(model, texts=[cut]))
            self.assertEqual(s.ask("/api/embed", {"input": long})[0], 200)
            self.assertEqual(s.ask("/api/embed", {"input": long, "truncate": False})[0], 400)

    def test_prompts(self):
        model = self.write("named.gguf", with_texts(self.model().read_bytes(),
                                                    tuffet__prompt__query="query: "))
        with Server(model) as s:
            want = self.vectors(s, ["query: " + t for t in TEXTS])
            plain = self.vectors(s, TEXTS)
            for more in ({"prompt_name": "query"}, {"input_type": "query"},
                         {"input_type": "search_query"}):
                self.assertEqual(self.vectors(s, TEXTS, **more), want, more)
            self.assertEqual(self.vectors(s, TEXTS, input_type="document"), plain)
            for more, said in [({"prompt_name": "document"}, "no prompt"),
                               ({"prompt_name": "query", "input_type": "query"}, "both")]:
                status, _, answer = s.ask("/v1/embeddings", {"input": "x", **more})
                self.assertEqual(status, 400)
                self.assertIn(said, answer["error"]["message"])


class Reranker(Models):
    def model(self):
        return self.file("random/bert-rerank.gguf")

    def test_shapes(self):
        model = self.model()
        out = self.tuffet("rerank", model, "a query", "--json", stdin=lines(TEXTS))
        want = [json.loads(line) for line in out.splitlines()]
        order = [w["index"] for w in want]

        def check(rows, score):
            self.assertEqual([r["index"] for r in rows], order[:len(rows)])
            self.close([[r[score] for r in rows]], [[w["score"] for w in want[:len(rows)]]])

        with Server(model) as s:
            for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
                got = s.answer(path, model="any", query="a query", documents=TEXTS)
                self.assertEqual(got["object"], "list")
                self.assertEqual(got["usage"]["total_tokens"], got["usage"]["prompt_tokens"])
                self.assertEqual(len(got["results"]), len(TEXTS))
                check(got["results"], "relevance_score")
                self.assertNotIn("document", got["results"][0])
            got = s.answer("/v1/rerank", query="a query", documents=[{"text": t} for t in TEXTS],
                           top_n=2, return_documents=True)["results"]
            check(got, "relevance_score")
            self.assertEqual([r["document"]["text"] for r in got], [TEXTS[i] for i in order[:2]])
            got = s.answer("/rerank", query="a query", texts=TEXTS)
            self.assertEqual(len(got), len(TEXTS))
            check(got, "score")
            got = s.answer("/rerank", query="a query", texts=TEXTS, return_text=True)
            self.assertEqual([r["text"] for r in got], [TEXTS[i] for i in order])
            self.refuses_text(s, "scores of pairs")
            status, _, answer = s.ask("/v1/embeddings", {"input": "x"})
            self.assertEqual(status, 501)
            self.assertIn("no vectors", answer["error"]["message"])

    def test_errors(self):
        long = "hello world once upon a time " * 200
        with Server(self.model()) as s:
            for body, status, said in [
                    ({"documents": ["x"]}, 400, "query"),
                    ({"query": "x"}, 400, "documents must be"),
                    ({"query": "x", "documents": []}, 400, "documents must be"),
                    ({"query": "x", "documents": ["x", 1]}, 400, "documents[1]"),
                    ({"query": "x", "documents": ["y"], "texts": ["y"]}, 400, "both texts"),
                    ({"query": "x", "documents": ["y"], "top_n": 0}, 400, "top_n"),
                    ({"query": long, "documents": ["y"]}, 400, "query leaves no room"),
                    ({"query": "x", "texts": ["y", long]}, 400, "texts[1] and the query have"),
                    ({"query": "x", "documents": ["y", long], "truncate": False}, 400,
                     "documents[1] and"),
                    ({"query": "x", "texts": ["y"], "raw_scores": True}, 501, "raw_scores")]:
                got, _, answer = s.ask("/rerank", body)
                self.assertEqual(got, status, (list(body), answer))
                self.assertIn(said, answer["error"]["message"])
        with Server(self.file("random/qwen3-rerank.gguf")) as s:
            status, _, answer = s.ask("/rerank", {"query": "x", "texts": ["y"]})
            self.assertEqual(status, 400)
            self.assertIn("no token between", answer["error"]["message"])
        with Server(self.model()) as s:
            for body in ({"query": "x", "documents": ["y", long]},
                         {"query": "x", "texts": ["y", long], "truncate": True}):
                status, headers, answer = s.ask("/rerank", body)
                self.assertEqual(status, 200)
                self.assertRegex(headers["X-Tuffet-Warning"],
                                 r"^1 of 2 texts were cut to \d+ tokens$")


class Several(Models):
    """Models of all kinds in one server."""
    context = {"chat": 2000, "qwen3": 2048}  # of the others 128
    want = {"chat": ["completion", "tools"], "vectors": ["embedding"], "qwen3": ["embedding"],
            "scores": ["rerank"], "unnamed": ["rerank"]}

    def serve(self, *args):
        files = {"chat": self.toy(template=ZEPHYR, endless=1, ctx=2000),
                 "vectors": self.file("random/bert-cls.gguf"),
                 "qwen3": self.file("random/qwen3-embed.gguf"),
                 "scores": self.file("random/bert-rerank.gguf"),
                 "unnamed": self.without_pooling(self.file("random/bert-rerank.gguf"))}
        return Server(*(f"{name}={path}" for name, path in files.items()), *args)

    def without_pooling(self, path):
        """As most files of rerankers."""
        return self.write("unnamed.gguf", path.read_bytes().replace(b"bert.pooling_type",
                                                                    b"general.something"))

    def use_all(self, s):
        s.chat(model="chat", max_tokens=1)
        for name in "vectors", "qwen3":
            s.answer("/v1/embeddings", model=name, input="x")
        for name in "scores", "unnamed":
            s.answer("/rerank", model=name, query="x", texts=["y"])

    def test_what_each_can_before_it_is_open_and_after(self):
        with self.serve("--alias=v=vectors", "--alias=w=vectors") as s:
            for state in "unloaded", "loaded":
                listed = s.ask("/v1/models")[2]["data"]
                self.assertEqual({m["id"]: m["capabilities"] for m in listed}, self.want)
                self.assertEqual({m["status"]["value"] for m in listed}, {state})
                self.assertEqual([m["aliases"] for m in listed], [[], ["v", "w"], [], [], []])
                for name, can in self.want.items():
                    shown = s.answer("/api/show", model=name)
                    self.assertEqual(shown["capabilities"], can)
                    arch = {"chat": "llama", "qwen3": "qwen3"}.get(name, "bert")
                    self.assertEqual(shown["model_info"]["general.architecture"], arch)
                    have = shown["model_info"][arch + ".context_length"]
                    self.assertEqual(have, self.context.get(name, 128))
                    self.assertNotIn(0, shown["model_info"].values())
                self.assertEqual({m["id"]: m["meta"]["n_ctx_train"] for m in listed},
                                 {name: self.context.get(name, 128) for name in self.want})
                self.use_all(s)

    def test_a_context_that_some_do_not_have(self):
        with self.serve("--ctx=1500") as s:
            self.use_all(s)
            have = [s.ask("/props?model=" + name)[2]["default_generation_settings"]["n_ctx"]
                    for name in ("chat", "vectors", "scores")]
            self.assertEqual(have, [1500, 128, 128])

    def test_pooling_of_an_encoder_in_the_file(self):
        path = self.file("random/bert.gguf")
        config = self.write("serve.ini", f"[model a]\npath = {path}\npooling = cls\n".encode())
        want = self.tuffet("embed", path, "--pooling=cls", stdin=b"hello\n")
        with Server("--config", config) as s:
            (got,) = s.answer("/v1/embeddings", input="hello")["data"]
            self.close([got["embedding"]], [json.loads(want)["embedding"]])


main()
