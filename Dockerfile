# The service with its page: docker build -t regretless . && docker run -p 8080:8080 -v tuning:/data \
#     -v ./tokens:/run/secrets/tokens:ro regretless
# To be reached from outside the container, the service needs tokens (docs/service.md).
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/regretless \
    && /opt/regretless/bin/pip install --no-cache-dir '.[serve]'

FROM python:3.13-slim
LABEL org.opencontainers.image.title="regretless" \
      org.opencontainers.image.description="Tune a noisy system while it is live" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/regretless /opt/regretless
# A user without rights owns the data, and nothing else.
RUN useradd --system --uid 10001 --home-dir /data --create-home --shell /usr/sbin/nologin regretless
USER 10001
WORKDIR /data
VOLUME /data
ENV PATH=/opt/regretless/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    OMP_NUM_THREADS=1 \
    REGRETLESS_STORAGE=/data/tuning.sqlite
EXPOSE 8080
# Alive, and its storage can be reached.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]
ENTRYPOINT ["regretless"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8080", "--token-file", "/run/secrets/tokens"]
