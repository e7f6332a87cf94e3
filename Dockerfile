# Slotscope with Spark and all that it needs: docker build -t slotscope . && docker run -v "$PWD:/data" slotscope demo
FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE constraints.txt ./
COPY conf conf
COPY cluster_core cluster_core
COPY jobs jobs
COPY schemas schemas
COPY slotscope slotscope
RUN python -m venv /opt/slotscope \
    && PIP_CONSTRAINT=constraints.txt /opt/slotscope/bin/pip install --no-cache-dir '.[spark]'

FROM python:3.13-slim-bookworm
# Debian keeps only the newest security fix of Java: no version to pin.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home slotscope \
    && install --directory --owner=1000 /data
COPY --from=build /opt/slotscope /opt/slotscope
USER 1000
ENV HOME=/home/slotscope
# Jars and compiled code lie in the user's cache folder: a container then needs no network.
RUN /opt/slotscope/bin/slotscope setup
WORKDIR /data
ENTRYPOINT ["/opt/slotscope/bin/slotscope"]
CMD ["--help"]
