# The first stage builds a virtual environment with the locked packages, compiled; the second has only that, no build tools.
#
# Not pinned yet: run `make pin` before a release. It asks the registry for the tag's digest and appends it here
# (3.11-slim-bookworm@sha256:...); .github/workflows/release.yml refuses to publish without one.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /src
# Bytecode is compiled once, and never checked against its source: at run time the file system is read-only.
ENV UV_COMPILE_BYTECODE=1 UV_NO_CACHE=1 UV_LINK_MODE=copy PYC_INVALIDATION_MODE=UNCHECKED_HASH
COPY requirements/ requirements/
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/bootstrap.lock \
 && python -m venv --without-pip /opt/plaudit \
 && /opt/build/bin/uv pip install --python /opt/plaudit/bin/python --require-hashes -r requirements/service.lock \
 && /opt/build/bin/uv pip install --python /opt/build/bin/python --require-hashes -r requirements/build.lock
COPY . .
RUN /opt/build/bin/hatchling build -t wheel -d /dist \
 && /opt/build/bin/uv pip install --python /opt/plaudit/bin/python --no-deps /dist/*.whl

FROM python:${PYTHON}
# Python's standard library is compiled, too, and pip removed.
RUN python -m pip uninstall --yes --root-user-action=ignore pip setuptools wheel \
 && python -m compileall -q -x '/(test|tests|lib2to3|idlelib|ensurepip|site-packages)/' \
      "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
 && groupadd --gid 10001 plaudit \
 && useradd --uid 10001 --gid plaudit --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin plaudit \
 && install -d -o plaudit -g plaudit -m 700 /var/lib/plaudit/images
COPY --from=build /opt/plaudit /opt/plaudit
ENV PATH=/opt/plaudit/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    PLAUDIT_HTTP__HOST=0.0.0.0 PLAUDIT_HTTP__PORT=8080 PLAUDIT_METRICS__HOST=0.0.0.0 PLAUDIT_METRICS__PORT=9100 \
    PLAUDIT_LOG__FORMAT=json PLAUDIT_DATA=/tmp/plaudit \
    PLAUDIT_IMAGES__STORE=/var/lib/plaudit/images
USER 10001
# 8080: API; 9100: metrics and health of each process.
EXPOSE 8080 9100
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s --retries=3 CMD ["python", "-m", "plaudit.healthy"]
ENTRYPOINT ["plaudit"]
CMD ["api"]
# Last, because these labels change with each build.
ARG PYTHON
ARG VERSION=dev
ARG REVISION=unknown
ARG CREATED=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="Plaudit" \
      org.opencontainers.image.description="Reviews, ratings and returns for commerce platforms" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.base.name="docker.io/library/python:${PYTHON}"
