#!/bin/sh
# Builds the library for WebAssembly, and one page that tells stories:
# sh tools/scripts/wasm.sh [BUILD]
# Makes build/wasm/tuffet.js, the library with the class Story (bindings/wasm), and
# build/wasm/story.html, which has the library and the model that ships, in W8A8, inside: it needs
# neither a server nor a network. Under Node.js the program must make the same W8A8 file, the same
# perplexities and the same stories as BUILD, a build for this machine (default build/test, made if
# it is not there), with each set of kernels, and the tests of kernels must pass. Then the page is
# opened in Chromium, where Node.js finds playwright-core and axe-core (tests/page).
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build/test}
native=$build/tools/tuffet
wasm=build/wasm
model=models/demo/stories2M.gguf

sh tools/scripts/install.sh gcc libc6-dev emscripten nodejs meson ninja-build python3
# Debian's packages, of other Nodes too
export NODE_PATH="${NODE_PATH:+$NODE_PATH:}/usr/share/nodejs"

[ -d "$build" ] || meson setup "$build" --werror >/dev/null
ninja -C "$build" --quiet tools/tuffet
[ -d "$wasm" ] || meson setup "$wasm" --werror --cross-file tests/cross/wasm32.ini -Dtests=false \
    -Dthreads=none -Djansson=disabled -Dlibcurl=disabled -Dlibedit=disabled \
    -Ddefault_library=static >/dev/null
ninja -C "$wasm" --quiet
emcc bindings/wasm/story.c "$wasm/libtuffet.a" -o "$wasm/tuffet.js" -Isrc -O3 -msimd128 -Wall \
    -Wextra -Werror -sSTRICT=1 -sSINGLE_FILE=1 -sMODULARIZE=1 -sEXPORT_NAME=tuffetLibrary \
    -sALLOW_MEMORY_GROWTH=1 -sTOTAL_STACK=1MB -sFILESYSTEM=0 -sEXPORTED_FUNCTIONS=_malloc,_free \
    -sEXPORTED_RUNTIME_METHODS=UTF8ToString --extern-post-js bindings/wasm/tuffet.js
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Node.js 18 and later have fetch, which this emscripten takes for that of a browser.
run="node --no-experimental-fetch $wasm/tools/tuffet.js"

# same NAME ARGUMENT...: both programs print the same, but for the time that they took.
same() {
    name=$1
    shift
    "$native" "$@" 2>"$folder/said" | sed 's/"seconds":[^,]*,//' >"$folder/native"
    for isa in c simd128; do
        $run "$@" --cpu $isa 2>"$folder/said" | sed 's/"seconds":[^,]*,//' >"$folder/wasm"
        cmp "$folder/native" "$folder/wasm"
        echo "$name, $isa: $(cksum <"$folder/wasm")"
    done
}

want=
for program in "$native" "$run"; do
    for isa in c simd128; do
        [ "$program $isa" != "$native simd128" ] || continue
        $program quantize "$model" -o "$folder/out.gguf" --cpu $isa --calib-tokens 1024 \
            >/dev/null 2>&1
        sum=$(sha256sum <"$folder/out.gguf")
        echo "a W8A8 file, $isa: $sum"
        [ "${want:=$sum}" = "$sum" ]
    done
done
head -c 3000 models/demo/README.md >"$folder/text"
for file in "$model" "$folder/out.gguf"; do
    same "perplexity" ppl "$file" -f "$folder/text" --json
    same "a story" run "$file" -p "Once upon a time" --temp 0
    same "a story with 2 bits" run "$file" -p "Once upon a time" --temp 0 --kv kivi
done

emcc tests/simd/kernels/*.c "$wasm/libtuffet_internal.a" -o "$wasm/kernels.js" -I. -Isrc -O2 \
    -msimd128 -ffp-contract=off -Dfmaf=tft_fmaf -sALLOW_MEMORY_GROWTH=1 -sTOTAL_STACK=4MB \
    -sNODERAWFS=1 -sEXIT_RUNTIME=1
node --no-experimental-fetch "$wasm/kernels.js"
"$native" quantize "$model" -o "$wasm/stories.gguf" 2>"$folder/said"
python3 - bindings/wasm/page.html "$wasm/tuffet.js" "$wasm/stories.gguf" "$wasm/story.html" <<'END'
import base64, sys
page, library, model, out = sys.argv[1:]
text = open(page, encoding="utf-8").read()
for mark, value in (("@LIBRARY@", open(library, encoding="utf-8").read()),
                    ("@MODEL@", base64.b64encode(open(model, "rb").read()).decode())):
    assert text.count(mark) == 1 and "</script" not in value
    text = text.replace(mark, value)
open(out, "w", encoding="utf-8").write(text)
END
node tests/page/story.js "$wasm" "$native" "$wasm/stories.gguf" || [ $? = 77 ]
ls -l "$wasm/tuffet.js" "$wasm/story.html"
