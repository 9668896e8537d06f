"""abi.py renews its list, but not for a field in old padding: padding.py ABI COMPILER..."""
import pathlib
import subprocess
import sys
import tempfile

script, *compiler = sys.argv[1:]
HEADER = """#include <stdbool.h>
#include <stddef.h>
#define TFT_API
struct tft_o { size_t size; bool a; };
struct tft_e { bool a; };
TFT_API int tft_f(const struct tft_o *o, struct tft_e *e);
"""
# what takes the place of what, and what is said against it
CASES = [("bool a; };\nstruct tft_e", "bool a; int b; };\nstruct tft_e",
          "struct tft_o: b is at byte 12, and old programs, of 16 bytes, have padding there"),
         ("bool a; };\nstruct tft_e", "bool a, unused[7]; int b; };\nstruct tft_e", None),
         ("size_t size; bool a;", "size_t size; bool b, a;", None),  # old programs break anyway
         ("struct tft_e { bool a;", "struct tft_e { bool a, b;", None)]

with tempfile.TemporaryDirectory() as temporary:
    header, dump = pathlib.Path(temporary) / "tft.h", pathlib.Path(temporary) / "list"

    def renew(text):
        header.write_text(text)
        return subprocess.run([sys.executable, script, header, dump, *compiler, "--renew"],
                              capture_output=True, text=True)

    for old, new, why in CASES:
        dump.unlink(missing_ok=True)
        done = renew(HEADER)
        if done.returncode == 77:
            print(done.stdout)
            sys.exit(77)
        assert done.returncode == 0, done.stderr
        first = dump.read_text()
        assert old in HEADER
        done = renew(HEADER.replace(old, new))
        assert done.returncode == (1 if why else 0), (new, done.stdout, done.stderr)
        assert (why in done.stderr and dump.read_text() == first) if why else \
            dump.read_text() != first, (new, done.stderr)
print(len(CASES), "changes")
