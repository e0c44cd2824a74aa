# gssc serve on the light install: no torch, no compiler, not root.
#
#   docker build -t gssc .
#   docker run --rm --read-only -p 8000:8000 -v "$PWD/runs/cora:/model:ro" gssc
#   docker run --rm -p 8000:8000 -v "$PWD/runs/cora:/model:ro" -v "$PWD/token.txt:/token:ro" gssc /model --token-file /token
#
# Without a token anyone who can reach the port may request predictions, and clients must use a numeric address or localhost;
# --allow-host NAME adds a name.
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# The virtual environment is all that the second stage takes over.
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir -c constraints.txt '.[serve]'

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home gssc
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1
USER gssc
EXPOSE 8000
# /health needs no token and answers 200 once the model is loaded. http.client ignores http_proxy, unlike urllib.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8000, timeout=4); c.request('GET', '/health'); raise SystemExit(c.getresponse().status != 200)"]
# SIGTERM, which `docker stop` sends, lets requests under way finish.
ENTRYPOINT ["gssc", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/model"]
