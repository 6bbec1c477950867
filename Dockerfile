# Build: the locked packages in a virtual environment of their own. Run: that environment and nothing to build with.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /src
COPY requirements/ requirements/
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/bootstrap.lock \
 && python -m venv --without-pip /opt/plaudit \
 && /opt/build/bin/uv pip install --no-cache --python /opt/plaudit/bin/python --require-hashes \
      -r requirements/service.lock
COPY . .
RUN /opt/build/bin/uv pip install --no-cache --python /opt/build/bin/python --require-hashes -r requirements/build.lock \
 && /opt/build/bin/hatchling build -t wheel -d /dist \
 && /opt/build/bin/uv pip install --no-cache --python /opt/plaudit/bin/python --no-deps /dist/*.whl

FROM python:${PYTHON}
RUN useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin plaudit
COPY --from=build /opt/plaudit /opt/plaudit
ENV PATH=/opt/plaudit/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    PLAUDIT_HTTP__HOST=0.0.0.0 PLAUDIT_LOG__FORMAT=json PLAUDIT_DATA=/tmp/plaudit
USER 10001
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["plaudit"]
CMD ["api"]
