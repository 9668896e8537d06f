#!/bin/sh
# Makes a package for Node.js with the addon and the libraries in it, and tries it:
# sh tools/scripts/node.sh [LIBRARIES [OUT]]
# LIBRARIES: a folder with libtuffet and libtuffet-chat, named by their sonames; without it, those
# that wheels.sh builds. Writes OUT/tuffet-VERSION.tgz (default build/node), for Linux with glibc
# and this CPU's architecture. The package is then installed without a network in an empty folder,
# where the example of the package tells a story.
set -eu
cd "$(dirname "$0")/../.."
libraries=${1-build/wheels/manylinux-libraries}
major=$(sed -n "s/^  version: '\([0-9]*\).*/\1/p" meson.build) # of the sonames
[ $# -gt 0 ] || {
    sh tools/scripts/install.sh gcc libc6-dev
    command -v node >/dev/null || sh tools/scripts/install.sh nodejs # or that of the makers of Node
    command -v npm >/dev/null || sh tools/scripts/install.sh npm
    [ -d "$libraries" ] || sh tools/scripts/wheels.sh manylinux
}
out=$(realpath -m "${2-build/node}")
package=$out/package
mkdir -p "$out"
rm -rf "$package" "$out/try"
rm -f "$out"/tuffet-*.tgz
cp -R bindings/node "$package"
rm -rf "$package/build" "$package/node_modules"
cp LICENSE "$package"

place=$package/prebuilds/$(node -p '`${process.platform}-${process.arch}`')
mkdir -p "$place"
cp "$libraries/libtuffet.so.$major" "$libraries/libtuffet-chat.so.$major" "$place"
headers=$(node -p 'path.resolve(process.execPath, "../../include/node")')
[ -f "$headers/node_api.h" ] || sh tools/scripts/install.sh libnode-dev
# The addon finds the libraries beside it. libtuffet comes first: libtuffet-chat needs it.
cc -std=c11 -shared -fPIC -O2 -fvisibility=hidden "-ffile-prefix-map=$PWD=." bindings/node/src/*.c \
    -isystem "$headers" -Isrc -Isrc/chat "$place/libtuffet.so.$major" \
    "$place/libtuffet-chat.so.$major" "-Wl,-rpath,\$ORIGIN" -Wl,--build-id=none -s \
    -o "$place/tuffet.node"
chmod -R u=rwX,go=rX "$package" # npm keeps the rights that the umask leaves
(cd "$package" && npm pack --silent --offline --pack-destination "$out" >/dev/null)

made=$(echo "$out"/tuffet-*.tgz)
mkdir "$out/try"
echo '{"private": true}' >"$out/try/package.json"
(
    cd "$out/try"
    unset LD_LIBRARY_PATH TUFFET_ADDON
    npm install --silent --offline --no-audit --no-fund "$made"
    cp node_modules/tuffet/examples/generate.mjs .
    node generate.mjs "$OLDPWD/models/demo/stories2M.gguf" "Once upon a time" >story
)
head -c 100 "$out/try/story"
echo
[ "$(wc -c <"$out/try/story")" -gt 100 ]
rm -rf "$package" "$out/try"
(cd "$out" && sha256sum -- *.tgz)
