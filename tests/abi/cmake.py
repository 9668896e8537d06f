"""CMake finds the installed libraries: cmake.py CMAKE MESON BUILD SOURCE TOY COMPILER...

Installs into a folder that is not the prefix of the build. The examples are linked with the shared
libraries, if the build has them, and with static ones: they must write the same texts. Another
version and a part that does not exist are refused.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

cmake, meson, build, source, toy, *compiler = sys.argv[1:]
MAJOR, MINOR = map(int, re.search(r"\n  version: '(\d+)\.(\d+)\.",
                                  (pathlib.Path(source) / "meson.build").read_text()).groups())
PROJECT = f"""
cmake_minimum_required(VERSION 3.21)
project(mine C)
set(CMAKE_C_STANDARD 11)
find_package(tuffet {MAJOR}.{MINOR} REQUIRED COMPONENTS chat)
add_executable(embed embed.c)
target_link_libraries(embed tuffet::tuffet)
add_executable(embed_chat embed_chat.c)
target_link_libraries(embed_chat tuffet::chat)
"""
ASKS = """
cmake_minimum_required(VERSION 3.21)
project(asks NONE)
{}
"""


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def archive(members_of, to):
    """A library of the objects of the build's own, which names files in place of having them."""
    names = run("ar", "t", str(members_of), cwd=build).split()
    run("ar", "qcs", str(to), *names, cwd=build)


def refusal(folder, config, line):
    """What CMake says to a project with this line, or "" if nothing is wrong."""
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(ASKS.format(line))
    done = subprocess.run([cmake, "-S", folder, "-B", folder / "build",
                           f"-Dtuffet_DIR={config.parent}"], capture_output=True, text=True)
    return " ".join(done.stderr.split()) if done.returncode else ""


def linked(project, prefix, model, *options):
    """What the two examples write, and what the first one is."""
    made = project / ("build" + "".join(options))
    run(cmake, "-S", str(project), "-B", str(made), f"-DCMAKE_PREFIX_PATH={prefix}", *options,
        env={**os.environ, "CC": " ".join(compiler)})
    run(cmake, "--build", str(made))
    texts = []
    for words in (["embed", model, "once"], ["embed_chat", model, "upon a time"]):
        done = subprocess.run([made / words[0], *words[1:]], capture_output=True)
        texts.append((done.returncode, done.stdout, done.stderr))
    return texts, (made / "embed").read_bytes()


if not cmake:
    print("skipped: there is no cmake")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    run(meson, "install", "-C", build, "--no-rebuild", "--destdir", folder)
    config, = root.rglob("tuffet-config.cmake")
    libraries = config.parents[2]
    prefix = next(p for p in config.parents if (p / "include" / "tuffet.h").exists())
    model = str(root / "toy.gguf")
    run(toy, "write", model, "endless=1", "ctx=300")
    project = root / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PROJECT)
    for example in ("embed.c", "embed_chat.c"):
        shutil.copy(pathlib.Path(source) / "examples" / example, project)

    texts = None
    if list(libraries.glob("libtuffet.so")):
        missing = refusal(root / "static", config,
                          "set(tuffet_USE_STATIC_LIBS ON)\nfind_package(tuffet REQUIRED)")
        assert "has no library for tuffet::tuffet" in missing, missing
        texts, program = linked(project, prefix, model)
        assert b"libtuffet.so" in program
        for name, path in [("tuffet", "libtuffet_internal.a"),
                           ("tuffet-chat", "src/chat/libtuffet_chat_internal.a")]:
            if not (libraries / f"lib{name}.a").exists():
                archive(pathlib.Path(build) / path, libraries / f"lib{name}.a")
    alone, program = linked(project, prefix, model, "-Dtuffet_USE_STATIC_LIBS=ON")
    assert b"libtuffet.so" not in program
    assert len(alone[0][1]) > 10 and b"no room" in alone[0][2], alone
    assert texts in (None, alone), (texts, alone)

    same = f"find_package(tuffet {MAJOR}.{MINOR} REQUIRED)"
    assert refusal(root / "same", config, same) == ""
    asks = [("COMPONENTS nothing", "has no library for tuffet::nothing")]
    asks += [(version, f"compatible with requested version \"{version}\"")
             for version in ("99", f"{MAJOR}.{MINOR + 1}", f"{MAJOR + 1}.0", "0.0")]
    for n, (asked, why) in enumerate(asks):
        said = refusal(root / f"asks{n}", config, f"find_package(tuffet {asked} REQUIRED)")
        assert why in said, said
print("the examples run")
