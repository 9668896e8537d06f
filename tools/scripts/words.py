"""Counts the words that make a sentence slow to read: words.py [--worst N] [--bound] [FILE...]

Prints a table by folder, or by FILE: how often "behind", "those", "whose" and "what" stand in
10,000 words, and the mean length of a sentence. The groups are pages (*.md, without code), the
public headers, comments of C files by top folder, and the strings of --help.

--worst N   print the N sentences with most of these words, with file and line
--bound     exit with 1 if a group of the tree has more than `bounds` allows
"""
import argparse
import collections
import pathlib
import re
import sys

words = ("behind", "those", "whose", "what")

# In 10,000 words of a group, which may have one of each in any case. A bound only falls, to 5, 5, 5
# and 15: lower it when a group is better.
bounds = {
    "bindings": (5, 5, 5, 15),
    "docs": (5, 5, 5, 15),
    "examples": (5, 5, 5, 15),
    "headers": (5, 5, 5, 15),
    "help": (5, 5, 5, 15),
    "models": (5, 5, 5, 15),
    "port": (5, 5, 5, 15),
    "simd": (5, 5, 5, 15),
    "src": (5, 5, 5, 15),
    "tests": (5, 5, 5, 15),
    "tools": (5, 5, 5, 15),
}

tops = ("bindings", "docs", "examples", "models", "packaging", "port", "simd", "src", "tests",
        "tools")
foreign = {"node_modules", "target", "build", "__pycache__"}
headers = {"src/tuffet.h", "src/chat/tuffet_chat.h"}
root = pathlib.Path(__file__).resolve().parents[2]

Piece = collections.namedtuple("Piece", "group path line text")  # one paragraph, comment or string


def page(text):
    """The paragraphs of a page, as (line, text), without code and quotations. `code` is a word."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), text,
                  flags=re.DOTALL | re.MULTILINE)
    start, lines, code = 0, [], False
    for number, line in enumerate(text.split("\n") + [""], 1):
        code = line.startswith(">") or line.startswith("    ") and (code or not lines)
        ends = not line.strip() or code
        if lines and (ends or re.match(r"\s*([-*|#]|\d+\.) ?", line)):
            yield start, "\n".join(lines)
            lines = []
        if not ends:
            start = start if lines else number
            lines.append(re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "CODE", line)))


def comments(text):
    """The comments of a C file, as (line, text). Line comments one below the other are one."""
    token = r'(?://[^\n]*\n\s*)+|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    for m in re.finditer(token, text, re.DOTALL):
        if m[0].startswith("/"):
            bare = re.sub(r"^\s*(/\*|//|\*/?)+|\*/$", "", m[0], flags=re.MULTILINE)
            yield text.count("\n", 0, m.start()) + 1, bare


def help_texts(text):
    """The strings in tables of options and commands, as (line, text)."""
    table = r"struct cli_(?:option|command|program) \w+(?:\[\])? = \{(.*?)\};\n"
    for t in re.finditer(table, text, re.DOTALL):
        for m in re.finditer(r'(?:"(?:\\.|[^"\\\n])*"\s*)+', t[1]):
            whole = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', m[0]))
            yield (text.count("\n", 0, t.start(1) + m.start()) + 1,
                   whole.replace("\\n", "\n").replace('\\"', '"'))


def pieces(path):
    name = path.relative_to(root).as_posix()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        for line, found in page(text):
            yield Piece("docs", name, line, found)
        return
    group = "headers" if name in headers else name.split("/")[0]
    for line, found in comments(text):
        yield Piece(group, name, line, found)
    if name.startswith("tools/"):
        for line, found in help_texts(text):
            yield Piece("help", name, line, found)


def tree():
    paths = list(root.glob("*.md"))
    for top in tops:
        paths += [p for p in (root / top).rglob("*")
                  if p.suffix in (".md", ".c", ".h", ".cu", ".cpp")
                  and not foreign & set(p.relative_to(root).parts)]
    return sorted(paths)


def split(text):
    return [w.lower() for w in re.findall(r"[A-Za-z][A-Za-z'_]*", text)]


def sentences(piece):
    """As (line, text)."""
    at = 0
    for m in re.finditer(r".+?(?:[.!?:](?=\s)|\n\s*\n|\Z)", piece.text, re.DOTALL):
        line = piece.line + piece.text.count("\n", 0, at)
        at = m.end()
        if split(m[0]):
            before = m[0][:len(m[0]) - len(m[0].lstrip())]
            yield line + before.count("\n"), " ".join(m[0].split())


class Count:
    def __init__(self):
        self.n, self.sentences, self.of = 0, 0, collections.Counter()

    def add(self, text):
        found = split(text)
        self.n += len(found)
        self.sentences += 1
        self.of.update(w for w in found if w in words)

    def rates(self):
        return [1e4 * self.of[w] / max(self.n, 1) for w in words]


def print_table(counts):
    print(f"{'':30}{'words':>7}" + "".join(f"{w:>8}" for w in words) + "  a sentence")
    for name, c in counts.items():
        print(f"{name:30}{c.n:7}" + "".join(f"{r:8.1f}" for r in c.rates())
              + f"{c.n / max(c.sentences, 1):12.1f}")


parser = argparse.ArgumentParser()
parser.add_argument("--worst", type=int, default=0)
parser.add_argument("--bound", action="store_true")
parser.add_argument("files", nargs="*", metavar="FILE")
args = parser.parse_args()
if args.bound and args.files:
    parser.error("--bound is for the whole tree")
groups, rows, found = collections.defaultdict(Count), collections.defaultdict(Count), []
for path in [pathlib.Path(f).resolve() for f in args.files] or tree():
    for piece in pieces(path):
        folder = piece.path.rpartition("/")[0] or "."
        row = f"{piece.group}: {piece.path if args.files else folder}"
        for line, text in sentences(piece):
            groups[piece.group].add(text)
            rows[row].add(text)
            hits = sum(w in words for w in split(text))
            if hits:
                found.append((hits, hits / len(split(text)), f"{piece.path}:{line}: {text}"))

print_table(dict(sorted(rows.items())))
print()
print_table(dict(sorted(groups.items())))
for hits, _, text in sorted(found, reverse=True)[:args.worst]:
    print(f"{hits} {text}")

wrong = []
if args.bound:
    for name, bound in bounds.items():
        for word, most, rate in zip(words, bound, groups[name].rates()):
            if rate > most and groups[name].of[word] > 1:
                wrong.append(f'{name}: "{word}" stands {rate:.1f} times in 10,000 words, {most} at '
                             "most; words.py --worst 20 shows where")
    wrong += [f"{name}: has no bound" for name in groups if name not in bounds]
    wrong += [f"{name}: only {groups[name].n} words found" for name in bounds
              if groups[name].n < 100]
print(*wrong, sep="\n")
sys.exit(1 if wrong else 0)
