"""Large requests of tuffet serve, which are read beside the loop."""
import concurrent.futures
import json
import socket

from program import PATIENCE, Case, main
from test_serve import ZEPHYR, Server

TEXT = "the quick brown fox jumps over the lazy dog. " * 2000  # 90 kB
SHORT = {"max_tokens": 3, "temperature": 0}


def large(body):
    """A body that is large, but quickly computed."""
    return json.dumps(body).encode() + b" " * 40000


class Large(Case):
    def setUp(self):
        super().setUp()
        self.model = self.toy(template=ZEPHYR, endless=1, ctx=9000)

    def bodies(self):
        """Paths and bodies of all kinds: some are answered, some are refused."""
        talk = {"messages": [{"role": "user", "content": TEXT[:400]}]}
        return [("/v1/chat/completions", large({**talk, **SHORT})),
                ("/v1/completions", large({"prompt": TEXT[:400], **SHORT})),
                ("/v1/messages", large({**talk, **SHORT})),
                ("/v1/responses", large({"input": TEXT[:400], "max_output_tokens": 3,
                                         "temperature": 0, "store": False})),
                ("/api/chat", large({**talk, "options": {"num_predict": 3, "temperature": 0},
                                     "stream": False})),
                ("/tokenize", {"content": TEXT}),
                ("/apply-template", {"messages": [{"role": "user", "content": TEXT}]}),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": TEXT * 9}]}),
                ("/v1/completions", {"prompt": TEXT * 9}),
                ("/v1/completions", {"prompt": [1] * 20000, "max_tokens": "many"}),
                ("/v1/chat/completions", {"messages": TEXT})]

    def plain(self, got):
        """An answer without its names and times."""
        status, _, body = got
        for key in ("id", "created", "created_at", "timings", "usage", "completed_at"):
            body.pop(key, None)
        for item in body.get("output", []):
            item.pop("id", None)
        return status, {k: v for k, v in body.items() if not k.endswith("_duration")}

    def post(self, s, path, body):
        """A connection that has sent a request."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        c = socket.create_connection((s.host, s.port), timeout=PATIENCE)
        c.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" %
                  (path.encode(), len(data)) + data)
        return c

    def test_many_at_once_are_answered_as_one_alone(self):
        with Server(self.model, "--slots=2", "--queue=100") as s:
            one = [self.plain(s.ask(*b)) for b in self.bodies()]
            self.assertEqual([status for status, _ in one], [200] * 7 + [400] * 4)
            with concurrent.futures.ThreadPoolExecutor(33) as pool:
                got = list(pool.map(lambda b: self.plain(s.ask(*b)), self.bodies() * 3))
            self.assertEqual(got, one * 3)

    def test_several_models(self):
        models = [self.toy(template=ZEPHYR, endless=1, ctx=500, seed=i) for i in (1, 2, 3)]
        with Server(*(f"m{i}={m}" for i, m in enumerate(models)), "--mem=2M", "--slots=1",
                    "--queue=100") as s:
            def ask(i):
                return self.plain(s.ask("/v1/completions", large({
                    "model": f"m{i % 3}", "prompt": TEXT[:400], **SHORT})))
            one = [ask(i) for i in range(3)]
            self.assertEqual([status for status, _ in one], [200] * 3)
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                self.assertEqual(list(pool.map(ask, range(48))), one * 16)

    def test_clients_that_go(self):
        with Server(self.model, "--slots=2") as s:
            for path, body in self.bodies() * 3:
                self.post(s, path, body).close()
            s.wait_for(0)
            self.assertEqual(s.ask("/v1/completions", {"prompt": "a", "max_tokens": 2})[0], 200)
            c = self.post(s, *self.bodies()[7])  # it is read when the server ends
        c.close()


if __name__ == "__main__":
    main()
