# Image with one static binary and nothing else: docker build -t skills .
FROM rust:1.91-alpine AS build
# SQLite, the allocator and the cryptography are C code.
RUN apk add --no-cache build-base
WORKDIR /src
COPY . .
# A Rust toolchain on musl links statically.
RUN cargo build --profile dist --locked --package skills \
    && mkdir /data

FROM scratch
COPY --from=build /src/target/dist/skills /skills
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
ENV SKILLS_DATA_DIR=/data SKILLS_BUS=0.0.0.0:49134 SKILLS_HTTP=0.0.0.0:47372
VOLUME /data
EXPOSE 47372 49134
# Reads the index over the bus, with the token of the server.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["/skills", "read", "iii://skills", "--url", "ws://127.0.0.1:49134"]
ENTRYPOINT ["/skills"]
CMD ["serve"]
