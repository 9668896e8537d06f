"""Several models in one tuffet serve."""
import os
import shutil
import signal
import threading

from program import Case, main, wait_until
from test_serve import HELLO, ZEPHYR, Server

SHORT = {"temperature": 0, "max_tokens": 8}


class Models(Case):
    def setUp(self):
        super().setUp()
        self.a = self.toy(template=ZEPHYR, endless=1, ctx=2000)
        self.b = self.toy(template=ZEPHYR + " ", endless=1, ctx=1000, seed=7)
        self.c = self.toy(endless=1, ctx=500, seed=3)

    def serve(self, *args):
        return Server(f"a={self.a}", f"b={self.b}", *args)

    def alone(self, path, **body):
        with Server(path) as s:
            return s.chat(**{**SHORT, **body})["choices"][0]["message"]

    def state(self, s):
        return {m["id"]: m["status"]["value"] for m in s.ask("/v1/models")[2]["data"]}

    def loaded(self, s):
        return [m["name"] for m in s.ask("/api/ps")[2]["models"]]

    def test_the_request_chooses(self):
        want = {name: self.alone(path) for name, path in [("a", self.a), ("b", self.b)]}
        self.assertNotEqual(want["a"], want["b"])
        with self.serve("--alias", "gpt=b") as s:
            self.assertEqual(self.state(s), {"a": "unloaded", "b": "unloaded"})
            for name, is_ in [("b", "b"), ("a", "a"), ("gpt", "b"), ("a:latest", "a"), ("", "a")]:
                got = s.chat(model=name, **SHORT)
                self.assertEqual((got["choices"][0]["message"], got["model"]), (want[is_], is_))
            self.assertEqual(self.state(s), {"a": "loaded", "b": "loaded"})
            self.assertEqual(s.chat(**SHORT)["model"], "a")
            got = s.answer("/api/chat", model="b", messages=HELLO, stream=False,
                           options={"temperature": 0, "num_predict": 8})
            self.assertEqual((got["model"], got["message"]), ("b", want["b"]))
            got = s.answer("/v1/messages", model="b", messages=HELLO, **SHORT)
            self.assertEqual(got["content"][0]["text"], want["b"]["content"])
            got = s.answer("/v1/responses", model="b", input="hello", temperature=0,
                           max_output_tokens=8)
            self.assertEqual(got["model"], "b")
            for path, body in [("/tokenize", {"content": "hello"}),
                               ("/completion", {"prompt": "x"}),
                               ("/v1/embeddings", {"input": "hello"}),
                               ("/api/embed", {"input": "hello"})]:
                s.answer(path, model="b", **body)
            sizes = [s.ask("/props?model=" + name)[2]["default_generation_settings"]["n_ctx"]
                     for name in ("a", "b")]
            self.assertEqual(sizes, [2000, 1000])
            slots = s.ask("/slots?model=b")[2]
            self.assertEqual({slot["n_ctx"] for slot in slots}, {1000})
            self.assertGreater(slots[0]["n_past"], 0)
            slot = "/slots/0?model=b&action=erase"
            self.assertEqual(s.ask(slot, b"")[2]["n_erased"], slots[0]["n_past"])

    def test_unknown_models_in_the_shape_of_each_api(self):
        with self.serve() as s:
            for path, body in [("/v1/chat/completions", {"messages": HELLO}),
                               ("/v1/completions", {"prompt": "x"}),
                               ("/v1/responses", {"input": "x"}), ("/completion", {"prompt": "x"})]:
                status, _, got = s.ask(path, {"model": "none", **body})
                self.assertEqual((status, got["error"]["type"]), (404, "not_found_error"), path)
            status, _, got = s.ask("/v1/messages", {"model": "none", "messages": HELLO})
            self.assertEqual((status, got["type"], got["error"]["type"]),
                             (404, "error", "not_found_error"))
            for path in "/api/chat", "/api/generate", "/api/embed", "/api/show":
                status, _, got = s.ask(path, {"model": "none"})
                self.assertEqual((status, list(got)), (404, ["error"]), path)
                self.assertIn('"none" not found', got["error"])
            self.assertEqual(s.ask("/props?model=none")[0], 404)
            self.assertEqual(s.ask("/v1/chat/completions", {"model": 3, "messages": HELLO})[0], 400)
            self.assertEqual(s.ask("/v1/chat/completions", b"{")[0], 400)
            self.assertEqual(self.loaded(s), [])

    def test_lists(self):
        with self.serve() as s:
            for loaded in False, True:
                if loaded:
                    s.chat(model="b", **SHORT)
                listed = s.ask("/v1/models")[2]["data"]
                self.assertEqual([m["id"] for m in listed], ["a", "b"])
                self.assertEqual(s.ask("/v1/models/b")[2], listed[1])
                self.assertEqual(listed[1]["meta"].get("n_ctx"), 1000 if loaded else None)
                tags = s.ask("/api/tags")[2]["models"]
                self.assertEqual([m["name"] for m in tags], ["a", "b"])
                digests = [m["digest"] for m in tags]
                if loaded:
                    self.assertEqual(digests, before)
                before = digests
                self.assertEqual(len(set(digests)), 2)
                shown = s.answer("/api/show", model="b")
                self.assertEqual(shown["template"], ZEPHYR + " ")
                self.assertEqual(self.loaded(s), ["b"] if loaded else [])
            got = s.ask("/v1/models", **{"anthropic-version": "2023-06-01"})[2]
            self.assertEqual([m["id"] for m in got["data"]], ["a", "b"])
            self.assertEqual((got["first_id"], got["last_id"], got["has_more"]), ("a", "b", False))
            self.assertEqual(got["data"][0]["type"], "model")
            one = s.ask("/v1/models/b", **{"anthropic-version": "2023-06-01"})[2]
            self.assertEqual(one, got["data"][1])
            status, _, error = s.ask("/v1/models/x", **{"anthropic-version": "2023-06-01"})
            self.assertEqual((status, error["type"]), (404, "error"))
            text = s.ask("/metrics")[2].decode()
            self.assertIn('\ntuffet:n_decode_total{model="b"} ', text)
            self.assertNotIn('model="a"', text)
            self.assertEqual(text.count("# TYPE tuffet:n_decode_total"), 1)

    def test_a_folder(self):
        folder = self.path("folder")
        os.mkdir(folder)
        shutil.copy(self.b, folder + "/two.gguf")
        shutil.copy(self.a, folder + "/one.gguf")
        self.write("folder/notes.txt", b"no model")
        with Server("--models", folder) as s:
            self.assertEqual(self.state(s), {"one": "unloaded", "two": "unloaded"})
            self.assertEqual(s.chat(**SHORT)["model"], "one")
            self.assertEqual(s.chat(model="two", **SHORT)["model"], "two")
        with Server(f"mine={self.c}", "--models=" + folder) as s:
            self.assertEqual(list(self.state(s)), ["mine", "one", "two"])
            self.assertEqual(s.ask("/v1/chat/completions", {"messages": HELLO})[0], 400)
            self.assertEqual(s.answer("/v1/completions", prompt="x")["model"], "mine")
        self.write("folder/bad.gguf", b"GGUF")
        s = Server("--models", folder)
        self.assertEqual(self.state(s), {"one": "unloaded", "two": "unloaded"})
        s.process.send_signal(signal.SIGTERM)
        self.assertIn(b"bad.gguf", s.process.communicate()[1])
        self.assertEqual(s.process.returncode, 0)

    def test_wrong_command_lines(self):
        for args, why in [([], "MODEL is missing"), ([self.a, self.a], "two models have the name"),
                          ([self.a, self.b, "--pooling=cls"], "--pooling must be"),
                          ([f"x={self.a}", f"x={self.b}"], "two models have the name x"),
                          ([self.a, self.b, "--draft", self.c], "--draft goes with one model"),
                          ([self.a, self.b, "--alias", "x"], "--alias must be NEW=NAME"),
                          ([self.a, self.b, "--alias", "x=y"], "there is no model y"),
                          ([f"a={self.a}", f"b={self.b}", "--alias=a=b"], "a model has this name")]:
            self.assertIn(why, self.fails("serve", *args, status=2))
        self.assertIn("no-such", self.fails("serve", self.a, self.path("no-such")))
        empty = self.path("empty")
        os.mkdir(empty)
        self.assertIn("no model to serve", self.fails("serve", "--models", empty))
        self.assertIn("--mem allows", self.fails("serve", self.a, "--mem=10K"))

    def bytes_of(self):
        """The memory of a and of b."""
        with self.serve() as s:
            for name in "ab":
                s.chat(model=name, **SHORT)
            text = s.ask("/metrics")[2].decode()
            return [float(text.split(f'tuffet:model_bytes{{model="{name}"}} ')[1].split()[0])
                    for name in "ab"]

    def test_a_budget(self):
        a, b = self.bytes_of()
        want = {"a": self.alone(self.a), "b": self.alone(self.b)}
        with self.serve(f"c={self.c}", f"--mem={int(max(a, b)) + 1000}") as s:
            written = {"a": 0, "b": 0}
            for name in "a", "b", "a", "a", "b":
                got = s.chat(model=name, **SHORT)
                self.assertEqual(got["choices"][0]["message"], want[name])
                self.assertEqual(self.loaded(s), [name])
                written[name] += got["usage"]["completion_tokens"]
            text = s.ask("/metrics")[2].decode()  # a is closed: it has counters, and no gauges
            for name in "ab":
                self.assertIn(
                    f'\ntuffet:tokens_predicted_total{{model="{name}"}} {written[name]}\n', text)
            self.assertIn('\ntuffet:model_bytes{model="b"}', text)
            self.assertNotIn('tuffet:model_bytes{model="a"}', text)
            threads = []
            wrong = []

            def talk(name):
                for _ in range(5):
                    got = s.chat(model=name, **SHORT)["choices"][0]["message"]
                    if got != want[name]:
                        wrong.append((name, got))
            for name in "abababab":
                threads.append(threading.Thread(target=talk, args=[name]))
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(wrong, [])
            self.assertEqual(len(self.loaded(s)), 1)

    def test_an_answer_keeps_its_model(self):
        a, b = self.bytes_of()
        with self.serve(f"--mem={int(max(a, b)) + 1000}") as s:
            c = s.connect()
            c.request("POST", "/v1/completions",
                      b'{"model": "a", "prompt": "x", "max_tokens": 1500, "stream": true,'
                      b' "temperature": 0}')
            r = c.getresponse()
            first = r.readline()
            got = []
            other = threading.Thread(target=lambda: got.append(s.chat(model="b", **SHORT)))
            other.start()
            rest = r.read()
            c.close()
            other.join()
            self.assertTrue(first.startswith(b"data: "))
            self.assertTrue(rest.endswith(b"data: [DONE]\n\n"))
            self.assertEqual(got[0]["model"], "b")
            self.assertEqual(self.loaded(s), ["b"])

    def test_too_large_for_the_budget(self):
        a, b = self.bytes_of()
        small, large = ("b", "a") if a > b else ("a", "b")
        with self.serve(f"--mem={int(min(a, b)) + 1000}") as s:
            for _ in range(2):
                status, _, got = s.ask("/v1/chat/completions", {"model": large, "messages": HELLO})
                self.assertEqual((status, got["error"]["type"]), (503, "unavailable_error"))
                self.assertIn("--mem allows", got["error"]["message"])
                self.assertEqual(s.chat(model=small, **SHORT)["model"], small)
            wait_until(lambda: self.loaded(s) == [small])

    def test_keep_alive(self):
        with self.serve() as s:
            def load(name, keep, **more):
                return s.answer("/api/generate", model=name, keep_alive=keep, stream=False, **more)
            got = load("a", -1)
            self.assertEqual((got["model"], got["done_reason"], got["response"]), ("a", "load", ""))
            load("b", "10m")
            self.assertEqual(self.loaded(s), ["a", "b"])
            expires = [m["expires_at"][:4] for m in s.ask("/api/ps")[2]["models"]]
            self.assertGreater(*expires)
            got = load("a", 0)
            self.assertEqual((got["model"], got["done_reason"]), ("a", "unload"))
            wait_until(lambda: self.loaded(s) == ["b"])
            got = s.answer("/api/chat", model="b", keep_alive="0s", messages=[], stream=False)
            self.assertEqual((got["done_reason"], got["message"]["content"]), ("unload", ""))
            wait_until(lambda: self.loaded(s) == [])
            got = load("a", "0", prompt="hello", options={"num_predict": 4})
            self.assertEqual(got["done_reason"], "length")
            wait_until(lambda: self.loaded(s) == [])
            load("a", 0.2, prompt="hello", options={"num_predict": 4})
            self.assertEqual(self.loaded(s), ["a"])
            wait_until(lambda: self.loaded(s) == [])
            for wrong in "soon", "5 m", [1], {"a": 1}, True:
                status, _, got = s.ask("/api/generate", {"model": "a", "keep_alive": wrong})
                self.assertEqual(status, 400, wrong)
                self.assertIn("keep_alive", got["error"])

    def test_a_model_that_cannot_be_opened(self):
        path = self.path("goes.gguf")
        shutil.copy(self.a, path)
        s = Server(path, f"b={self.b}")
        os.rename(path, path + ".old")
        for _ in range(2):
            status, _, got = s.ask("/v1/chat/completions", {"model": "goes", "messages": HELLO})
            self.assertEqual((status, got["error"]["type"]), (503, "unavailable_error"))
            self.assertIn("the model goes cannot be opened: ", got["error"]["message"])
            self.assertIn("No such file", got["error"]["message"])
            self.assertNotIn(self.folder.name, got["error"]["message"])
        status, _, got = s.ask("/v1/messages", {"model": "goes", "messages": HELLO})
        self.assertEqual((status, got["error"]["type"]), (503, "overloaded_error"))
        self.assertEqual(s.chat(model="b", **SHORT)["model"], "b")
        os.rename(path + ".old", path)
        self.assertEqual(s.chat(model="goes", **SHORT)["model"], "goes")
        s.process.send_signal(signal.SIGTERM)
        self.assertEqual(s.process.communicate()[1].count(b"No such file"), 3)
        self.assertEqual(s.process.returncode, 0)

    def test_passes_are_as_long_as_their_time_allows(self):
        """The first pass of a model beside others has 32 tokens; later ones of a small model have
        more, up to the 256 of a model alone."""
        with self.serve() as s:
            parts = s.stream("/v1/completions", model="a", prompt="the " * 1500, max_tokens=1,
                             return_progress=True)
        done = [p["prompt_progress"]["processed"] for p in parts if "prompt_progress" in p]
        steps = [b - a for a, b in zip(done, done[1:])]
        self.assertEqual(done[0], 32)
        self.assertGreater(max(steps), 64)
        self.assertLessEqual(max(steps), 256)

    def test_the_end_completes_requests_that_wait(self):
        a, b = self.bytes_of()
        with self.serve(f"--mem={int(max(a, b)) + 1000}") as s:
            c, d = s.connect(), s.connect()
            c.request("POST", "/v1/completions", b'{"model": "a", "prompt": "x", "temperature": 0,'
                      b' "max_tokens": 1000, "stream": true}')
            r = c.getresponse()
            d.request("POST", "/v1/completions", b'{"model": "b", "prompt": "x"}')
            s.send_first_signal()
            self.assertTrue(r.read().endswith(b"data: [DONE]\n\n"))
            r = d.getresponse()
            self.assertEqual(r.status, 200, r.read())
            r.read()
            c.close()
            d.close()

    def test_clients_that_go_while_they_wait(self):
        a, b = self.bytes_of()
        with self.serve(f"--mem={int(max(a, b)) + 1000}") as s:
            c = s.connect()
            c.request("POST", "/v1/completions", b'{"model": "a", "prompt": "x", "temperature": 0,'
                      b' "max_tokens": 1500, "stream": true}')
            r = c.getresponse()
            for _ in range(5):
                d = s.connect()
                d.request("POST", "/v1/completions", b'{"model": "b", "prompt": "x"}')
                d.close()
            r.read()
            c.close()
            self.assertEqual(s.chat(model="a", **SHORT)["model"], "a")

    def test_saved_sessions_of_each_model(self):
        folder = self.path("cache")
        with self.serve("--cache-dir", folder) as s:
            for name in "ab":
                s.chat(model=name, messages=[{"role": "user", "content": "hello world " * 40}],
                       max_tokens=4)
        self.assertEqual(len(os.listdir(folder)), 2)
        with self.serve("--cache-dir", folder) as s:
            for name in "ab":
                got = s.chat(model=name, messages=[{"role": "user",
                                                    "content": "hello world " * 40}], max_tokens=4)
                self.assertGreater(got["usage"]["prompt_tokens_details"]["cached_tokens"], 40)


if __name__ == "__main__":
    main()
