"""Adapters of tuffet serve: --lora, `lora` of requests and /lora-adapters"""
import json
import os
import threading

from adapters import adapter
from program import Case, main
from test_serve import HELLO, ZEPHYR, Server

PROMPT = "hello and once upon a time the world was in " * 8
BOTH = [{"id": 0, "scale": 1}, {"id": 1, "scale": 0.5}]
SETS = [[], BOTH[:1], BOTH[1:], BOTH]


class ServeLora(Case):
    def setUp(self):
        super().setUp()
        self.model = self.toy(template=ZEPHYR, endless=1, ctx=2000)
        self.lora = [adapter(self, self.model, "a.gguf"), adapter(self, self.model, "b.gguf")]

    def serve(self, *args):
        return Server(self.model, "--lora", self.lora[0], "--lora", self.lora[1] + ":0", *args)

    def ask(self, s, loras, **more):
        return s.answer("/completion", prompt=PROMPT, temperature=0, n_predict=12,
                        **({} if loras is None else {"lora": loras}), **more)

    def wanted(self, loras):
        """The answer of a program that has the adapters alone."""
        args = [arg for one in loras
                for arg in ("--lora", f"{self.lora[one['id']]}:{one['scale']}")]
        return self.json("run", self.model, "-p", PROMPT, "-n", "12", "--temp", "0",
                         *args)["text"]

    def test_each_request_has_its_adapters(self):
        want = [self.wanted(loras) for loras in SETS]
        self.assertEqual(len(set(want)), len(SETS))
        with self.serve("--slots=1") as s:
            for _ in range(2):
                for loras, text in zip(SETS, want):
                    got = self.ask(s, loras)
                    self.assertEqual(got["content"], text)
            # the session of this set, which lost its slot, and no other one
            self.assertGreater(got["tokens_cached"], 60)
            self.assertEqual(self.ask(s, None)["content"], want[1], "as the command line says")
            other = self.ask(s, [{"id": 1, "scale": 0.25}])
            self.assertEqual(other["tokens_cached"], 0, "tokens of another set are not found")

    def test_scales_that_a_client_has_solved_for(self):
        """The CRC-32 of these scales is that of 1 and 0.5."""
        with Server(self.model, "--lora", self.lora[0], "--lora", self.lora[1] + ":0.5",
                    "--slots=1") as s:
            self.ask(s, [{"id": 0, "scale": -5.85017204284668},
                         {"id": 1, "scale": -1.703616738319397}])
            got = self.ask(s, None)
            self.assertEqual((got["content"], got["tokens_cached"]), (self.wanted(BOTH), 0))

    def test_many_at_once(self):
        want = [self.wanted(loras) for loras in SETS]
        with self.serve("--slots=4") as s:
            got = [None] * 12

            def ask(i):
                got[i] = self.ask(s, SETS[i % 4])["content"]
            threads = [threading.Thread(target=ask, args=[i]) for i in range(len(got))]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(got, want * 3)

    def test_scales_of_all_requests(self):
        with self.serve() as s:
            self.assertEqual(s.ask("/lora-adapters")[2],
                             [{"id": 0, "path": "a.gguf", "scale": 1},
                              {"id": 1, "path": "b.gguf", "scale": 0}])
            self.assertEqual(s.ask("/lora-adapters", BOTH[1:])[2], {"success": True})
            self.assertEqual([x["scale"] for x in s.ask("/lora-adapters")[2]], [0, 0.5])
            self.assertEqual(self.ask(s, None)["content"], self.wanted(BOTH[1:]))
            self.assertEqual(self.ask(s, [])["content"], self.wanted([]))
            before = s.answer("/v1/embeddings", input="hello")["data"][0]["embedding"]
            s.ask("/lora-adapters", [])
            after = s.answer("/v1/embeddings", input="hello")["data"][0]["embedding"]
            self.assertNotEqual(before, after)

    def test_all_apis(self):
        limit = {"max_tokens": 8, "temperature": 0}
        lora = {"lora": BOTH[:1]}
        calls = [
            ("/v1/chat/completions", {"messages": HELLO, **limit}, lora,
             lambda x: x["choices"][0]["message"]["content"]),
            ("/v1/completions", {"prompt": PROMPT, **limit}, lora,
             lambda x: x["choices"][0]["text"]),
            ("/v1/messages", {"messages": HELLO, **limit}, lora,
             lambda x: x["content"][0]["text"]),
            ("/v1/responses", {"input": "hello", "max_output_tokens": 8, "temperature": 0}, lora,
             lambda x: x["output"][0]["content"][0]["text"]),
            ("/api/chat", {"messages": HELLO, "stream": False,
                           "options": {"temperature": 0, "num_predict": 8}}, None,
             lambda x: x["message"]["content"]),
            ("/api/generate", {"prompt": PROMPT, "stream": False,
                               "options": {"temperature": 0, "num_predict": 8}}, None,
             lambda x: x["response"]),
        ]
        with self.serve() as s:
            for path, body, more, text in calls:
                s.ask("/lora-adapters", [])
                plain = text(s.answer(path, **body))
                adapted = {**body, **(more or {"options": {**body.get("options", {}), **lora}})}
                got = text(s.answer(path, **adapted))
                s.ask("/lora-adapters", BOTH[:1])
                self.assertEqual(got, text(s.answer(path, **body)), path)
                self.assertNotEqual(got, plain, path)

    def test_sessions_on_disk_belong_to_their_adapters(self):
        folder = self.path("sessions")
        with self.serve("--cache-dir", folder) as s:
            want = [self.ask(s, loras)["content"] for loras in SETS[:2]]
        self.assertEqual(len([f for f in os.listdir(folder) if f.endswith(".session")]), 2)
        with Server(self.model, "--cache-dir", folder) as s:  # and no adapters
            got = s.answer("/completion", prompt=PROMPT, temperature=0, n_predict=12)
            self.assertEqual(got["content"], want[0])
            self.assertGreater(got["tokens_cached"], 60)
        with self.serve("--cache-dir", folder) as s:
            got = self.ask(s, SETS[1])
            self.assertEqual(got["content"], want[1])
            self.assertGreater(got["tokens_cached"], 60)
            self.assertEqual(self.ask(s, SETS[2])["tokens_cached"], 0)

    def test_slots_are_restored_with_the_adapters_of_the_server(self):
        with self.serve("--slots=1", "--slot-save-path", self.folder.name) as s:
            want = self.ask(s, None)
            s.ask("/slots/0?action=save", {"filename": "slot"})
            self.ask(s, [])
            self.assertEqual(s.ask("/slots/0?action=restore", {"filename": "slot"})[0], 200)
            got = self.ask(s, None)
            self.assertEqual(got["content"], want["content"])
            s.ask("/lora-adapters", [])
            status, _, why = s.ask("/slots/0?action=restore", {"filename": "slot"})
            self.assertEqual(status, 400)
            self.assertIn("other adapters", why["error"]["message"])

    def test_refusals(self):
        cases = [({"id": 0, "scale": 1}, "must be a list"),
                 ([{"id": 2, "scale": 1}], "lora[0].id is 2, and the server's last adapter is 1"),
                 ([{"id": -1, "scale": 1}], "lora[0].id is -1"),
                 ([{"id": 0}], "lora[0] must be an object with the numbers id and scale"),
                 ([3], "lora[0] must be an object"),
                 ([{"id": 0, "scale": 1e9}], "lora[0].scale must be a number up to 1e6"),
                 ([BOTH[0], BOTH[0]], "lora[1]: the adapter 0 comes twice")]
        with self.serve() as s:
            for loras, why in cases:
                status, _, got = s.ask("/completion", {"prompt": "a", "lora": loras})
                self.assertEqual(status, 400, loras)
                self.assertIn(why, got["error"]["message"])
            status, _, got = s.ask("/lora-adapters", [{"id": 7, "scale": 1}])
            self.assertEqual((status, [x["scale"] for x in s.ask("/lora-adapters")[2]]),
                             (400, [1, 0]))
            status, _, got = s.ask("/lora-adapters", {})
            self.assertEqual((status, got["error"]["message"]),
                             (400, "the body is not a JSON list"))
            self.assertEqual(s.ask("/v1/embeddings", {"input": "a", "lora": BOTH})[0], 501)
        with Server(self.model) as s:
            status, _, got = s.ask("/completion", {"prompt": "a", "lora": BOTH})
            self.assertEqual(status, 501)
            self.assertIn("the server has no adapters", got["error"]["message"])
            self.assertEqual(s.ask("/lora-adapters")[2], [])
        self.assertIn("--lora goes with one model", self.fails(
            "serve", self.model, "other=" + self.model, "--lora", self.lora[0], status=2))

    def test_batch(self):
        lines = [{"custom_id": str(i), "method": "POST", "url": "/v1/completions",
                  "body": {"prompt": PROMPT, "temperature": 0, "max_tokens": 12, "lora": loras}}
                 for i, loras in enumerate(SETS)]
        requests = self.write("requests", "\n".join(map(json.dumps, lines)).encode())
        replies = self.path("replies")
        self.tuffet("batch", self.model, "-f", requests, "-o", replies, "--lora", self.lora[0],
                    "--lora", self.lora[1])
        with open(replies) as f:
            got = {x["custom_id"]: x["response"]["body"]["choices"][0]["text"]
                   for x in map(json.loads, f)}
        for i, loras in enumerate(SETS):
            self.assertEqual(got[str(i)], self.wanted(loras))


main()
