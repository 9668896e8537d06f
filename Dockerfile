# tuffet serve in a container, which needs no network at run time and writes nothing:
#
#     docker build -t tuffet .
#     docker run --rm --read-only --cap-drop ALL -p 127.0.0.1:8080:8080 -v ~/models:/models:ro \
#         tuffet model.gguf
#
# Options of `tuffet serve` may follow the model: --allow-host NAME lets clients call it by NAME.
# Nothing depends on the architecture: docker buildx build --platform linux/amd64,linux/arm64 .
FROM debian:bookworm-slim AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
        gcc libc6-dev meson ninja-build pkgconf libjansson-dev libedit-dev libevent-dev \
        libcurl4-openssl-dev libssl-dev
WORKDIR /tuffet
COPY . .
RUN meson setup /build -Dtests=false && ninja -C /build tools/tuffet && strip /build/tools/tuffet

FROM debian:bookworm-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
        ca-certificates libcurl4 libedit2 libevent-core-2.1-7 libevent-extra-2.1-7 libgomp1 \
        libjansson4 libssl3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin tuffet
COPY --from=build /build/tools/tuffet /usr/local/bin/tuffet
COPY LICENSE /usr/share/doc/tuffet/copyright
# A number, so that Kubernetes sees that it is not root.
USER 10001:10001
WORKDIR /models
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q ok <&3"]
ENTRYPOINT ["tuffet", "serve", "--host=0.0.0.0"]
CMD ["--help"]
