# A server for runs that are mounted at /runs; docs/deploy.md says how it is built and started.
FROM python:3.11-slim

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1 \
    HF_HUB_OFFLINE=1

# The process writes nothing, and needs no rights.
RUN useradd --no-create-home --uid 10001 --shell /usr/sbin/nologin heedful

# torch first, at the lock's version: it is nearly all of the image, and changes least. TORCH_INDEX
# names the index of its CPU builds where the usual one has those for GPUs alone.
ARG TORCH_INDEX=""
COPY requirements.lock /build/
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$(grep '^torch==' /build/requirements.lock)"

COPY pyproject.toml README.md LICENSE /build/
COPY src /build/src
RUN pip install --constraint /build/requirements.lock "/build[serve]" && rm -r /build

USER heedful
WORKDIR /runs
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["heedful", "serve", "--host", "0.0.0.0", "--port", "8000"]
