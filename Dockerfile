# The demo project behind gunicorn, with FoundationDB's client library: for docker-compose.yml.
FROM foundationdb/foundationdb:7.3.77 AS foundationdb

FROM python:3.11-slim-bookworm AS base
COPY --from=foundationdb /usr/lib/libfdb_c.so /usr/lib/libfdb_c.so
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
# What it writes is in /app/var: a volume made from an empty folder takes over its owner.
RUN useradd --uid 10001 --home-dir /app/var --no-create-home --shell /usr/sbin/nologin fdbqueue \
    && install --directory --owner=fdbqueue /app/var
COPY requirements.txt requirements-dev.txt ./

# Everything, for the tests; they write into the folder that they run in.
FROM base AS tests
# hadolint ignore=DL3008  # Debian keeps one version of each
RUN apt-get update \
    && apt-get install --yes --no-install-recommends curl jq make \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir --requirement requirements-dev.txt \
    && chown fdbqueue /app
COPY --chown=fdbqueue . .
USER 10001
CMD ["python", "-m", "pytest"]

FROM base AS web
RUN pip install --no-cache-dir --requirement requirements.txt
COPY manage.py ./
COPY fdbqueue fdbqueue
COPY project project
ENV DJANGO_DEBUG=0 DJANGO_STATIC_ROOT=/app/static
# The key of this one command is kept nowhere.
RUN DJANGO_SECRET_KEY_FILE=/tmp/key python manage.py collectstatic --no-input --verbosity 0 \
        --ignore redoc \
    && rm /tmp/key
USER 10001
EXPOSE 8000
CMD ["gunicorn", "--config", "python:project.gunicorn_conf", "project.wsgi"]
