"""The documentation beside the sources: docs.py SOURCE_ROOT

- Every relative link of a page leads to a file, and every #anchor to a heading there.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
wrong = []


def anchors(page):
    """The headings of a page, as GitHub names them in links."""
    headings = re.findall(r"^#+ +(.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def check_links(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^()\s]+)\)", text)
    for link in links:
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        to = page.parent / name if name else page
        if not to.exists():
            wrong.append(f"{page.relative_to(root)}: no file {link}")
        elif anchor and anchor not in anchors(to):
            wrong.append(f"{page.relative_to(root)}: no heading {link}")
    return len(links)


pages = [p for top in (".", "docs", "models", "tests", "tools")
         for p in sorted((root / top).glob("*.md" if top in (".", "docs") else "**/*.md"))]
count = sum(check_links(p) for p in pages)

print(f"{len(pages)} pages, {count} links", *wrong, sep="\n")
sys.exit(1 if wrong or count < 50 else 0)
