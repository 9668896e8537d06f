"""tuffet serve"""
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time

from program import PATIENCE, TUFFET, Case, main, wait_until

ZEPHYR = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content ~ eos_token + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")
HELLO = [{"role": "user", "content": "hello"}]


class Server:
    """A server at a port of its own, until `with` ends."""

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
            self.process.send_signal(signal.SIGTERM)
        self.out, self.err = self.process.communicate(timeout=PATIENCE)
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
        assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream", (r.status, text)
        parts = [part for part in text.split("\n\n") if not part.startswith(":")]
        assert parts[-2:] == ["data: [DONE]", ""], text
        return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]

    def raw(self, data, patience=PATIENCE):
        """What comes back for these bytes, up to the end of the connection or for some time."""
        s = socket.create_connection((self.host, self.port), timeout=patience)
        s.sendall(data)
        got = b""
        try:
            while more := s.recv(65536):
                got += more
        except (TimeoutError, ConnectionResetError):
            pass
        s.close()
        return got


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

    def test_a_completion(self):
        toy = self.endless()
        with Server(toy) as s:
            for seed in range(3):
                got = s.answer("/v1/completions", prompt="hello", seed=seed, max_tokens=30)
                want = self.json("run", toy, "-phello", "-n30", "-s", str(seed))
                self.assertEqual(got["choices"][0]["text"], want["text"])
                self.assertEqual(got["choices"][0]["finish_reason"], "length")
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
                {"max_tokens": 0}, {"n": 9}, {"stop": [1]}, {"stop": ["x"] * 17}, {"stream": 1},
                {"top_logprobs": 21}, {"response_format": {"type": "xml"}},
                {"response_format": {"type": "json_schema"}}, {"tools": [{"type": "function"}]},
                {"grammar": "root ::= ("}]]
            for body in bad:
                fails(400, "invalid_request_error", body=body)
            fails(501, "not_supported_error", body={"messages": HELLO, "logit_bias": {"1": 5}})
            full = fails(400, "exceed_context_size_error", "/v1/completions", {"prompt": "x" * 99})
            self.assertEqual((full["n_prompt_tokens"], full["n_ctx"]), (101, 100))
            fails(404, "not_found_error", "/nothing")
            fails(405, "invalid_request_error", "/v1/chat/completions")
            self.assertIn("/v1/rerank", fails(501, "not_supported_error", "/v1/rerank",
                                              {})["message"])
            self.assertEqual(s.chat()["usage"]["completion_tokens"], 8)

    def test_keys_and_origins(self):
        with Server(self.endless(), "--api-key=secret", "--cors=https://a.org") as s:
            self.assertEqual(s.ask("/health")[0], 200)
            for headers in [{}, {"Authorization": "Bearer secre"}, {"X_Api_Key": "secretx"},
                            {"Authorization": "secret"}, {"Authorization": "Bearer "}]:
                self.assertEqual(s.ask("/v1/models", **headers)[0], 401)
            for headers in [{"Authorization": "Bearer secret"}, {"X_Api_Key": "secret"}]:
                self.assertEqual(s.ask("/v1/models", **headers)[0], 200)
            status, headers, _ = s.ask("/v1/models", method="OPTIONS", Origin="https://a.org")
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]),
                             (204, "https://a.org"))
            self.assertEqual(s.ask("/health", Origin="https://b.org")[0], 403)
            self.assertEqual(s.ask("/health", Origin=f"http://{s.host}:{s.port}")[0], 200)

    def test_ends(self):
        s = Server(self.endless(ctx=100000))
        done = []
        ask = threading.Thread(target=lambda: done.append(s.chat(max_tokens=2000)))
        with s:
            ask.start()
            wait_until(lambda: s.ask("/v1/models")[0] == 200 and ask.is_alive())
            time.sleep(0.2)
        ask.join()
        self.assertEqual(done[0]["usage"]["completion_tokens"], 2000)
        self.assertEqual(s.process.returncode, 0)


if __name__ == "__main__":
    main()
