"""The configuration file of tuffet serve."""
import os
import shutil
import signal
import threading

from program import Case, main, wait_until
from test_serve import HELLO, ZEPHYR, Server

SHORT = {"max_tokens": 6, "temperature": 0}


class Config(Case):
    def setUp(self):
        super().setUp()
        self.a = self.toy(template=ZEPHYR, endless=1, ctx=9000, seed=1)
        self.b = self.toy(template=ZEPHYR, endless=1, ctx=2000, seed=2)

    def config(self, text):
        return self.write("serve.ini", text.format(a=self.a, b=self.b).encode())

    def serve(self, text, *args):
        return Server("--config", self.config(text), *args)

    def names(self, s):
        return [m["id"] for m in s.ask("/v1/models")[2]["data"]]

    def end(self, s):
        """Ends the server, and returns its lines of errors."""
        s.process.send_signal(signal.SIGTERM)
        err = s.process.communicate()[1].decode()
        self.assertEqual(s.process.returncode, 0, err)
        return err

    def test_models_and_options(self):
        with self.serve("# a server\n[serve]\ntemp = 0\ntokens = 5\nslots = 2\n"
                        "[model one]\npath = {a}\nalias = gpt\nalias = \"claude\"\nctx = 300\n"
                        "slots = 1\nkv = f16\n[model two]\npath = {b}\n") as s:
            self.assertEqual(self.names(s), ["one", "two"])
            first = s.answer("/v1/completions", prompt="hello")
            self.assertEqual((first["model"], first["usage"]["completion_tokens"]), ("one", 5))
            for name in "gpt", "claude", "one":
                got = s.answer("/v1/completions", prompt="hello", model=name)
                self.assertEqual(got["choices"][0]["text"], first["choices"][0]["text"])
            other = s.answer("/v1/completions", prompt="hello", model="two")
            self.assertNotEqual(other["choices"][0]["text"], first["choices"][0]["text"])
            sizes = {m["id"]: m["meta"]["n_ctx"] for m in s.ask("/v1/models")[2]["data"]}
            self.assertEqual(sizes["one"], 300)
            self.assertGreater(sizes["two"], 300)
            slots = [len(s.ask("/slots?model=" + name)[2]) for name in ("one", "two")]
            self.assertEqual(slots, [1, 2])
            props = [s.ask("/props?model=" + name)[2]["total_slots"] for name in ("one", "two")]
            self.assertEqual(props, [1, 2])

    def test_the_command_line_counts_more(self):
        with self.serve("[serve]\ntokens = 5\ntemp = 0\n[model one]\npath = {a}\n", "-n3",
                        f"mine={self.b}") as s:
            self.assertEqual(self.names(s), ["mine", "one"])
            got = s.answer("/v1/completions", prompt="hello", model="one")
            self.assertEqual(got["usage"]["completion_tokens"], 3)

    def test_a_byte_order_mark(self):
        keys = self.write("keys", b"\xef\xbb\xbfann:one\n")
        with self.serve("\ufeff[model one]\npath = {a}\n", "--api-key-file", keys) as s:
            body = b'\xef\xbb\xbf{"prompt": "x", "max_tokens": 3}'
            self.assertEqual(s.ask("/v1/completions", body, X_Api_Key="one")[0], 200)

    def test_wrong_files(self):
        keys = self.write("keys", b"ann:one\n")
        model = "[model one]\npath = {a}\n"
        for text, line, why in [
            ("slots = 2\n", 1, "a section, such as [serve], comes before"),
            ("[server]\n", 1, "a section is [serve], [model NAME] or [key NAME]"),
            ("[model]\n", 1, "a section is"),
            ("[model one\n", 1, "a section is a name in brackets"),
            ("[serve]\nmorse = 1\n", 2, 'tuffet serve has no option "morse"'),
            ("[serve]\nslots = many\n", 2, "--slots needs a whole number"),
            ("[serve]\nconfig = x\n", 2, "a file has no further"),
            ("[serve]\nslots\n", 2, "an option is set by NAME = VALUE"),
            (model + "temp = 1\n", 3, 'the section has no option "temp"'),
            (model + "kv = none\n", 3, "none"),
            (model + "slots = 2000\n", 1, "more than 1024 slots"),
            ("\n[model one]\nctx = 5\n", 2, "no path for the model"),
            (model + "\n[model one]\npath = {b}\n", 4, "a section above has the model"),
            (model + "[model two]\npath = {b}\nalias = one\n", 5, "already has the name"),
            (model + "alias = x\nalias = x\n", 4, "already has the name"),
            (model + "alias = x\n[model x]\npath = {b}\n", 4, "a section above has the model"),
            (model + "[key bob]\nrequests = 1\n", 3, '--api-key-file has no key "bob"'),
            (model + "[key ann]\nrequests = x\n", 4, "--requests needs a whole number"),
            (model + "[key ann]\nrequests = 0\n", 4, "a limit is 1 or more"),
            (model + "[key ann]\ntokens-per-minute = 0\n", 4, "a limit is 1 or more"),
            (model + "[key ann]\n[key ann]\n", 4, "a section above has the key"),
            (model + "[key ann]\nmorse = 1\n", 4, 'the section has no option "morse"'),
        ]:
            path = self.config(text)
            said = self.fails("serve", "--config", path, "--api-key-file", keys)
            self.assertIn(f"{path}:{line}: ", said)
            self.assertIn(why, said)
        said = self.fails("serve", f"one={self.b}", "--config", self.config(model), status=2)
        self.assertIn(":1: two models have the name one", said)
        self.assertIn("no model to serve",
                      self.fails("serve", "--config", self.config("[serve]\n")))
        self.assertIn("No such file", self.fails("serve", "--config", self.path("none")))
        if os.path.exists("/dev/zero"):
            self.assertIn("more than 1 MiB, or no end", self.fails("serve", "--config=/dev/zero"))
        self.assertIn("draft goes with one model",
                      self.fails("serve", "--config", self.config(model), "--draft", self.b,
                                 status=2))

    def test_read_again(self):
        copy = self.path("copy.gguf")
        shutil.copy(self.a, copy)
        s = self.serve("[model one]\npath = {a}\n[model two]\npath = {b}\n")
        want = s.chat(model="one", **SHORT)["choices"]
        self.config("[model two]\npath = {b}\n[model three]\npath = " + copy + "\nalias = uno\n")
        s.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.names(s) == ["two", "three"])
        self.assertEqual(s.ask("/v1/chat/completions", {"model": "one", "messages": HELLO})[0], 404)
        self.assertEqual(s.chat(model="three", **SHORT)["choices"], want)
        self.assertEqual(s.chat(model="uno", **SHORT)["choices"], want)
        self.assertEqual(s.chat(**SHORT)["model"], "two")
        for wrong, line, why in [
                ("[model four]\npath = {a}\nmorse = 1\n", 3, "no option"),
                ("[model four]\npath = {a}\n[model four]\npath = {b}\n", 3, "has the model"),
                ("[serve]\nmorse = 1\n", 2, "no option")]:
            self.config(wrong)
            s.process.send_signal(signal.SIGHUP)
            said = s.process.stderr.readline().decode()
            self.assertIn(f"serve.ini:{line}: ", said)
            self.assertIn(why, said)
            self.assertIn("stay as they were", s.process.stderr.readline().decode())
            self.assertEqual(self.names(s), ["two", "three"])
        self.config("[model four]\npath = no-such.gguf\n")
        s.process.send_signal(signal.SIGHUP)
        self.assertIn("no-such.gguf", s.process.stderr.readline().decode())
        self.assertIn("stay as they were", s.process.stderr.readline().decode())
        self.config("[serve]\nslots = 4\n")
        s.process.send_signal(signal.SIGHUP)
        self.assertIn("there is no model", s.process.stderr.readline().decode())
        self.assertIn("stay as they were", s.process.stderr.readline().decode())
        self.assertEqual(s.chat(model="three", **SHORT)["choices"], want)
        self.assertEqual(self.end(s), "")

    def test_lines_of_serve_that_changed(self):
        model = "[model one]\npath = {a}\n"
        s = self.serve("[serve]\nslots = 2\ntemp = 0\ntokens = 5\ntop-k = 9\n" + model,
                       "--top-k=3")
        self.config("[serve]\ntemp = 0\nslots = 3\ntop-k = 8\n" + model + "alias = uno\n")
        s.process.send_signal(signal.SIGHUP)
        said = [s.process.stderr.readline().decode() for _ in range(2)]
        self.assertIn("serve.ini:3: slots counts when the server starts again", said[0])
        self.assertIn("without tokens = 5", said[1])
        self.assertEqual(s.chat(model="uno", **SHORT)["model"], "one")
        self.assertEqual(self.end(s), "")

    def test_a_file_that_was_replaced(self):
        copy = self.path("copy.gguf")
        shutil.copy(self.a, copy)
        os.utime(copy, (1, 1))
        text = "[model one]\npath = " + copy + "\n[model two]\npath = {b}\n"
        with self.serve(text) as s:
            first = s.chat(model="one", **SHORT)["choices"]
            want = s.chat(model="two", **SHORT)["choices"]
            self.assertNotEqual(first, want)
            shutil.copy(self.b, copy + ".new")
            os.utime(copy + ".new", (1, 1))  # its time says nothing
            os.rename(copy + ".new", copy)
            self.assertEqual(s.chat(model="one", **SHORT)["choices"], first)
            s.process.send_signal(signal.SIGHUP)
            wait_until(lambda: s.chat(model="one", **SHORT)["choices"] == want)

    def test_two_sections_of_one_file(self):
        folder = self.path("cache")
        shutil.rmtree(folder, ignore_errors=True)
        text = ("[serve]\ncache-dir = " + folder + "\n[model one]\npath = {a}\n"
                "[model other]\npath = {a}\nkv = f16\n")
        with self.serve(text) as s:
            for model in "one", "other":
                s.chat(model=model, **SHORT)
        self.assertEqual(sorted(len(os.listdir(os.path.join(folder, f)))
                                for f in os.listdir(folder)), [1, 1])

    def test_an_answer_goes_on_when_its_model_leaves(self):
        s = self.serve("[model one]\npath = {a}\n[model two]\npath = {b}\n")
        c = s.connect()
        c.request("POST", "/v1/completions", b'{"model": "one", "prompt": "x", "temperature": 0,'
                  b' "max_tokens": 8000, "stream": true}')
        r = c.getresponse()
        r.readline()
        for ctx in 100, 200, 300:  # each time another model of the name
            self.config("[model two]\npath = {b}\n[model one]\npath = {a}\n" + f"ctx = {ctx}\n")
            s.process.send_signal(signal.SIGHUP)
            wait_until(lambda: s.ask("/v1/models/one")[2]["status"]["value"] == "unloaded")
            s.chat(model="one", **SHORT)
            wait_until(lambda: s.ask("/v1/models/one")[2]["meta"]["n_ctx"] == ctx)
        self.assertTrue(r.read().endswith(b"data: [DONE]\n\n"))
        c.close()
        self.assertEqual(self.end(s), "")

    def test_requests_at_once(self):
        keys = self.write("keys", b"ann:one\nbob:two\n")
        text = "[serve]\napi-key-file = " + keys + "\n[model a]\npath = {a}\n"
        with self.serve(text + "[key ann]\nrequests = 1\n") as s:
            def ask(key, **more):
                return s.ask("/v1/completions", {"prompt": "x", "max_tokens": 3, **more},
                             Authorization="Bearer " + key)
            self.assertEqual(ask("one")[0], 200)
            c = s.connect()
            c.request("POST", "/v1/completions", b'{"prompt": "x", "max_tokens": 1500,'
                      b' "stream": true}', {"Authorization": "Bearer one"})
            r = c.getresponse()
            r.readline()
            status, headers, got = ask("one")
            self.assertEqual((status, headers["Retry-After"]), (429, "1"))
            self.assertIn("1 requests at once", got["error"]["message"])
            self.assertEqual(ask("two")[0], 200)
            self.assertEqual(s.ask("/v1/models", Authorization="Bearer one")[0], 200)
            r.read()
            c.close()
            wait_until(lambda: ask("one")[0] == 200)

    def test_tokens_of_a_minute(self):
        keys = self.write("keys", b"ann:one\nbob:two\n")
        text = "[serve]\napi-key-file = " + keys + "\n[model a]\npath = {a}\n"
        s = self.serve(text + "[key ann]\ntokens-per-minute = 60\n")

        def ask(key):
            return s.ask("/v1/messages", {"messages": HELLO, "max_tokens": 300},
                         X_Api_Key=key)
        self.assertEqual(ask("one")[0], 200)
        status, headers, got = ask("one")
        self.assertEqual((status, got["error"]["type"]), (429, "rate_limit_error"))
        self.assertIn("60 tokens a minute", got["error"]["message"])
        self.assertTrue(200 < int(headers["Retry-After"]) < 400, headers["Retry-After"])
        self.assertEqual([ask("two")[0] for _ in range(3)], [200] * 3)
        # the file read again: the rest stays, and a key without limits has none
        s.process.send_signal(signal.SIGHUP)
        self.assertEqual(ask("one")[0], 429)
        self.config(text)
        s.process.send_signal(signal.SIGHUP)
        wait_until(lambda: ask("one")[0] == 200)
        self.assertEqual(self.end(s), "")

    def test_a_removed_key_ends_at_once(self):
        """Also where the file of models and limits is wrong, since it still names the key."""
        keys = self.write("keys", b"ann:one\nbob:two\n")
        s = self.serve("[model one]\npath = {a}\n[key ann]\nrequests = 1\n",
                       "--api-key-file", keys)

        def status(key):
            return s.ask("/v1/models", Authorization="Bearer " + key)[0]

        self.assertEqual((status("one"), status("two")), (200, 200))
        self.write("keys", b"bob:two\ncat:three\n")
        s.process.send_signal(signal.SIGHUP)
        self.assertIn('no key "ann"', s.process.stderr.readline().decode())
        self.assertIn("but for removed keys", s.process.stderr.readline().decode())
        self.assertEqual([status(key) for key in ("one", "two", "three")], [401, 200, 401])
        self.assertEqual(self.end(s), "")

    def test_reloads_while_clients_ask(self):
        s = self.serve("[model one]\npath = {a}\n[model two]\npath = {b}\n")
        want = {name: s.chat(model=name, **SHORT)["choices"] for name in ("one", "two")}
        wrong, right, stop = [], set(), threading.Event()

        def talk(name):
            while not stop.is_set():
                try:
                    status, _, got = s.ask("/v1/chat/completions", {
                        "model": name, "messages": HELLO, "seed": 1, **SHORT})
                except Exception as e:  # pylint: disable=broad-except
                    wrong.append(e)
                    return
                if status not in (404, 503) and got.get("choices") != want[name]:
                    wrong.append((status, got))
                elif status == 200:
                    right.add(name)
        threads = [threading.Thread(target=talk, args=[name]) for name in ("one", "two") * 2]
        for t in threads:
            t.start()
        for i in range(12):
            self.config("[model one]\npath = {a}\n" + f"ctx = {200 + i}\n" +
                        ("[model two]\npath = {b}\n" if i % 2 else ""))
            s.process.send_signal(signal.SIGHUP)
            wait_until(lambda: len(self.names(s)) == 1 + i % 2)
        stop.set()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertEqual(right, {"one", "two"})
        self.assertEqual(self.end(s), "")


if __name__ == "__main__":
    main()
