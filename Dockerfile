# The image of a release: goreleaser puts the built program beside this file, by platform. It has a
# shell and certificates, as 'dibs work' runs programs and PostgreSQL servers speak TLS.
FROM alpine:3
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/dibs /usr/local/bin/dibs
USER nobody
ENTRYPOINT ["dibs"]
