"""tuffet serve beside clients that nobody trusts: names, keys, bodies, lengths, files."""
import os
import re
import socket
import threading
import unittest

from program import PATIENCE, TUFFET, WRAPPER, Case, main, wait_until
from test_serve import ZEPHYR, Server


class Trust(Case):
    def endless(self, **settings):
        return self.toy(**{"template": ZEPHYR, "endless": 1, "ctx": 2000, **settings})

    def test_names_of_the_server(self):
        own = socket.gethostname()
        with Server(self.endless(), "--host=0.0.0.0", "--allow-host=tuffet",
                    "--allow-host=chat.example.org") as s:
            s.host = "127.0.0.1"
            for host, status in [("127.0.0.1", 200), (f"localhost:{s.port}", 200),
                                 ("192.168.1.7:8080", 200), ("[fe80::1]:80", 200), (own, 200),
                                 (own.upper() + ":80", 200), (own.split(".")[0] + ".local", 200),
                                 ("tuffet", 200), ("Chat.Example.org:81", 200),
                                 ("evil.example", 403), (f"evil.example:{s.port}", 403),
                                 ("example.org", 403), ("tuffet.example.org", 403),
                                 (own + ".evil.example", 403), ("127.0.0.1.evil.example", 403)]:
                self.assertEqual(s.ask("/health", Host=host)[0], status, host)
            # the page that the name of a site serves has this origin
            self.assertEqual(s.ask("/v1/completions", {"prompt": "x", "max_tokens": 1},
                                   Host="evil.example", Origin="http://evil.example")[0], 403)
            self.assertEqual(s.ask("/health", Host="tuffet", Origin="http://tuffet")[0], 200)
            # HTTP/1.0 needs no name
            self.assertIn(b" 200 ", s.raw(b"GET /health HTTP/1.0\r\n\r\n")[:20])

    def post(self, *headers, body=b"", path=b"/v1/completions"):
        return b"POST %s HTTP/1.1\r\nHost: localhost\r\n" % path + b"".join(
            h + b"\r\n" for h in headers) + b"\r\n" + body

    def test_where_a_request_ends(self):
        body = b'{"prompt":"a","max_tokens":1}'
        n = b"Content-Length: %d" % len(body)
        second = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with Server(self.endless()) as s:
            for headers in [[n, n], [n, b"Content-Length: 5"], [b"Content-Length: 5", n],
                            [n, b"Transfer-Encoding: chunked"], [b"Transfer-Encoding: gzip", n],
                            [b"Transfer-Encoding: gzip"], [b"Content-Length: +%d" % len(body)],
                            [b"Content-Length : 5"], [n, b"Host: other"]]:
                got = s.raw(self.post(*headers, body=body) + second)
                self.assertIn(b" 400 ", got[:20], headers)
                self.assertEqual(got.count(b"HTTP/1.1 "), 1, headers)
            got = s.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
                        b"Content-Length: 0\r\n\r\n")
            self.assertIn(b" 400 ", got[:20])
            chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            for data in [self.post(n, body=body), self.post(b"Transfer-Encoding: chunked",
                                                            body=chunks)]:
                # byte by byte, and twice on one connection
                with socket.create_connection((s.host, s.port), timeout=PATIENCE) as c:
                    for _ in range(2):
                        for i in range(len(data)):
                            c.sendall(data[i:i + 1])
                        got = b""
                        while b'"usage"' not in got:
                            got += c.recv(65536)
                        self.assertIn(b"HTTP/1.1 200 ", got)

    def test_chunks_that_are_not_read(self):
        with Server(self.endless()) as s:
            for size in b"2;name=value", b"zz":
                got = s.raw(self.post(b"Transfer-Encoding: chunked", body=size + b"\r\n{}\r\n"))
                self.assertIn(b" 413 ", got[:20])
                self.assertIn(b"wrong chunks, or chunks with extensions", got)

    def test_slashes_in_a_row(self):
        """An address of the server that ends in a slash leads to the same route."""
        body = b'{"prompt":"a","max_tokens":1}'
        n = b"Content-Length: %d" % len(body)
        with Server(self.endless()) as s:
            for path in b"//v1/completions", b"///v1//completions", b"/v1/completions?a=//":
                got = s.raw(self.post(n, b"Connection: close", body=body, path=path))
                self.assertIn(b'"object":"text_completion"', got, path)
            for path, want in [("//health", 200), ("/v1//models", 200), ("//other/health", 404)]:
                self.assertEqual(s.ask(path)[0], want, path)

    def test_tls(self):
        """A client that expects TLS is told at once, though no line ends."""
        with Server(self.endless()) as s:
            for data in b"\x16\x03\x01\x02\x00\x01" + bytes(64), b"\xff":
                with socket.create_connection((s.host, s.port), timeout=PATIENCE / 2) as c:
                    c.sendall(data)
                    self.assertIn(b"HTTP/1.1 400 ", c.recv(65536))

    def test_a_compressed_body(self):
        with Server(self.endless()) as s:
            body = {"prompt": "x", "max_tokens": 1}
            for large in False, True:  # a large body is read beside the clients
                said = {**body, "user": "x" * 100000} if large else body
                status, _, got = s.ask("/v1/completions", said, Content_Encoding="gzip")
                self.assertEqual((status, got["error"]["message"]),
                                 (415, "Content-Encoding: gzip: a body must not be compressed"))
                self.assertEqual(s.ask("/v1/completions", said, Content_Encoding="identity")[0],
                                 200)

    def test_the_key_comes_before_the_body(self):
        body = b'{"prompt":"a","max_tokens":1}'
        n, key = b"Content-Length: %d" % len(body), b"X-Api-Key: secret"
        right = self.post(key, n, body=body)
        with Server(self.endless(), "--api-key=secret") as s:
            # the body is no request, and the requests that were sent with it are answered
            inner = self.post(key, n, body=body)
            got = s.raw(self.post(b"Content-Length: %d" % len(inner), body=inner) + right
                        + self.post(b"Connection: close", key, n, body=body))
            self.assertEqual(re.findall(rb"HTTP/1\.1 (\d+)", got), [b"401", b"200", b"200"])
            chunks = b"Transfer-Encoding: chunked"
            for headers in [[chunks], [b"Content-Length: 9999999999"],
                            [b"Expect: 100-continue", n]]:
                got = s.raw(self.post(*headers))
                self.assertIn(b" 401 ", got[:20], headers)
                self.assertIn(b"Connection: close", got)
            got = s.raw(self.post(b"Content-Length: 5", b"Connection: close", body=b"12345",
                                  path=b"/nothing"))
            self.assertIn(b" 401 ", got[:20])

    def memory(self, s):
        """Bytes of the server that are no file's."""
        with open(f"/proc/{s.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"RssAnon:\s*(\d+) kB", f.read()).group(1)) << 10

    @unittest.skipIf(WRAPPER or not os.path.exists("/proc/self/status"),
                     "reads the program's memory")
    def test_bodies_of_all_connections(self):
        with open(TUFFET[-1], "rb") as f:
            if b"__asan_init" in f.read():
                self.skipTest("AddressSanitizer keeps memory that is freed")
        most, full = 8 << 20, b"x" * ((8 << 20) - 1)
        def stall(s, *headers):
            """24 clients that send all but the last byte; how much memory they take."""
            before, clients = self.memory(s), []
            for _ in range(24):
                c = socket.create_connection((s.host, s.port), timeout=PATIENCE)
                clients.append(c)
                try:
                    c.sendall(self.post(b"Content-Length: %d" % most, *headers) + full)
                except ConnectionError:  # the server keeps the newest
                    pass
                if len(clients) % 8 == 0:
                    self.assertEqual(s.ask("/health")[0], 200)
            taken = self.memory(s) - before
            good = s.ask("/tokenize", {"content": "x" * 100000}, X_Api_Key="secret")[0]
            for c in clients:
                c.close()
            wait_until(lambda: self.memory(s) - before < 16 << 20)
            return taken, good
        with Server(self.endless(), "--api-key=secret") as s:
            taken, good = stall(s)
            self.assertEqual(good, 200)
            self.assertLess(taken, 16 << 20)
            taken, good = stall(s, b"X-Api-Key: secret")
            self.assertEqual(good, 200)
            self.assertLess(taken, 100 << 20)

    @unittest.skipIf(WRAPPER or not os.path.exists("/proc/self/status"),
                     "reads the program's memory")
    def test_log_probabilities_take_little_memory(self):
        many = {"prompt": "a", "n": 8, "max_tokens": 500, "temperature": 1}
        with Server(self.endless(), "--slots=8") as s:
            s.answer("/v1/completions", **many)
            before, most, ended = self.memory(s), 0, threading.Event()
            def watch():
                nonlocal most
                while not ended.wait(0.005):
                    most = max(most, self.memory(s))
            t = threading.Thread(target=watch)
            t.start()
            got = s.answer("/v1/completions", logprobs=20, **many)
            ended.set()
            t.join()
            lists = [c["logprobs"] for c in got["choices"]]
            n = sum(len(x["tokens"]) for x in lists)
            self.assertGreater(n, 2000)
            self.assertLess((most - before) / n, 8000)
            for x in lists:
                self.assertEqual({len(v) for v in x.values()}, {len(x["tokens"])})
                self.assertEqual(x["text_offset"], sorted(x["text_offset"]))
                self.assertTrue(all(0 < len(top) <= 20 for top in x["top_logprobs"]))

    def test_log_probabilities_in_all(self):
        many = {"prompt": "a", "n": 8, "max_tokens": 3900, "temperature": 1}
        with Server(self.endless(ctx=4000), "--slots=8") as s:
            status, _, got = s.ask("/v1/completions", {"logprobs": 20, **many})
            self.assertEqual((status, got["error"]["type"]), (503, "unavailable_error"))
            s.wait_for(0)
            # the kept tokens are free again, and a stream keeps none
            self.assertEqual(s.ask("/v1/completions", {"logprobs": 20, **many, "n": 1})[0], 200)
            parts = s.stream("/v1/completions", logprobs=20, **many)
            self.assertGreater(sum(len(c["logprobs"]["tokens"]) for p in parts
                                   for c in p["choices"] if c["logprobs"]), 25000)


if __name__ == "__main__":
    main()
