"""The shared library exports the functions that tuffet.h declares, and nothing else: exports.py NM LIBRARY HEADER"""
import re
import subprocess
import sys

nm, library, header = sys.argv[1:]
text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
declared = set(re.findall(r"^TFT_API\s[^;(]*?\b(tft_\w+)\(", text, flags=re.M))
result = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True)
if result.returncode != 0:
    print("skipped:", result.stderr.strip())  # an nm for other machines
    sys.exit(77)
# Names with an underscore are the compiler's and the sanitizers'.
exported = {line.split()[-1].split("@")[0] for line in result.stdout.splitlines()}
exported = {name for name in exported if not name.startswith("_")}
print(len(declared), "declared,", len(exported), "exported")
for name in sorted(declared ^ exported):
    print(name, "is declared but not exported" if name in declared else "is exported but not declared")
sys.exit(0 if declared == exported and declared else 1)
