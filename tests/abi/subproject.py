"""A project of meson that has the sources in its folder: subproject.py MESON SOURCE TOY COMPILER...

The sources are a link in subprojects/, without a wrap file. They are compiled without optimization,
to be quick, and the example tells a text of a random model.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

meson, source, toy, *compiler = sys.argv[1:]
PROJECT = """
project('mine', 'c')
tuffet = dependency('tuffet', default_options: ['tests=false', 'tools=false', 'simd=false'])
executable('embed', 'embed.c', dependencies: tuffet)
"""


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == 0, (command, done.stdout, done.stderr)


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    (root / "subprojects").mkdir()
    (root / "subprojects" / "tuffet").symlink_to(pathlib.Path(source).resolve())
    (root / "meson.build").write_text(PROJECT)
    shutil.copy(pathlib.Path(source) / "examples" / "embed.c", root)
    # not a library that the system may have
    run(meson, "setup", str(root / "build"), str(root), "--force-fallback-for=tuffet",
        "--buildtype=debug", env={**os.environ, "CC": " ".join(compiler)})
    run("ninja", "-C", str(root / "build"), "embed")
    model = str(root / "toy.gguf")
    run(toy, "write", model, "endless=1", "ctx=100")
    done = subprocess.run([root / "build" / "embed", model, "once"], capture_output=True)
    assert len(done.stdout) > 10 and b"no room" in done.stderr, done
print("the example runs")
