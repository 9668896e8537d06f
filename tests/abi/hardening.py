"""How the shared library and the program are linked: hardening.py READELF FILE...

The linker's tables become read-only before the first call (RELRO with BIND_NOW), no stack is
executable, and no code is written to when it is loaded.
"""
import re
import subprocess
import sys

readelf, files = sys.argv[1], sys.argv[2:]
wrong = []
for file in files:
    text = subprocess.run([readelf, "--wide", "--program-headers", "--dynamic", file], check=True,
                          capture_output=True, text=True, env={"LC_ALL": "C"}).stdout
    headers = dict(re.findall(r"^  ([A-Z_]+) +(?:0x\w+ +){5}([RWE ]{3}) ", text, re.M))
    tags = dict(re.findall(r"^ 0x\w+ +\((\w+)\) +(.*)$", text, re.M))
    now = ("BIND_NOW" in tags or "NOW" in tags.get("FLAGS_1", "").split()
           or "BIND_NOW" in tags.get("FLAGS", "").split())
    for ok, what in [
            ("GNU_RELRO" in headers, "the linker's tables stay writable: no RELRO"),
            (now, "functions are found when they are first called: no BIND_NOW"),
            ("GNU_STACK" in headers and "E" not in headers["GNU_STACK"], "its stack is executable"),
            ("TEXTREL" not in tags and "TEXTREL" not in tags.get("FLAGS", ""),
             "its code is written to when it is loaded: text relocations")]:
        if not ok:
            wrong.append(f"{file}: {what}")
print(f"{len(files)} files", *wrong, sep="\n")
sys.exit(1 if wrong or not files else 0)
