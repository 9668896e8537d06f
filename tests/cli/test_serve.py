"""tuffet serve"""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

from program import PATIENCE, TUFFET, Case, main, wait_until

ZEPHYR = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content ~ eos_token + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
HELLO = [{"role": "user", "content": "hello"}]
ENDLESS = 200000  # tokens of context: an answer that fills it takes many minutes


class Server:
    """A server at a port of its own, until `with` ends. It is killed if the test fails."""

    def __init__(self, *args):
        self.process = subprocess.Popen([*TUFFET, "serve", *args, "--port=0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline().decode()
        if not line.startswith("http://"):
            raise AssertionError(line + self.process.communicate()[1].decode())
        self.host, port = line.strip().removeprefix("http://").rsplit(":", 1)
        self.port = int(port)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM if kind is None else signal.SIGKILL)
        try:
            self.out, self.err = self.process.communicate(timeout=PATIENCE)
        finally:
            self.process.kill()
        if kind is None and (self.process.returncode or self.err):
            raise AssertionError((self.process.returncode, self.err))

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)

    def ask(self, path, body=None, method=None, **headers):
        """The status, the headers and the body, which is JSON if it can be."""
        c = self.connect()
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        c.request(method or ("GET" if data is None else "POST"), path, data,
                  {name.replace("_", "-"): value for name, value in headers.items()})
        r = c.getresponse()
        text = r.read()
        c.close()
        try:
            return r.status, r.headers, json.loads(text)
        except ValueError:
            return r.status, r.headers, text

    def answer(self, path="/v1/chat/completions", **body):
        status, _, answer = self.ask(path, body)
        if status != 200:
            raise AssertionError((status, answer))
        return answer

    def chat(self, **body):
        return self.answer(**{"messages": HELLO, "seed": 1, "max_tokens": 8, **body})

    def stream(self, path="/v1/chat/completions", **body):
        """The parts of a stream, which must end as it should."""
        c = self.connect()
        c.request("POST", path, json.dumps({"stream": True, **body}))
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        kind = r.headers["Content-Type"]
        assert r.status == 200 and kind == "text/event-stream", (r.status, kind, text)
        parts = [part for part in text.split("\n\n") if not part.startswith(":")]
        assert parts[-2:] == ["data: [DONE]", ""], text[-2000:]
        return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]

    def events(self, path, **body):
        """The events of a stream that has names for them: each is the `type` of its data."""
        c = self.connect()
        c.request("POST", path, json.dumps({"stream": True, **body}))
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        kind = r.headers["Content-Type"]
        assert r.status == 200 and kind == "text/event-stream", (r.status, kind, text)
        events = []
        for event in text.split("\n\n")[:-1]:
            if not event.startswith(":"):
                name, data = event.split("\n")
                events.append(json.loads(data.removeprefix("data: ")))
                assert name == "event: " + events[-1]["type"], event
        return events

    def raw(self, data, until=None, ends=False):
        """What comes back for these bytes, up to the text `until` or to the end of the connection.
        ends: the client closes its side."""
        got = b""
        with socket.create_connection((self.host, self.port), timeout=PATIENCE) as s:
            try:
                s.sendall(data)
                if ends:
                    s.shutdown(socket.SHUT_WR)
                while (until is None or until not in got) and (more := s.recv(65536)):
                    got += more
            except ConnectionError:  # the server has not read all
                pass
        return got

    def metrics(self):
        text = self.ask("/metrics")[2].decode()
        return {name: float(x) for name, x in re.findall(r"(?m)^tuffet:(\w+) (\S+)$", text)}

    def requests(self):
        """How many are under way, and how many wait."""
        m = self.metrics()
        return m["requests_processing"], m["requests_deferred"]

    def wait_for(self, running, waiting=0):
        wait_until(lambda: self.requests() == (running, waiting))

    def send_first_signal(self):
        """SIGTERM. Returns when the server has it: then a reply closes its connection."""
        c = self.connect()

        def closes():
            c.request("GET", "/health")
            r = c.getresponse()
            r.read()
            return r.headers["Connection"] == "close"
        closes()
        self.process.send_signal(signal.SIGTERM)
        wait_until(closes)
        c.close()


class Serve(Case):
    def endless(self, **settings):
        return self.toy(**{"template": ZEPHYR, "endless": 1, "ctx": 2000, **settings})

    def test_a_chat(self):
        toy = self.toy(template=ZEPHYR)
        with Server(toy) as s:
            self.assertEqual(s.ask("/health")[2], {"status": "ok"})
            models = s.ask("/v1/models")[2]
            name = os.path.basename(toy).removesuffix(".gguf")
            self.assertEqual([m["id"] for m in models["data"]], [name])
            self.assertEqual(s.ask(f"/v1/models/{name}")[2], models["data"][0])
            status, _, answer = s.ask("/v1/models/other")
            self.assertEqual((status, answer["error"]["type"]), (404, "not_found_error"))
            got = s.chat(max_tokens=20)
            self.assertEqual((got["object"], got["model"]), ("chat.completion", name))
            want = self.json("chat", toy, "-phello", "-s1", "-n20")
            (choice,) = got["choices"]
            self.assertEqual(choice["message"], {"role": "assistant", "content": want["content"]})
            self.assertEqual(choice["finish_reason"],
                             {"end": "stop", "length": "length"}[want["stop"]])
            self.assertEqual(got["usage"]["completion_tokens"], want["tokens"])
            self.assertEqual(got["usage"]["total_tokens"],
                             got["usage"]["prompt_tokens"] + want["tokens"])

    def test_a_prefix_of_the_template_s_first_tokens(self):
        """They count as tokens that were there, and are not fed again."""
        toy, made = self.toy(template=CHATML, vocab="gpt2", endless=1, ctx=600), self.path("held")
        self.json("quantize", toy, "-o", made, "--intact-text=<|im_start|>", "--dynamic=none",
                  "--calib", self.write("text", b"hello world, once upon a time. " * 90))
        ids = self.json("tokenize", made, "--special", "-p", "<|im_start|>user\nhello<|im_end|>\n"
                        "<|im_start|>assistant\n")["tokens"]
        with Server(made) as s:
            got = s.chat(max_tokens=9, temperature=0)
        want = self.json("chat", made, "-phello", "--temp=0", "-n9")["content"]
        self.assertEqual(got["choices"][0]["message"]["content"], want)
        self.assertEqual(got["usage"]["prompt_tokens"], len(ids))
        self.assertEqual(got["usage"]["prompt_tokens_details"]["cached_tokens"], 1)

    def test_guesses_change_nothing_but_time(self):
        toy, prompts = self.endless(), ["hello hello " * 9, "hello world " * 9, "hello hello " * 12]
        answers = []
        for guesses in ["--lookup=0"], ["--lookup=14"], ["--draft", toy]:
            with Server(toy, *guesses, "--slots=2") as s:
                answers.append([s.answer("/v1/completions", prompt=p, temperature=t, seed=1,
                                         max_tokens=40)["choices"][0]["text"]
                                for p in prompts for t in (0, 0.5)])
        self.assertEqual(answers[1:], answers[:1] * 2)

    def test_a_completion(self):
        toy = self.endless()
        with Server(toy) as s:
            for seed in range(3):
                got = s.answer("/v1/completions", prompt="hello", seed=seed, max_tokens=30)
                want = self.json("run", toy, "-phello", "-n30", "-s", str(seed))
                self.assertEqual(got["choices"][0]["text"], want["text"])
                self.assertEqual(got["choices"][0]["finish_reason"], "length")
            for prompt in ["hello", ["hello"]]:
                again = s.answer("/v1/completions", prompt=prompt, seed=2, max_tokens=30, echo=True)
                self.assertEqual(again["choices"][0]["text"], "hello" + want["text"])
            full = s.answer("/v1/completions", prompt="hello", max_tokens=-1)
            # the last one is not fed
            self.assertEqual((full["choices"][0]["finish_reason"], full["usage"]["total_tokens"]),
                             ("length", 2001))

    def test_a_stream_is_the_same_text(self):
        with Server(self.endless()) as s:
            whole = s.chat(max_tokens=40)
            parts = s.stream(messages=HELLO, seed=1, max_tokens=40,
                             stream_options={"include_usage": True})
            first, *rest, end, usage = parts
            self.assertEqual(len({part["id"] for part in parts}), 1)
            self.assertEqual(first["choices"][0]["delta"], {"role": "assistant", "content": None})
            pieces = [part["choices"][0]["delta"]["content"] for part in rest]
            self.assertTrue(all(pieces))
            self.assertEqual("".join(pieces), whole["choices"][0]["message"]["content"])
            self.assertEqual((end["choices"][0]["delta"], end["choices"][0]["finish_reason"]),
                             ({}, "length"))
            self.assertEqual(usage["choices"], [])
            self.assertEqual(usage["usage"]["completion_tokens"], 40)
            self.assertNotIn("usage", s.stream(messages=HELLO, max_tokens=3)[-1])

    def test_errors(self):
        with Server(self.endless(), "--ctx=100") as s:
            def fails(status, kind, path="/v1/chat/completions", body=None, **more):
                got, _, answer = s.ask(path, body, **more)
                self.assertEqual((got, answer["error"]["code"], answer["error"]["type"]),
                                 (status, status, kind), answer)
                return answer["error"]
            bad = [b"", b"{", b"[]", b"\xff", b'{"messages": "\xff"}', b"[" * 100000,
                   b'{"a":' * 100000, {}, {"messages": []}, {"messages": [3]},
                   {"messages": [{"role": "none", "content": ""}]},
                   {"messages": [{"role": "user"}]},
                   {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}]
            bad += [{"messages": HELLO, **wrong} for wrong in [
                {"temperature": -1}, {"temperature": "hot"}, {"top_p": 2}, {"seed": 1.5},
                {"max_tokens": -3}, {"n": 9}, {"stop": [1]}, {"stop": ["x"] * 17}, {"stop": "\0"},
                {"stop": ["x", "a\0b"]}, {"stream": 1},
                {"top_logprobs": 21}, {"logit_bias": 1}, {"logit_bias": {"x": 1}},
                {"logit_bias": {"420": 1}}, {"logit_bias": [[1, "x"]]}, {"presence_penalty": 3},
                {"response_format": {"type": "xml"}},
                {"response_format": {"type": "json_schema"}}, {"tools": [{"type": "function"}]},
                {"grammar": "root ::= ("}]]
            for body in bad:
                fails(400, "invalid_request_error", body=body)
            fails(501, "not_supported_error", body={"messages": HELLO, "tfs_z": 0.5})
            fails(501, "not_supported_error", body={"messages": HELLO, "mirostat": 1})
            for kind in ["\u00e9" * 300, "x" + "\u00e9" * 300]: # the message is cut
                parts = [{"role": "user", "content": [{"type": kind, "text": 1}]}]
                self.assertIn(kind[:50], fails(400, "invalid_request_error",
                                               body={"messages": parts})["message"])
            # values take memory, commas within a string do not
            many = {"prompt": "a", "max_tokens": 1, "metadata": [{}] * 300000}
            self.assertIn("values", fails(400, "invalid_request_error", "/v1/completions",
                                          many)["message"])
            for text in [",[{" * 300000, '",' * 300000, '\\",' * 300000, "\\" * 300001]:
                self.assertEqual(s.ask("/v1/completions", {**many, "metadata": text})[0], 200)
            full = fails(400, "exceed_context_size_error", "/v1/completions", {"prompt": "x" * 99})
            self.assertEqual((full["n_prompt_tokens"], full["n_ctx"]), (101, 100))
            fails(404, "not_found_error", "/nothing")
            fails(405, "invalid_request_error", "/v1/chat/completions")
            self.assertIn("reranker", fails(501, "not_supported_error", "/v1/rerank",
                                            {})["message"])
            self.assertEqual(s.chat()["usage"]["completion_tokens"], 8)

    def test_parameters(self):
        """Each row of the table: accepted whatever its value, or refused but for values without
        effect."""
        source = pathlib.Path(__file__).parents[2] / "tools/serve/parameters.c"
        rows = re.findall(r'^    \{"([\w.]+)", ([\w |]+), (\w+), (NULL|".*")\},',
                          source.read_text(), re.MULTILINE)
        apis = {"API_OPTIONS": ("API_OPTIONS",), "API_EMBED": ("API_EMBED",),
                "generate": ("ALL", "ANSWERS", "OLLAMA")}
        any_value, empty = {"num_gpu": 1}, [0, 0.0, False, "", [], {}]
        with Server(self.endless()) as s:
            def ask(api, members):
                if api == "API_EMBED":
                    return s.ask("/v1/embeddings", {"input": "x", **members})
                options = {"num_predict": 1, **(members if api == "API_OPTIONS" else {})}
                return s.ask("/api/generate", {"prompt": "x", "raw": True, "stream": False,
                                               "options": options,
                                               **(members if api == "generate" else {})})
            for api, masks in apis.items():
                of = lambda meaning: {name: idle for name, mask, what, idle in rows
                                      if mask in masks and what == meaning}
                self.assertEqual(ask(api, dict.fromkeys(of("ACCEPTED"), any_value))[0], 200)
                for name, idle in of("REFUSED").items():
                    status, _, answer = ask(api, {name: any_value})
                    error = answer["error"]
                    self.assertEqual(status, 501, name)
                    self.assertIn(f"{name} is not supported",
                                  error if isinstance(error, str) else error["message"])
                    for value in [None, *(empty if idle == "NULL" else
                                          map(json.loads, json.loads(idle).split()))]:
                        status, _, answer = ask(api, {name: value})
                        self.assertEqual(status, 200, (name, value, answer))

    def test_an_unknown_parameter_is_said_once(self):
        s = Server(self.endless())
        with self.assertRaises(AssertionError), s:
            for name in "no_such_thing", "other\x1b[2J", "no_such_thing":
                s.chat(max_tokens=1, **{name: 1})
            s.answer("/tokenize", content="a", of_text=1, model="any")
            s.answer("/detokenize", tokens=[], of_tokens=1)
        self.assertEqual(s.err.decode().splitlines(), [
            f"tuffet: unknown parameter {name} of a request is ignored"
            for name in ("no_such_thing", "other\\x1b[2J", "of_text", "of_tokens")])

    def test_no_tokens(self):
        with Server(self.endless()) as s:
            (choice,) = s.chat(max_tokens=0)["choices"]
            self.assertEqual((choice["message"]["content"], choice["finish_reason"]),
                             ("", "length"))
            for path, name in [("/v1/completions", "max_tokens"), ("/completion", "n_predict"),
                               ("/completion", "max_tokens")]:
                got = s.answer(path, prompt="hello", **{name: 0})
                one = got["choices"][0]["text"] if "choices" in got else got["content"]
                self.assertEqual(one, "", (path, name))
            *_, end = s.stream(messages=HELLO, max_completion_tokens=0)
            self.assertEqual((end["choices"][0]["delta"], end["choices"][0]["finish_reason"]),
                             ({}, "length"))
            # the next answer of the slot is that of a fresh one
            for path in "/v1/completions", "/completion":
                again = s.answer(path, prompt="hello", max_tokens=9, temperature=0)
                text = again["choices"][0]["text"] if "choices" in again else again["content"]
                self.assertEqual(text, self.json("run", self.endless(), "-phello", "-n9",
                                                 "--temp=0")["text"])

    def test_values_that_switch_off(self):
        body = {"prompt": "hello hello hello", "max_tokens": 20, "seed": 3}
        with Server(self.endless()) as s:
            text = lambda **more: s.answer("/v1/completions", **body, **more)["choices"][0]["text"]
            greedy = text(temperature=0)
            self.assertEqual(text(temperature=3, top_p=0), greedy)
            self.assertNotEqual(text(temperature=3), greedy)
            hard = {"temperature": 0, "repeat_penalty": 3}
            self.assertNotEqual(text(**hard), greedy)
            self.assertEqual(text(**hard, repeat_last_n=0), greedy)
            self.assertEqual(text(**hard, repeat_last_n=-1), text(**hard, repeat_last_n=10000))
            self.assertNotEqual(text(**hard, repeat_last_n=-1), text(**hard, repeat_last_n=1))

    def test_options_that_switch_off(self):
        """What a request does not say, the options of the program say."""
        body = {"prompt": "hello hello hello", "max_tokens": 20, "seed": 3}
        hard = {"temperature": 0, "repeat_penalty": 3}
        with Server(self.endless(), "--top-p=0", "--temp=3", "--repeat-last=0") as s:
            text = lambda **more: s.answer("/v1/completions", **body, **more)["choices"][0]["text"]
            defaults = s.ask("/props")[2]["default_generation_settings"]["params"]
            self.assertEqual((defaults["top_p"], defaults["repeat_last_n"]), (0, 0))
            greedy = text(temperature=0)
            self.assertEqual(text(), greedy)
            self.assertNotEqual(text(top_p=1), greedy)
            self.assertEqual(text(**hard), greedy)
            self.assertNotEqual(text(**hard, repeat_last_n=64), greedy)
        with Server(self.endless(), "--repeat-last=-1") as s:
            defaults = s.ask("/props")[2]["default_generation_settings"]["params"]
            self.assertEqual(defaults["repeat_last_n"], -1)
            self.assertEqual(text(**hard), text(**hard, repeat_last_n=-1))

    def test_variables_of_the_template(self):
        thinks = ZEPHYR + "{% if enable_thinking %}t{% endif %}{{ reasoning_effort }}"
        with Server(self.endless(template=thinks)) as s:
            def count(**more):
                return s.chat(max_tokens=1, **more)["usage"]["prompt_tokens"]
            plain = count()
            for name, value in [("enable_thinking", True), ("reasoning_effort", "high")]:
                want = count(chat_template_kwargs={name: value})
                self.assertGreater(want, plain)
                self.assertEqual(count(**{name: value}), want)
                self.assertEqual(count(**{name: value}, chat_template_kwargs={"x": 1}), want)
            self.assertEqual(count(enable_thinking=True,
                                   chat_template_kwargs={"enable_thinking": False}), plain)

    def test_numbers_as_clients_write_them(self):
        """4.0 is the integer 4, and integers may have more than 64 bits."""
        with Server(self.endless()) as s:
            want = s.chat(max_tokens=4, top_k=3, n=2)["choices"]
            self.assertEqual(s.chat(max_tokens=4.0, top_k=3.0, n=2.0, seed=1.0)["choices"], want)
            for wrong in {"max_tokens": 4.5}, {"seed": 2.0 ** 63}, {"top_k": "4"}:
                self.assertEqual(s.ask("/v1/chat/completions", {"messages": HELLO, **wrong})[0],
                                 400, wrong)
            ids = s.answer("/tokenize", content="hello", add_special=True)["tokens"]
            floats = [float(i) for i in ids]
            for path, name in [("/v1/completions", "prompt"), ("/completion", "prompt"),
                               ("/detokenize", "tokens"), ("/embedding", "content")]:
                body = {"temperature": 0} if name == "prompt" else {}
                whole, same = (s.answer(path, **body, **{name: i}) for i in (ids, floats))
                pick = {"/v1/completions": lambda a: a["choices"],
                        "/completion": lambda a: a["content"]}.get(path, lambda a: a)
                self.assertEqual(pick(same), pick(whole), path)
            self.assertEqual(s.ask("/detokenize", {"tokens": [2.0 ** 32 + ids[0]]})[0], 400)
            for number in 2 ** 63, -2 ** 63 - 2000, 2 ** 64 - 1, 10 ** 40:
                text = f'"{number}, \\\\ \\" {number}"'
                body = '{"messages": [{"role": "user", "content": %s}], "max_tokens": 1, ' \
                       '"metadata": {"x": [%d, %d]}, "seed": %d}'
                ask = lambda seed: s.ask("/v1/chat/completions", (
                    body % (text, number, -number, seed)).encode())
                status, _, answer = ask(2 ** 63 - 1)
                self.assertEqual(status, 200, answer)
                same = s.answer(messages=[{"role": "user", "content": json.loads(text)}],
                                max_tokens=1)
                self.assertEqual(answer["usage"]["prompt_tokens"],
                                 same["usage"]["prompt_tokens"])
                self.assertEqual(ask(number)[0], 400, "not a seed")

    def test_keys_and_origins(self):
        with Server(self.endless(), "--api-key=secret", "--cors=https://a.org") as s:
            self.assertEqual(s.ask("/health")[0], 200)
            for headers in [{}, {"Authorization": "Bearer secre"}, {"X_Api_Key": "secretx"},
                            {"Authorization": "secret"}, {"Authorization": "Bearer "}]:
                self.assertEqual(s.ask("/v1/models", **headers)[0], 401)
            for headers in [{"Authorization": "Bearer secret"}, {"X_Api_Key": "secret"},
                            {"Authorization": "bearer secret"},
                            {"authorization": "BEARER  secret"}]:
                self.assertEqual(s.ask("/v1/models", **headers)[0], 200)
            for wrong in "Basic secret", "Bearersecret", "bearer Secret", "Bearer secret x":
                self.assertEqual(s.ask("/v1/models", Authorization=wrong)[0], 401, wrong)
            status, headers, _ = s.ask("/v1/models", method="OPTIONS", Origin="https://a.org")
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]),
                             (204, "https://a.org"))
            self.assertIn("Authorization", headers["Access-Control-Allow-Headers"])
            self.assertIn("DELETE", headers["Access-Control-Allow-Methods"])
            asked = "authorization,content-type,x-stainless-arch,x-stainless-timeout,x-own"
            headers = s.ask("/v1/chat/completions", method="OPTIONS", Origin="https://a.org",
                            Access_Control_Request_Method="POST",
                            Access_Control_Request_Headers=asked)[1]
            self.assertEqual(headers["Access-Control-Allow-Headers"], asked)
            self.assertNotIn("Access-Control-Allow-Headers", s.ask(
                "/v1/models", method="OPTIONS", Origin="https://b.org",
                Access_Control_Request_Headers=asked)[1])
            self.assertEqual(s.ask("/health", Origin="https://b.org")[0], 403)
            self.assertEqual(s.ask("/health", Origin=f"http://{s.host}:{s.port}")[0], 200)
            # a name that a site has made point to this machine is its own, and so is its origin
            for host, status in [(f"localhost:{s.port}", 200), ("LOCALHOST", 200),
                                 ("[::1]:80", 200), ("127.0.0.1", 200), ("a.org", 200),
                                 ("a.org:81", 200),
                                 ("b.org", 403), (f"b.org:{s.port}", 403), ("127.0.0.1.b.org", 403),
                                 ("localhost.b.org", 403), ("", 403)]:
                self.assertEqual(s.ask("/health", Host=host)[0], status, host)
            self.assertEqual(s.ask("/health", Host="b.org", Origin="http://b.org")[0], 403)
            self.assertEqual(s.ask("/health", Host="a.org", Origin="https://a.org")[0], 200)

    def test_answers_are_the_same_alone_and_beside_others(self):
        asked = [{"messages": [{"role": "user", "content": "once " * (1 + 9 * i)}], "seed": i,
                  "max_tokens": 20 + 5 * i} for i in range(8)]
        said = lambda answer: answer["choices"][0]["message"]["content"]
        with Server(self.endless(), "--slots=1") as s:
            alone = [said(s.answer(**body)) for body in asked]
        for more in [[], ["--slots=8"], ["--slots=3", "--kv=kivi:window=16,group=16"]]:
            with Server(self.endless(), *more) as s:
                if "--kv" in str(more):
                    alone = [said(s.answer(**body)) for body in asked]
                for _ in range(2):
                    got = [None] * 8
                    def one(i):
                        got[i] = said(s.answer(**asked[i]))
                    threads = [threading.Thread(target=one, args=[i]) for i in range(8)]
                    for t in threads:
                        t.start()
                    for t in threads:
                        t.join()
                    self.assertEqual(got, alone)

    def test_a_prompt_is_not_computed_twice(self):
        said = [{"role": "user", "content": "once upon a time " * 20}]
        with Server(self.endless()) as s:
            def chat(messages, **more):
                answer = s.answer(messages=messages, seed=3, max_tokens=9, **more)
                usage = answer["usage"]
                return (answer["choices"][0]["message"], usage["prompt_tokens"],
                        usage["prompt_tokens_details"]["cached_tokens"])
            first, n, cached = chat(said)
            self.assertEqual(cached, 0)
            again, _, cached = chat(said)
            self.assertEqual((again, cached), (first, n - 1))
            # the next turn, and the other conversation that began in the same way
            turn = said + [first, {"role": "user", "content": "hello"}]
            _, _, cached = chat(turn)
            self.assertGreaterEqual(cached, n)
            _, _, cached = chat(said + [{"role": "assistant", "content": "no"}])
            self.assertGreaterEqual(cached, n)
            # choices share their prompt
            more = s.answer(messages=said, seed=3, max_tokens=9, n=3)["choices"]
            self.assertEqual([c["index"] for c in more], [0, 1, 2])
            self.assertEqual(more[0]["message"], first)
            self.assertEqual(more[2]["message"], s.answer(messages=said, seed=5, max_tokens=9)
                             ["choices"][0]["message"])

    def test_a_cache_that_depends_on_the_end_of_the_prompt(self):
        kv = "--kv=kivi:window=16,group=16,bits=1,prefill=prompt"
        text = "once upon a time " * 8
        with Server(self.endless(), kv, "--slots=1") as s:
            for n in [40, 60, 100]:
                answer = s.answer("/v1/completions", prompt=text[:n], seed=1, max_tokens=40)
                self.assertEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
                self.assertEqual(answer["choices"][0]["text"],
                                 self.json("run", self.endless(), kv, "-p", text[:n], "-s1",
                                           "-n40")["text"])

    def test_a_client_that_goes_frees_its_slot(self):
        short = {"prompt": "a", "max_tokens": 3}
        with Server(self.endless(ctx=ENDLESS), "--slots=1", "--queue=1") as s:
            def begin(body):
                c = socket.create_connection((s.host, s.port), timeout=PATIENCE)
                data = json.dumps({"messages": HELLO, **body}).encode()
                c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                          b"Content-Length: %d\r\n\r\n" % len(data) + data)
                return c
            for body in [{}, {"stream": True}, {"messages": [{"role": "user",
                                                              "content": "x" * 50000}]}]:
                c = begin(body)
                s.wait_for(1)
                if "stream" in body:
                    self.assertIn(b"200 OK", c.recv(100))
                c.close()
                s.wait_for(0)
                self.assertEqual(s.ask("/v1/completions", short)[0], 200)
            # one is at work and one waits: there is no room for more
            first, second = begin({"stream": True}), begin({})
            s.wait_for(1, 1)
            status, headers, answer = s.ask("/v1/completions", short)
            self.assertEqual((status, headers["Retry-After"], answer["error"]["type"]),
                             (429, "1", "rate_limit_error"))
            first.close()
            second.close()
            s.wait_for(0)
            self.assertEqual(s.ask("/v1/completions", short)[0], 200)

    def test_what_clients_should_not_send(self):
        body = b'{"prompt":"a","max_tokens":1}'
        post = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
        with Server(self.endless()) as s:
            half = [socket.create_connection((s.host, s.port)) for _ in range(20)]
            for i, c in enumerate(half):
                c.sendall((post % 1000 + b"\r\n{")[:5 + 7 * i])
            for data, status in [
                    (b"\0\r\n\r\n", b""), (b"GET\r\n\r\n", b" 400 "),
                    (b"GET / HTTP/9.9\r\n\r\n", b""),
                    (b"GET /health HTTP/1.1\r\nX: " + b"a" * 100000 + b"\r\n\r\n", b" 4"),
                    (post % 10**9 + b"\r\n", b" 413 "), (post % -1 + b"\r\n", b" 400 "),
                    (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", b""),
                    (b"GET /%FF%00 HTTP/1.0\r\n\r\n", b" 404 "),
                    (b"GET /\xff HTTP/1.0\r\n\r\n", b""),
                    (b"BREW / HTTP/1.1\r\n\r\n", b"")]:
                self.assertIn(status, s.raw(data, b"\r\n")[:30] if status
                              else s.raw(data, ends=True), data[:40])
            # what evhttp refuses by itself
            for data, code in [(b"GET\r\n\r\n", 400), (b"PUT / HTTP/1.1\r\n\r\n", 501),
                               (b"BREW / HTTP/1.1\r\n\r\n", 501), (post % 10**9 + b"\r\n", 413)]:
                head, _, text = s.raw(data).partition(b"\r\n\r\n")
                self.assertIn(b"\r\nContent-Length: %d" % len(text), head)
                self.assertEqual((int(head.split()[1]), json.loads(text)["error"]["code"]),
                                 (code, code))
            # the reply to HEAD has the size of a body, and no body
            head = s.raw(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertIn(b"Content-Length: 15\r\n", head)
            self.assertTrue(head.endswith(b"\r\n\r\n"), head)
            # pipelining: each has its answer, in order
            whole = post % len(body) + b"\r\n" + body
            last = post % len(body) + b"Connection: close\r\n\r\n" + body
            self.assertEqual(s.raw(whole * 5 + last).count(b'"finish_reason":"length"'), 6)
            for c in half:
                c.close()
            self.assertEqual(s.ask("/health")[0], 200)

    def test_stops(self):
        with Server(self.endless()) as s:
            text = s.chat(max_tokens=40)["choices"][0]["message"]["content"]
            for stop in [text[5:7], text[10:14], ["no such text", text[20]]]:
                at = text.index(stop if isinstance(stop, str) else stop[1])
                (choice,) = s.chat(max_tokens=40, stop=stop)["choices"]
                self.assertEqual((choice["message"]["content"], choice["finish_reason"]),
                                 (text[:at], "stop"))
                parts = s.stream(messages=HELLO, seed=1, max_tokens=40, stop=stop)
                self.assertEqual("".join(p["choices"][0]["delta"].get("content") or ""
                                         for p in parts), text[:at])
            self.assertEqual(s.chat(max_tokens=40, stop="no such text")["choices"][0]["message"]
                             ["content"], text)

    def test_forms_and_tools(self):
        schema = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]},
                                                   "days": {"type": "integer", "minimum": 1,
                                                            "maximum": 9}},
                  "required": ["city", "days"], "additionalProperties": False}
        tool = {"type": "function", "function": {"name": "weather", "parameters": schema}}
        def right(value):
            self.assertEqual(value.keys(), {"city", "days"})
            self.assertTrue(value["city"] in ["Oslo", "Rome"] and 1 <= value["days"] <= 9)
        with Server(self.endless()) as s:
            for seed in range(3):
                form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
                (choice,) = s.chat(seed=seed, response_format=form, max_tokens=200)["choices"]
                self.assertEqual(choice["finish_reason"], "stop")
                right(json.loads(choice["message"]["content"]))
                for asked in ["required", {"type": "function", "function": {"name": "weather"}}]:
                    body = {"messages": HELLO, "seed": seed, "max_tokens": 300, "tools": [tool],
                            "tool_choice": asked, "parallel_tool_calls": False}
                    (choice,) = s.answer(**body)["choices"]
                    self.assertEqual(choice["finish_reason"], "tool_calls")
                    (call,) = choice["message"]["tool_calls"]
                    self.assertEqual(call["function"]["name"], "weather")
                    right(json.loads(call["function"]["arguments"]))
                deltas = [p["choices"][0]["delta"] for p in s.stream(**body)]
                calls = [d["tool_calls"][0] for d in deltas if "tool_calls" in d]
                self.assertEqual((calls[0]["index"], calls[0]["type"],
                                  calls[0]["function"]["name"]), (0, "function", "weather"))
                self.assertTrue(calls[0]["id"])
                self.assertEqual("".join(c["function"]["arguments"] for c in calls),
                                 call["function"]["arguments"])
            result = {"role": "tool", "tool_call_id": call["id"], "content": "rain"}
            said = [*HELLO, choice["message"], result]
            self.assertEqual(s.chat(messages=said, tools=[tool], tool_choice="none")["choices"][0]
                             ["message"]["role"], "assistant")

    def test_a_grammar_is_compiled_beside_the_clients(self):
        heavy = 'root ::= [ab]* "a" [ab]{20}'  # takes all the work that compiling may
        with Server(self.endless()) as s:
            got = []

            def ask(stream):
                got.append(s.ask("/v1/completions", {"prompt": "x", "grammar": heavy, "n": 2,
                                                     "stream": stream}))
            asking = [threading.Thread(target=ask, args=[i % 2 == 1]) for i in range(4)]
            for thread in asking:
                thread.start()
            while any(thread.is_alive() for thread in asking):
                start = time.monotonic()
                self.assertEqual(s.ask("/health")[0], 200)
                self.assertLess(time.monotonic() - start, 1)
            for thread in asking:
                thread.join()
            for status, _, answer in got:
                self.assertEqual((status, answer["error"]["type"]), (400, "invalid_request_error"))
                self.assertIn("grammar: grammar: rule root is too large",
                              answer["error"]["message"])
            many = s.chat(n=8, grammar='root ::= "ab" [xy]{3}', max_tokens=20)["choices"]
            self.assertEqual(len(many), 8)
            for choice in many:
                self.assertRegex(choice["message"]["content"], r"\Aab[xy]{3}\Z")

    def test_biases(self):
        body = {"messages": HELLO, "temperature": 0, "max_tokens": 12, "logprobs": True}
        with Server(self.endless()) as s:
            def ids(**more):
                return [e["id"] for e in s.answer(**body, **more)["choices"][0]["logprobs"]
                        ["content"]]
            plain = ids()
            self.assertEqual(ids(logit_bias={"7": 1000}), [7] * 12)
            self.assertEqual(ids(logit_bias=[[7, 1000]], frequency_penalty=0), [7] * 12)
            for ban in [{str(plain[0]): -100}, [[plain[0], False]]]:
                self.assertNotIn(plain[0], ids(logit_bias=ban))
            # of two tokens that are likelier than all others, the second comes by the penalty
            two = {"7": 1000, "8": 992}
            self.assertEqual(ids(logit_bias=two), [7] * 12)
            self.assertEqual(ids(logit_bias=two, presence_penalty=2), [7] * 12)
            often = ids(logit_bias=two, frequency_penalty=2)
            self.assertEqual((often[0], set(often)), (7, {7, 8}))
            self.assertEqual(ids(logit_bias={}, presence_penalty=0), plain)

    def test_logprobs(self):
        with Server(self.endless()) as s:
            (choice,) = s.chat(logprobs=True, top_logprobs=3, temperature=0)["choices"]
            entries = choice["logprobs"]["content"]
            self.assertEqual(len(entries), 8)
            text = b"".join(bytes(e["bytes"]) for e in entries)
            self.assertTrue(text.decode(errors="replace").startswith(
                choice["message"]["content"]))  # names of special tokens are not text
            for e in entries:
                self.assertEqual(e["logprob"], e["top_logprobs"][0]["logprob"])
                self.assertEqual(len(e["top_logprobs"]), 3)
            parts = s.stream(messages=HELLO, logprobs=True, temperature=0, max_tokens=8)
            sent = [e for p in parts if p["choices"][0]["logprobs"]
                    for e in p["choices"][0]["logprobs"]["content"]]
            self.assertEqual([e["logprob"] for e in sent], [e["logprob"] for e in entries])

    def test_logprobs_of_an_echo(self):
        """They begin with the prompt's tokens, and text_offset counts in the text that comes."""
        def checks(choice):
            text, l = choice["text"], choice["logprobs"]
            self.assertEqual(len({len(values) for values in l.values()}), 1)
            for at, token in zip(l["text_offset"], l["tokens"]):
                special = re.fullmatch("<.+>", token)  # its name is not in the text
                if not special and "\ufffd" not in token + text[at:at + len(token)]:
                    self.assertEqual(text[at:at + len(token)], token, (at, l["tokens"]))
            return l["token_logprobs"]
        body = {"prompt": "hello w\u00e9 hello", "temperature": 0}
        with Server(self.endless()) as s:
            ids = s.answer("/tokenize", content=body["prompt"], add_special=True)["tokens"]
            more = s.answer("/completion", n_predict=6, return_tokens=True, **body)["tokens"]
            (choice,) = s.answer("/v1/completions", **body, max_tokens=6, logprobs=2)["choices"]
            alone = checks(choice)
            self.assertEqual(len(alone), 6)
            (choice,) = s.answer("/v1/completions", **body, max_tokens=6, logprobs=2,
                                 echo=True)["choices"]
            self.assertTrue(choice["text"].startswith(body["prompt"]))
            values = checks(choice)
            self.assertEqual(len(values), len(ids) - 1 + 6)  # BOS is not of the text
            self.assertEqual(values[-6:], alone)
            self.assertTrue(all(v < 0 for v in values))
            # the same tokens as a prompt have the same values, and nothing is generated
            (choice,) = s.answer("/v1/completions", prompt=ids + more, max_tokens=0, logprobs=2,
                                 echo=True)["choices"]
            self.assertEqual(checks(choice), [None, *values])
            self.assertEqual(choice["logprobs"]["top_logprobs"][0], None)
            for top in choice["logprobs"]["top_logprobs"][1:]:
                self.assertIn(len(top), (1, 2))  # two tokens may have the same text
            # and in a stream
            parts = [p["choices"][0] for p in s.stream("/v1/completions", **body, max_tokens=6,
                                                       logprobs=2, echo=True)]
            streamed = {"text": "".join(p["text"] for p in parts), "logprobs": {
                name: [v for p in parts if p["logprobs"] for v in p["logprobs"][name]]
                for name in choice["logprobs"]}}
            self.assertEqual(checks(streamed), values)
            # what the slot has of the prompt does not count
            again = s.answer("/v1/completions", **body, max_tokens=6, logprobs=0, echo=True)
            self.assertEqual(checks(again["choices"][0]), values)
            eos = s.ask("/props")[2]["eos_token"]
            for prompt in "", "x", f"hello{eos}hello hello", eos:
                (choice,) = s.answer("/v1/completions", prompt=prompt, max_tokens=3, logprobs=1,
                                     temperature=0, echo=True)["choices"]
                checks(choice)
            # 1,901 tokens of 2,000, each with 1 + 20 log-probabilities, twice
            many = {"prompt": ids[:1] * 1901, "max_tokens": 0, "echo": True}
            status, _, answer = s.ask("/v1/completions", {**many, "logprobs": 20, "n": 2})
            self.assertEqual(status, 400)
            self.assertIn("log-probabilities", answer["error"]["message"])
        with Server(self.endless(vocab="gpt2")) as s:  # no BOS comes before a text
            (choice,) = s.answer("/v1/completions", **body, max_tokens=0, logprobs=1,
                                 echo=True)["choices"]
            values = checks(choice)
            self.assertEqual((choice["text"], values[0]), (body["prompt"], None))
            self.assertTrue(all(v < 0 for v in values[1:]))

    def test_lists_of_prompts(self):
        texts = ["hello", "once upon", "a tuffet", "hello"]
        with Server(self.endless(), "--slots=3") as s:
            ask = lambda prompt, **more: s.answer("/v1/completions", prompt=prompt, seed=4,
                                                  max_tokens=9, **more)
            alone = [ask(t, n=2)["choices"] for t in texts]
            got = ask(texts, n=2)
            self.assertEqual([c["index"] for c in got["choices"]], list(range(8)))
            self.assertEqual([c["text"] for c in got["choices"]],
                             [c["text"] for choices in alone for c in choices])
            used = [ask(t, n=2)["usage"] for t in texts]
            for name in "prompt_tokens", "completion_tokens", "total_tokens":
                self.assertEqual(got["usage"][name], sum(u[name] for u in used), name)
            ids = [s.answer("/tokenize", content=t, add_special=True)["tokens"] for t in texts]
            self.assertEqual([c["text"] for c in ask(ids)["choices"]],
                             [choices[0]["text"] for choices in alone])
            self.assertEqual([c["text"] for c in ask(texts, echo=True)["choices"]],
                             [t + choices[0]["text"] for t, choices in zip(texts, alone)])
            parts = s.stream("/v1/completions", prompt=texts, seed=4, max_tokens=9)
            for i, choices in enumerate(alone):
                mine = [c for p in parts for c in p["choices"] if c["index"] == i]
                self.assertEqual("".join(c["text"] for c in mine), choices[0]["text"])
                self.assertEqual(mine[-1]["finish_reason"], choices[0]["finish_reason"])
            self.assertEqual(len(ask(["x"] * 20)["choices"]), 20)
            for wrong in [["x", 3], ["x", None], [["x"]], [], [[]], ["x"] * 65, [[1], ["x"]]]:
                self.assertEqual(s.ask("/v1/completions", {"prompt": wrong})[0], 400, wrong)
            self.assertEqual(s.ask("/v1/completions", {"prompt": ["x"] * 33, "n": 2})[0], 400)

    def test_a_prompt_lets_others_go_on_behind_each_chunk(self):
        """return_progress says how far a prompt is behind each pass."""
        with Server(self.endless(ctx=ENDLESS), "--slots=2") as s:
            c = s.connect()  # an answer that has no end, or nobody
            for busy, most in ((False, 256), (True, 64)):
                if busy:
                    c.request("POST", "/v1/chat/completions",
                              json.dumps({"messages": HELLO, "stream": True}))
                    c.getresponse().readline()
                parts = s.stream("/v1/completions", prompt=f"{busy} " + "the " * 1000,
                                 max_tokens=1, return_progress=True)
                seen = [p["prompt_progress"] for p in parts if "prompt_progress" in p]
                done = [p["processed"] for p in seen]
                self.assertEqual(done[-1], seen[0]["total"])
                self.assertGreater(done[-1], 1000)
                steps = [b - a for a, b in zip([seen[0]["cache"], *done], done)]
                self.assertEqual(max(steps), most)
            c.close()

    def test_a_second_signal_ends_at_once(self):
        with Server(self.endless(ctx=ENDLESS), "--slots=1") as s:
            seen = []
            asks = [threading.Thread(target=lambda: seen.append(s.ask(
                "/v1/chat/completions", {"messages": HELLO})[0])) for _ in range(3)]
            for t in asks:
                t.start()
            s.wait_for(1, 2)
            s.send_first_signal()
            self.assertIsNone(s.process.poll())
        for t in asks:
            t.join()
        self.assertEqual(seen, [503] * 3)

    def test_a_second_signal_does_not_wait_for_readers(self):
        with Server(self.endless()) as s:
            c = socket.socket()
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.settimeout(PATIENCE)
            c.connect((s.host, s.port))
            body = json.dumps({"messages": [{"role": "user", "content": "x" * 7000000}]}).encode()
            c.sendall(b"POST /apply-template HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
                      b"\r\n" % len(body) + body)
            self.assertIn(b"200 OK", c.recv(100))
            s.send_first_signal()
            self.assertIsNone(s.process.poll(), "the client may still read its reply")
            s.process.send_signal(signal.SIGTERM)
            read = 0
            try:
                while more := c.recv(65536):
                    read += len(more)
            except ConnectionResetError:
                pass
            self.assertLess(read, 7000000, "the reply is cut off")
            s.process.wait(PATIENCE)
            c.close()

    def test_says_when_it_is_ready(self):
        path = self.path("notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as system:
            system.bind(path)
            system.settimeout(PATIENCE)
            os.environ["NOTIFY_SOCKET"] = path
            try:
                with Server(self.endless()):
                    self.assertEqual(system.recv(100), b"READY=1")
            finally:
                del os.environ["NOTIFY_SOCKET"]

    def test_a_socket_that_is_passed(self):
        with socket.socket() as system:
            system.bind(("127.0.0.1", 0))
            system.listen()
            os.dup2(system.fileno(), 3)  # as sd_listen_fds(3) has it
            p = subprocess.Popen(
                ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", *TUFFET, "serve",
                 self.endless(), "--mlock", "--port=1"],
                pass_fds=[3], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                line = p.stdout.readline()
                port = system.getsockname()[1]
                if not line:
                    self.assertIn("--mlock: the system does not let", p.stderr.read())
                    self.skipTest("the system lets no process lock memory")
                self.assertEqual(line, f"http://127.0.0.1:{port}\n")
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
                c.request("GET", "/health")
                self.assertEqual(c.getresponse().status, 200)
                c.close()
                with open(f"/proc/{p.pid}/status") as f:
                    size, locked = map(int, re.findall(r"(?:VmSize|VmLck):\s*(\d+)", f.read()))
                if size < 1 << 30:  # kB: sanitizers map terabytes, and make mlockall do nothing
                    self.assertGreater(locked, 100)
            finally:
                p.send_signal(signal.SIGTERM)
                p.communicate(timeout=PATIENCE)
        self.assertEqual(p.returncode, 0)

    def test_the_service_of_openwrt(self):
        """The command that packaging/openwrt gives to procd, whose functions are played."""
        script = pathlib.Path(__file__).parents[2] / "packaging/openwrt/tuffet.init"
        play = "procd_open_instance() { :; }; procd_close_instance() { echo closed; }\n" \
               'procd_set_param() { printf "%s\\n" "$*"; }\n. "$1"; start_service'
        lines = subprocess.run(["sh", "-euc", play, "sh", script], check=True, text=True,
                               capture_output=True, timeout=PATIENCE).stdout.splitlines()
        self.assertEqual(lines[-1], "closed")
        name, program, command, model, *options = lines[0].split(" ")
        self.assertEqual((name, command, program.endswith("/tuffet")), ("command", "serve", True))
        self.assertTrue(model.endswith(".gguf"))
        options[options.index("--host") + 1] = "127.0.0.1"
        with Server(self.endless(), *options) as s:
            self.assertEqual(s.ask("/health")[2], {"status": "ok"})

    def test_thoughts_are_apart(self):
        thinking = ZEPHYR.replace("<|assistant|>\n", "<|assistant|>\n<think>\n")
        with Server(self.endless()) as s, Server(self.endless(template=thinking)) as t:
            text = s.chat(max_tokens=20)["choices"][0]["message"]
            self.assertNotIn("reasoning_content", text)
            thought = t.chat(max_tokens=20)["choices"][0]["message"]
            self.assertEqual(thought["content"], "")
            self.assertTrue(thought["reasoning_content"])
            grammar = 'root ::= "<think>so</think>\\n\\nyes"'
            message = s.chat(max_tokens=99, grammar=grammar)["choices"][0]["message"]
            self.assertEqual((message["reasoning_content"], message["content"]), ("so", "yes"))
            deltas = [p["choices"][0]["delta"] for p in
                      s.stream(messages=HELLO, max_tokens=99, grammar=grammar)]
            for name, want in [("reasoning_content", "so"), ("content", "yes")]:
                self.assertEqual("".join(d.get(name) or "" for d in deltas), want)

    def test_ends(self):
        """The first signal lets an answer under way come to its end."""
        s = Server(self.endless())
        done = []
        ask = threading.Thread(target=lambda: done.append(s.chat(max_tokens=1500)))
        with s:
            ask.start()
            wait_until(lambda: s.requests() == (1, 0) or not ask.is_alive())
        ask.join()
        self.assertEqual(done[0]["usage"]["completion_tokens"], 1500)
        self.assertEqual(s.process.returncode, 0)


if __name__ == "__main__":
    main()
