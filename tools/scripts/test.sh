#!/bin/sh
# Installs what is needed on Debian, builds build/test with warnings as errors, and runs every test.
# Arguments go to tests/suite.py and `meson test`: sh tools/scripts/test.sh kernels --verbose
set -eu
cd "$(dirname "$0")/../.."

sh tools/scripts/install.sh gcc g++ libc6-dev meson ninja-build pkgconf python3 \
    libjansson-dev libedit-dev libevent-dev libcurl4-openssl-dev libssl-dev libcmocka-dev \
    libpcre2-dev libutf8proc-dev libopenblas-dev tmux
sh tools/scripts/build.sh build/test --werror
# -t 4: timeouts are made for a laptop; a Raspberry Pi needs four times as long
exec python3 tests/suite.py build/test -t 4 "$@"
