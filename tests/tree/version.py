"""tools/scripts/version.py finds and sets the copies of the version: version.py SOURCE

All copies are those of meson.build. In a copy of their files, a new version is set everywhere, the
Debian packages are renamed, and a copy that was forgotten is named.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
script = source / "tools/scripts/version.py"


def run(*words):
    return subprocess.run([sys.executable, script, *words], capture_output=True, text=True)


done = run(source)
assert done.returncode == 0, done.stdout + done.stderr

names = re.findall(r'^    \("([^"*]+)"', script.read_text(), re.M)
with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    shutil.copytree(source / "packaging/debian", root / "packaging/debian")
    for name in {"meson.build", *names}:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, root / name)
    assert run(root, "7.8").returncode == 1
    done = run(root, "7.8.9")
    assert done.returncode == 0, done.stdout + done.stderr
    assert run(root).returncode == 0
    for name, text in [("src/tuffet.h", "VERSION_MAJOR 7\n"), ("src/tuffet.h", "VERSION_MINOR 8\n"),
                       ("src/tuffet.h", "VERSION_PATCH 9\n"),
                       ("bindings/rust/Cargo.lock", '"tuffet"\nversion = "7.8.9"'),
                       ("packaging/debian/control", " libtuffet-chat7 (="),
                       ("packaging/debian/libtuffet7.symbols", "libtuffet.so.7 libtuffet7 #"),
                       ("packaging/windows/tuffet.manifest", 'version="7.8.9.0"')]:
        assert text in (root / name).read_text(), (name, text)
    left = sorted(p.name for p in (root / "packaging/debian").glob("libtuffet*[0-9].*"))
    assert len(left) == 6 and all("7." in name for name in left), left
    for name in names:
        text = (root / name).read_text()
        (root / name).write_text(re.sub(r"7\.8\.9|(?<=tuffet)7|(?<=tuffet )7|MAJOR 7|SONAME = 7",
                                        lambda m: m[0].replace("7", "6"), text, count=1))
        done = run(root)
        assert done.returncode == 1 and name in done.stdout, (name, done.stdout, done.stderr)
        (root / name).write_text(text)
print(len(names), "copies")
