# The demo project with FoundationDB's client library, for docker-compose.yml.
FROM foundationdb/foundationdb:7.3.77 AS foundationdb

FROM python:3.11-slim
COPY --from=foundationdb /usr/lib/libfdb_c.so /usr/lib/libfdb_c.so
WORKDIR /app
COPY requirements.txt .
RUN pip install --no-cache-dir --requirement requirements.txt \
    && useradd --system fdbqueue \
    && install --directory --owner=fdbqueue /app/var
COPY manage.py ./
COPY fdbqueue fdbqueue
COPY project project
USER fdbqueue
EXPOSE 8000
CMD ["sh", "-c", "python manage.py migrate --verbosity 0 && python manage.py demo && exec python manage.py runserver --noreload 0.0.0.0:8000"]
