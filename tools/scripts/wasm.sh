#!/bin/sh
# Builds the library for WebAssembly, and one page that tells stories: sh tools/scripts/wasm.sh [BUILD]
# Makes build/wasm/tuffet.js, the library with the class Story (bindings/wasm), and
# build/wasm/story.html, which has the library and the model that ships inside: it needs neither a
# server nor a network. Compares first: under Node.js the program makes the same W8A8 file, the same
# perplexity and the same story as BUILD, a build for this machine (default build/test). Then it
# opens the page in Chromium, where Node.js finds playwright-core and axe-core (tests/page).
set -eu
cd "$(dirname "$0")/../.."
native=${1:-build/test}/tools/tuffet
wasm=build/wasm
model=models/demo/stories2M.gguf

sh tools/scripts/install.sh emscripten nodejs meson ninja-build python3
export NODE_PATH="${NODE_PATH:+$NODE_PATH:}/usr/share/nodejs" # Debian's packages, of other Nodes too

[ -d "$wasm" ] || meson setup "$wasm" --werror --cross-file tests/cross/wasm32.ini -Dtests=false \
    -Dthreads=none -Djansson=disabled -Dlibedit=disabled -Ddefault_library=static >/dev/null
ninja -C "$wasm" --quiet
emcc bindings/wasm/story.c "$wasm/libtuffet.a" -o "$wasm/tuffet.js" -Isrc -O3 -msimd128 -Wall \
    -Wextra -Werror -sSTRICT=1 -sSINGLE_FILE=1 -sMODULARIZE=1 -sEXPORT_NAME=tuffetLibrary \
    -sALLOW_MEMORY_GROWTH=1 -sTOTAL_STACK=1MB -sFILESYSTEM=0 -sEXPORTED_FUNCTIONS=_malloc,_free \
    -sEXPORTED_RUNTIME_METHODS=UTF8ToString --extern-post-js bindings/wasm/tuffet.js
python3 - bindings/wasm/page.html "$wasm/tuffet.js" "$model" "$wasm/story.html" <<'END'
import base64, sys
page, library, model, out = sys.argv[1:]
text = open(page, encoding="utf-8").read()
for mark, value in (("@LIBRARY@", open(library, encoding="utf-8").read()),
                    ("@MODEL@", base64.b64encode(open(model, "rb").read()).decode())):
    assert text.count(mark) == 1 and "</script" not in value
    text = text.replace(mark, value)
open(out, "w", encoding="utf-8").write(text)
END

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Node.js 18 and later have fetch, which this emscripten takes for that of a browser.
run="node --no-experimental-fetch $wasm/tools/tuffet.js"

# same NAME ARGUMENT...: both programs print the same, but for the time that they took.
same() {
    name=$1
    shift
    "$native" "$@" >"$folder/native" 2>"$folder/said"
    $run "$@" >"$folder/wasm" 2>"$folder/said"
    for out in native wasm; do
        sed 's/"seconds":[^,]*,//' "$folder/$out" >"$folder/$out.rest"
    done
    cmp "$folder/native.rest" "$folder/wasm.rest"
    echo "$name: $(cksum <"$folder/wasm.rest")"
}

for program in "$native" "$run"; do
    $program quantize "$model" -o "$folder/out.gguf" --calib-tokens 1024 >/dev/null 2>&1
    sum=$(sha256sum <"$folder/out.gguf")
    echo "a W8A8 file: $sum"
    [ "${want:=$sum}" = "$sum" ]
done
head -c 3000 models/demo/README.md >"$folder/text"
for file in "$model" "$folder/out.gguf"; do
    same "perplexity" ppl "$file" -f "$folder/text" --json
    same "a story" run "$file" -p "Once upon a time" --temp 0
    same "a story with 2 bits" run "$file" -p "Once upon a time" --temp 0 --kv kivi
done

node tests/page/story.js "$wasm" "$native" "$model" || [ $? = 77 ]
ls -l "$wasm/tuffet.js" "$wasm/story.html"
