"""tuffet serve beside clients that nobody trusts: names, keys, bodies, lengths, files."""
import socket

from program import Case, main
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


if __name__ == "__main__":
    main()
