"""Keys with names, and the log of requests, in tuffet serve."""
import json
import os
import signal

from program import Case, main, wait_until
from test_serve import ZEPHYR, Server


class Log(Case):
    def setUp(self):
        super().setUp()
        self.model = self.toy(template=ZEPHYR, endless=1, ctx=2000)
        self.log = self.path("log")
        if os.path.exists(self.log):
            os.remove(self.log)

    def lines(self):
        return self.read(self.log).decode().splitlines()

    def wait_for_lines(self, n):
        wait_until(lambda: len(self.lines()) >= n)
        self.assertEqual(len(self.lines()), n)
        return self.lines()

    def test_json(self):
        keys = self.write("keys", b"ann:secret-1\nbob:secret-2\n")
        with Server(self.model, "--log=json", "--log-file", self.log, "--api-key-file", keys) as s:
            ann, bob = {"Authorization": "Bearer secret-1"}, {"X-Api-Key": "secret-2"}
            body = {"messages": [{"role": "user", "content": "a private matter"}], "max_tokens": 5}
            _, _, chat = s.ask("/v1/chat/completions", body, **ann)
            s.ask("/v1/completions", {"prompt": "private", "max_tokens": 7, "stream": True}, **bob)
            s.ask("/api/chat", {**body, "stream": False, "max_tokens": 3}, **ann)
            s.ask("/v1/messages", body, **ann)
            s.ask("/v1/embeddings", {"input": "private"}, **ann)
            s.ask("/v1/completions", {"prompt": 3}, **ann)
            s.ask("/v1/models")
            s.ask("/health?private=1")
            got = [json.loads(line) for line in self.wait_for_lines(8)]
        name = chat["model"]
        want = [("POST", "/v1/chat/completions", 200, name, "ann", 5),
                ("POST", "/v1/completions", 200, name, "bob", 7),
                ("POST", "/api/chat", 200, name, "ann", 3),
                ("POST", "/v1/messages", 200, name, "ann", 5),
                ("POST", "/v1/embeddings", 200, name, "ann", 0),
                ("POST", "/v1/completions", 400, name, "ann", 0),
                ("GET", "/v1/models", 401, None, None, 0),
                ("GET", "/health", 200, None, None, 0)]
        self.assertEqual([(g["method"], g["path"], g["status"], g["model"], g["key"],
                           g["answer_tokens"]) for g in got], want)
        self.assertEqual(got[0]["prompt_tokens"], chat["usage"]["prompt_tokens"])
        self.assertGreater(got[4]["prompt_tokens"], 0)
        for g in got:
            self.assertRegex(g["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            self.assertGreater(g["ms"], 0)
        text = self.read(self.log)
        self.assertNotIn(b"private", text)
        self.assertNotIn(b"secret", text)

    def test_all_answers_count_when_the_client_goes(self):
        with Server(self.model, "--log=json", "--log-file", self.log, "--slots=2") as s:
            c = s.connect()
            c.request("POST", "/v1/completions", json.dumps({
                "prompt": "a", "max_tokens": 1900, "n": 2, "stream": True}))
            seen, r = set(), c.getresponse()
            while len(seen) < 2:
                line = r.readline()
                if line.startswith(b"data: "):
                    seen.add(json.loads(line[6:])["choices"][0]["index"])
            r.close()
            c.close()
            got = json.loads(self.wait_for_lines(1)[0])
            made = int(s.metrics()["tokens_predicted_total"])
        self.assertEqual(got["answer_tokens"], made)
        self.assertGreater(got["prompt_tokens"], 0)

    def test_text(self):
        s = Server(self.model, "--log=text")
        s.chat(max_tokens=3)
        s.raw(b"GET /\x7f%0A%20x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        s.process.send_signal(signal.SIGTERM)
        lines = s.process.communicate()[1].decode().splitlines()
        self.assertEqual(s.process.returncode, 0)
        self.assertRegex(lines[0], r"^\d{4}-\S+Z POST /v1/chat/completions 200 model=\S+ "
                                   r"prompt=\d+ answer=3 ms=\d+\.\d$")
        for line in lines:
            self.assertRegex(line, r"^\S+Z [A-Z]+ \S+ \d{3}( \S+=\S+)+$")

    def test_keys_are_read_again(self):
        keys = self.write("keys", b"ann:one\n")
        s = Server(self.model, "--api-key-file", keys, "--api-key=main", "--log=text",
                   "--log-file", self.log)

        def status(key):
            return s.ask("/v1/models", Authorization="Bearer " + key)[0]

        self.assertEqual([status(k) for k in ("one", "two", "main", "ann", "")],
                         [200, 401, 200, 401, 401])
        self.write("keys", b"ann:two\n")
        os.rename(self.log, self.log + ".old")
        s.process.send_signal(signal.SIGHUP)
        wait_until(lambda: status("two") == 200)
        self.assertEqual((status("one"), status("main")), (401, 200))
        self.assertIn("key=ann", self.lines()[-3])
        self.write("keys", b"ann:three\nann:four\n")
        s.process.send_signal(signal.SIGHUP)
        error = s.process.stderr.readline()
        self.assertIn(b"line 2: a line above has this name", error)
        self.assertIn(b"the models and keys stay as they were", s.process.stderr.readline())
        self.assertEqual((status("two"), status("three")), (200, 401))
        s.process.send_signal(signal.SIGTERM)
        self.assertEqual(s.process.communicate()[1], b"")
        self.assertEqual(s.process.returncode, 0)

    def test_an_answer_goes_on_while_keys_are_read(self):
        keys = self.write("keys", b"ann:one\n")
        with Server(self.model, "--api-key-file", keys) as s:
            c = s.connect()
            c.request("POST", "/v1/completions",
                      b'{"prompt": "x", "max_tokens": 1200, "stream": true}',
                      {"Authorization": "Bearer one"})
            r = c.getresponse()
            self.write("keys", b"bob:two\n")
            s.process.send_signal(signal.SIGHUP)
            wait_until(lambda: s.ask("/v1/models", Authorization="Bearer two")[0] == 200)
            self.assertTrue(r.read().endswith(b"data: [DONE]\n\n"))
            c.close()

    def test_wrong_files(self):
        for text, why in [(b"", "there is no key"), (b"a:b\nc", "line 2: "),
                          (b"a:b\xff", "line 1: ")]:
            keys = self.write("wrong", text)
            self.assertIn(why, self.fails("serve", self.model, "--api-key-file", keys))
        self.assertIn("No such file", self.fails("serve", self.model, "--api-key-file=/no/such"))
        self.assertIn("No such file", self.fails("serve", self.model, "--log=text",
                                                 "--log-file=/no/such"))
        self.assertIn("--log text or json", self.fails("serve", self.model, "--log-file=x",
                                                       status=2))


if __name__ == "__main__":
    main()
