# An image of the gateway: docs/install.md. The first stage builds the Debian package, the second one installs it.
FROM swift:6.3.1-bookworm AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /source
COPY . .
# The scripts install what they need. The newest security updates are wanted, so no version is pinned.
RUN scripts/dist && mv .build/dist/authgateway_*.deb /authgateway.deb

FROM debian:bookworm-slim
COPY --from=build /authgateway.deb /tmp/authgateway.deb
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends /tmp/authgateway.deb libpq5 \
    && rm -rf /var/lib/apt/lists/* /tmp/authgateway.deb \
    && useradd --system --uid 10001 --home-dir /var/lib/authgateway --shell /usr/sbin/nologin authgateway \
    && install -d -m 700 -o authgateway -g authgateway /var/lib/authgateway
USER 10001
WORKDIR /var/lib/authgateway
ENV AUTHGATEWAY_CONFIG=/etc/authgateway/gateway.yaml
VOLUME /var/lib/authgateway
EXPOSE 8080
# Whether the gateway answers. What its credentials need is for `authgateway status`: a restart would not help them.
HEALTHCHECK --interval=10s --timeout=8s --start-period=10s --retries=3 CMD ["authgateway", "status", "--alive"]
ENTRYPOINT ["authgateway"]
CMD ["run"]
