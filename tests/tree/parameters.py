"""The table of tools/serve/parameters.c beside docs/server-reference.md: parameters.py SOURCE_ROOT

docs/server-reference.md names each parameter that is honoured, and its section "Parameters" lists
the accepted and the refused ones, a refused one with its values without effect if they are its own.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
source = (root / "tools/serve/parameters.c").read_text()
page = (root / "docs/server-reference.md").read_text()
ROW = r'^    \{"([\w.]+)", [\w |]+, (\w+), (NULL|"(?:[^"\\]|\\.)*")\}'
code, wrong = {"HONOURED": set(), "ACCEPTED": set(), "REFUSED": set()}, []
rows = re.findall(ROW, source, re.MULTILINE)
for name, meaning, idle in rows:
    words = [] if idle == "NULL" else idle[1:-1].replace('\\"', '"').split()
    code[meaning].add(name + "".join(f" {w}" for w in words))


def listed(heading):
    """The names, and the values after them, of one row of the section's table."""
    section = page.partition("\n### Parameters\n")[2].partition("\n#")[0]
    row = re.search(rf"^\| {heading} \| (.*) \|$", section, re.MULTILINE)
    if not row:
        wrong.append(f"no row of {heading} parameters")
        return set()
    found = re.findall(r"`([\w.]+)`(?: \(([^)]*)\))?", row[1])
    return {name + "".join(f" {w}" for w in re.findall(r"`([^`]*)`", values))
            for name, values in found}


assert len(rows) == len(re.findall(r'^    \{"', source, re.MULTILINE)) > 100
for heading in "accepted", "refused":
    for difference in sorted(code[heading.upper()] ^ listed(heading)):
        wrong.append(f"{heading} in the code or on the page alone: {difference}")
for name in sorted(code["HONOURED"]):
    if f"`{name}`" not in page:
        wrong.append(f"docs/server-reference.md does not name {name}")
print(*wrong, f"{len(rows)} rows", sep="\n")
sys.exit(bool(wrong))
