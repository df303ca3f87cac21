# The same image as `make image` makes without Docker: the manager, the machine binary that Jobs run, and the agents that servers fetch.
#   docker build --build-arg VERSION=$(git describe --tags --always) -t drover .
#   docker buildx build --platform linux/amd64,linux/arm64 … makes it for both; --target libc adds a libc for drivers that need one.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG TARGETARCH
ENV CGO_ENABLED=0
# Cluster API's CRDs come from its module and are not kept in git.
RUN go run ./hack/capicrds \
 && GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/manager ./cmd/machine \
 && for arch in amd64 arm64; do \
      GOARCH=$arch go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /root-fs/usr/share/drover/agents/drover-agent-linux-$arch ./cmd/agent || exit 1; done \
 && mkdir -p /root-fs/home/machine /root-fs/etc/ssl/certs \
 && printf 'root:x:0:0:root:/root:/sbin/nologin\nmachine:x:1000:1000:machine:/home/machine:/sbin/nologin\n' > /root-fs/etc/passwd \
 && cp /etc/ssl/certs/ca-certificates.crt /root-fs/etc/ssl/certs/ \
 && install -d -m 1777 /root-fs/tmp \
 && ln -s /machine /root-fs/mkisofs

FROM debian:bookworm-slim AS libc
COPY --from=build /root-fs/ /
COPY --from=build /out/manager /out/machine /
ENV PATH=/ HOME=/home/machine SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 1000:1000
ENTRYPOINT ["/manager"]

FROM scratch
COPY --from=build /root-fs/ /
COPY --from=build /out/manager /out/machine /
ENV PATH=/ HOME=/home/machine SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 1000:1000
ENTRYPOINT ["/manager"]
