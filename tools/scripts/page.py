#!/usr/bin/env python3
"""Writes tools/serve/page.html as C, with its Content-Security-Policy: page.py PAGE OUTPUT

The policy allows the page's style and its script by their hashes, and nothing else that could run,
be loaded, or be sent elsewhere. The entity tag is a hash of the page.
"""
import base64
import hashlib
import pathlib
import re
import sys


def policy(page):
    def hashed(tag):
        inside = re.findall(rb"<%b>(.*?)</%b>" % (tag, tag), page, re.DOTALL)
        if len(inside) != 1:
            sys.exit("page.py: the page has %d times <%s>" % (len(inside), tag.decode()))
        return "'sha256-%s'" % base64.b64encode(hashlib.sha256(inside[0]).digest()).decode()

    return "; ".join(["default-src 'none'", "script-src " + hashed(b"script"),
                      "style-src " + hashed(b"style"), "connect-src 'self'", "img-src data:",
                      "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"])


def source(page):
    yield "/* Written by tools/scripts/page.py from page.html. */"
    yield '#include "page.h"'
    yield "const char serve_page_policy[] =\n    \"%s\";" % policy(page)
    yield 'const char serve_page_tag[] = "\\"%s\\"";' % hashlib.sha256(page).hexdigest()[:16]
    yield "const size_t serve_page_size = %d;" % len(page)
    yield "const unsigned char serve_page_text[] = {"
    for at in range(0, len(page), 24):
        yield ",".join(map(str, page[at:at + 24])) + ","
    yield "};"


if __name__ == "__main__":
    text = "\n".join(source(pathlib.Path(sys.argv[1]).read_bytes())) + "\n"
    pathlib.Path(sys.argv[2]).write_text(text)
