#!/bin/sh
# Installs Debian's Chromium and Node.js, and in build/npm the packages that tests of the page, of
# the server's clients and of schemas use: sh tools/scripts/npm.sh
# These tests find them by NODE_PATH=build/npm/node_modules (an absolute path).
set -eu
cd "$(dirname "$0")/../.."

command -v node >/dev/null || sh tools/scripts/install.sh nodejs
command -v npm >/dev/null || sh tools/scripts/install.sh npm
sh tools/scripts/install.sh chromium
mkdir -p build/npm
for try in 1 2 3; do
    timeout 300 npm install --prefix build/npm --no-audit --no-fund --loglevel=error \
        @ai-sdk/openai-compatible@2 @anthropic-ai/sdk@1 @langchain/core@1 @langchain/openai@1 \
        ai@6 ajv@8 ajv-formats@3 axe-core@4 json-schema-faker@0.6 ollama@0.6 openai@6 \
        playwright-core@1 && exit
    echo "npm.sh: try $try of 3 failed" >&2
done
exit 1
