"""The page of tuffet serve, as it comes over the loopback; tests/page has it in a browser."""
import base64
import hashlib
import re

from program import Case, main
from test_serve import ZEPHYR, Server


class Page(Case):
    def test_the_page_and_its_policy(self):
        with Server(self.toy(template=ZEPHYR), "--api-key=secret") as s:
            status, headers, page = s.ask("/")
            self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
            rules = dict(rule.split(" ", 1)
                         for rule in headers["Content-Security-Policy"].split("; "))
            for tag, rule in [(b"script", "script-src"), (b"style", "style-src")]:
                (inside,) = re.findall(rb"<%b>(.*?)</%b>" % (tag, tag), page, re.DOTALL)
                digest = base64.b64encode(hashlib.sha256(inside).digest()).decode()
                self.assertEqual(rules.pop(rule), f"'sha256-{digest}'")
            self.assertEqual(rules.pop("connect-src"), "'self'")
            self.assertEqual(rules.pop("img-src"), "data:")
            self.assertEqual(set(rules.values()), {"'none'"}, "nothing else is allowed")
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")

    def test_nothing_is_loaded_from_elsewhere(self):
        with Server(self.toy(template=ZEPHYR)) as s:
            page = s.ask("/")[2].decode()
        self.assertEqual(re.findall(r"""(?:src|href|action)\s*=\s*["'](?!#|data:)[^"']*""", page),
                         [])
        self.assertEqual(re.findall(r"(?:inner|outer)HTML|insertAdjacent|DOMParser|Fragment|srcdoc"
                                    r"|document\.write|setHTML|\beval\b|\bFunction\b", page), [],
                         "no text becomes markup or code")
        self.assertEqual(re.findall(r"@import|url\(", page), [])

    def test_a_browser_that_has_it_gets_304(self):
        with Server(self.toy(template=ZEPHYR)) as s:
            tag = s.ask("/")[1]["ETag"]
            self.assertEqual(s.ask("/", If_None_Match=tag)[::2], (304, b""))
            self.assertEqual(s.ask("/", If_None_Match='"other"')[0], 200)
            status, headers, body = s.ask("/", method="HEAD")
            self.assertEqual((status, body), (200, b""))
            self.assertEqual(headers["ETag"], tag)
            self.assertEqual(s.ask("/", {})[0], 405)


if __name__ == "__main__":
    main()
