#!/bin/sh
# Installs what is needed on Debian, builds build/test with warnings as errors, and runs every test.
# Arguments go to `meson test`: sh tools/scripts/test.sh kernels --verbose
set -eu
cd "$(dirname "$0")/../.."

sh tools/scripts/install.sh gcc g++ libc6-dev meson ninja-build pkgconf \
    libjansson-dev libedit-dev libevent-dev libcmocka-dev libpcre2-dev libutf8proc-dev \
    libopenblas-dev tmux
[ -d build/test ] || meson setup build/test --werror
ninja -C build/test --quiet
# -t 4: timeouts are made for a laptop; a Raspberry Pi needs four times as long
meson test -C build/test --no-rebuild --print-errorlogs -t 4 "$@"
