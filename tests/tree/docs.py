"""The documentation beside the sources: docs.py SOURCE_ROOT

- Every relative link of a page leads to a file, and every #anchor to a heading of that file.
- Every `path/` or `path/file.c` in a page exists, if it begins with a folder of the sources.
- README.md has at most 120 lines, a page of results to choose by at most 100.
- A page for users begins with a command.
- docs/cache.md names every preset and knob of a KV cache, docs/file-format.md every key that
  tuffet adds to a GGUF file.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
folders = "docs|examples|models|port|simd|src|tests|tools"
wrong = []


def anchors(page):
    """The headings of a page, as GitHub names them in links."""
    headings = re.findall(r"^#+ +(.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def check_links(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^()\s]+)\)", text) if not re.match(r"\w+:", link)]
    for link in links:
        name, _, anchor = link.partition("#")
        to = page.parent / name if name else page
        if not to.exists():
            wrong.append(f"{page.relative_to(root)}: no file {link}")
        elif anchor and anchor not in anchors(to):
            wrong.append(f"{page.relative_to(root)}: no heading {link}")
    return len(links)


def check_paths(page):
    """Capitals stand for a name of the reader's, as in tests/cli/test_NAME.py."""
    for path in re.findall(rf"`((?:{folders})/[\w/.*-]*)`", page.read_text()):
        if not re.search(r"[A-Z]{3}", path) and not any(root.glob(path.rstrip("/"))):
            wrong.append(f"{page.relative_to(root)}: no file `{path}`")


def table(name):
    """The first strings of the rows of the C table `name` of src/kv."""
    for source in sorted((root / "src/kv").glob("*.c")):
        rows = re.search(rf"\}} {name}\[\] = \{{(.*?)\n\}};", source.read_text(), re.DOTALL)
        if rows:
            return re.findall(r'^    \{"([\w-]+)"', rows[1], re.MULTILINE)
    return []


def file_keys():
    """The keys and tensors of src/model/keys.h."""
    return re.findall(r'"(tuffet\.[\w.]+)"', (root / "src/model/keys.h").read_text())


def pre_tokenizers():
    """The names of the table `known` of src/text/pretokenize.c."""
    text = (root / "src/text/pretokenize.c").read_text()
    rows = re.search(r"\} known\[\] = \{(.*?)\n\};", text, re.DOTALL)
    return "".join(re.findall(r'"(.*?)"', rows[1])).split() if rows else []


def check_named(page, names, least):
    """Fewer names than `least`: the sources no longer look as they are searched here."""
    text = (root / page).read_text()
    if len(names) < least:
        wrong.append(f"{page}: {len(names)} names found in the sources, expected {least}")
    for name in names:
        if not re.search(rf"[` ]{re.escape(name)}[` ]", text):
            wrong.append(f"{page}: does not name {name}")


pages = [*root.glob("*.md")]
for top in ("bindings", "docs", "models", "tests", "tools"):
    pages += sorted((root / top).glob("**/*.md"))
count = sum(check_links(p) for p in pages)
for p in pages:
    check_paths(p)
check_named("docs/cache.md", table("presets"), 5)
check_named("docs/cache.md", table("knobs"), 15)
check_named("docs/models.md", pre_tokenizers(), 60)
check_named("docs/file-format.md", file_keys(), 30)
for page, most in (("README.md", 120), ("docs/accuracy.md", 100), ("docs/speed.md", 100)):
    lines = len((root / page).read_text().splitlines())
    if lines > most:
        wrong.append(f"{page}: {lines} lines, {most} at most")
for page in sorted((root / "docs").glob("*.md")):
    if page.stem not in ("architecture", "glossary"):
        if not re.match(r"# .+\n\n    \S", page.read_text()):
            wrong.append(f"{page.relative_to(root)}: does not begin with a command")

print(f"{len(pages)} pages, {count} links", *wrong, sep="\n")
sys.exit(1 if wrong or count < 50 else 0)
