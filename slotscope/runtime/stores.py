"""Object stores: how inputs, tables and reports get to ``s3://``, ``gs://`` and ``abfss://``.

The client of delta-rs opens files as well as tables, so both take the same endpoint, region and credentials: those of the environment
(``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_ACCESS_KEY_ID`` …, ``AWS_PROFILE``).  No URI, message, table or page holds a secret.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from slotscope.runtime.errors import InputError

if TYPE_CHECKING:
    from deltalake.fs import DeltaStorageHandler
    from pyarrow import fs

S3: Final = ("s3://", "s3a://", "s3n://")
STORES: Final = (*S3, "gs://", "gcs://", "abfs://", "abfss://")
LIVE: Final = "redis://"
_SCHEME: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")
SUPPORTED: Final = "a local folder, file://, s3://, s3a://, gs:// or abfss://"
_REFUSED: Final = {
    "dbfs": "DBFS has no client outside Databricks",
    "hdfs": "delta-rs, which commits to the tables, has no client for HDFS",
    "file": "file:// URIs name no host: write file:///PATH",
}
COMMIT_BYTES: Final = 128 << 10
"""Size of a commit without its rows."""
REASON_CHARS_MAX: Final = 200
ENDPOINT, REGION, KEY = "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID"
SECRET, TOKEN = "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_SENT: Final = ("AWS_", "GOOGLE_", "AZURE_")
"""Beginnings of the variables that clients of stores read."""
_OPTIONS: Final = re.compile(r"\?[a-z_]+=")
"""A query; a question mark before anything else is one of a glob."""
NO_BUCKET: Final = "no such bucket"
_REASONS: Final = {
    r"NoSuchBucket|bucket does not exist": NO_BUCKET,
    r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|InvalidClientTokenId|ExpiredToken|40[13] (?:Forbidden|Unauthorized)|credential": (
        "access denied: check the credentials in the environment (docs/clusters.md) and their permissions"
    ),
    r"non-2xx status code\W+(\d{3}[ \w]*)": "the store answers {}",
    r"(https?://[^/\s]+)[\s\S]*?(?:error sending req|connect error|timed out|resolve host|dns error)": (
        "the store at {} does not answer: check its endpoint and the network (docs/clusters.md)"
    ),
}
"""Reasons by errors of the clients of stores."""
_OF_A_STORE: Final = re.compile(r"Error performing|\bAWS\b|\bS3\b|\bGCS\b|azure|google", re.I)
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def is_store(path: str) -> bool:
    """Whether *path* is a URI of an object store."""
    return path.lower().startswith(STORES)


def folder_of(place: str) -> str:
    """Return the path or URI of a folder that is written to: a root or a landing; ``file:`` URIs become paths.

    Raises InputError for a file system that is not supported, so that no local folder gets the name of its scheme.
    """
    match = _SCHEME.match(place)
    if match is None or is_store(place):
        return place
    scheme = match["scheme"].lower()
    host, _, path = place.partition(":")[2].removeprefix("//").partition("/")
    if scheme == "file" and host in ("", "localhost"):
        return unquote(f"/{path.lstrip('/')}")
    reason = _REFUSED.get(scheme, f"{scheme}: is not a file system that tables can be written to")
    raise InputError(f"{place}: not supported: {reason}; use {SUPPORTED}")


def is_live(path: str) -> bool:
    """Whether *path* means the dump of a live server, ``redis://HOST:PORT``."""
    return path.startswith(LIVE)


def plain(path: str) -> str:
    """*path* in one spelling: ``s3a://`` and ``s3n://`` mean ``s3://``.

    Raises InputError, which repeats no secret, for a URI with credentials or options.
    """
    if not path.lower().startswith(S3):
        return path
    bucket, slash, inside = path.partition("://")[2].partition("/")
    if "@" in bucket or _OPTIONS.search(inside):
        raise InputError(
            f"s3://{bucket.rpartition('@')[2]}: a URI holds no credentials and no options; set {ENDPOINT}, {REGION}, {KEY} and {SECRET}"
        )
    return f"s3://{bucket}{slash}{inside}"


def hide(text: str) -> str:
    """*text* without the secrets in the environment."""
    for name in (SECRET, TOKEN):
        secret = os.environ.get(name, "")
        if secret:
            text = text.replace(secret, "***")
    return text


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of *uri* and the path in it: of a store below the bucket; raises OSError or ValueError as pyarrow does."""
    from pyarrow import fs

    if not is_store(uri):
        system: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
        return system
    scheme, _, inside = plain(uri).partition("://")
    bucket, _, path = inside.partition("/")
    return fs.PyFileSystem(_client(f"{scheme}://{bucket}", tuple(environment().items()))), path


@cache
def _client(bucket: str, environment: tuple[tuple[str, str], ...]) -> DeltaStorageHandler:
    """The client of delta-rs for the files of *bucket*; one for each *environment*."""
    from deltalake.fs import DeltaStorageHandler

    return DeltaStorageHandler(bucket, storage_options(bucket))


def write_object(uri: str, data: bytes) -> None:
    """Write a file of a store as a whole; raises OSError or ValueError as pyarrow does."""
    system, path = file_system(uri)
    stored = system.handler._handler.open_output_stream(path, None)  # pyarrow hands it buffers, which it does not take
    stored.write(data)
    stored.close()


def storage_options(uri: str) -> dict[str, str] | None:
    """The options with which delta-rs opens the table at *uri*, beside those of the environment; None for a local one."""
    known = {"aws_allow_http": "true", "connect_timeout": "3s", "max_retries": "4"}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3")
    return known | ({"aws_endpoint_url": endpoint} if endpoint else {}) if is_store(uri) else None


def spark_settings() -> dict[str, str]:
    """Spark's settings for S3, without credentials: those are in its environment, which other users cannot read."""
    s3a, region = "spark.hadoop.fs.s3a", os.environ.get(REGION) or os.environ.get("AWS_DEFAULT_REGION")
    settings = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    if endpoint := os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get(ENDPOINT):
        settings |= {f"{s3a}.endpoint": endpoint, f"{s3a}.path.style.access": "true"}
        region = region or "us-east-1"  # few stores with their own endpoint have regions
    return settings | ({f"{s3a}.endpoint.region": region} if region else {})


def environment() -> dict[str, str]:
    """The variables of this process that executors need to open the same objects."""
    return {name: value for name, value in os.environ.items() if name.startswith(_SENT)}


def reason(error: Exception) -> str:
    """Return the reason of a file system's error and its remedy, in one line without secrets."""
    text = _COLOURS.sub("", str(error))
    if _OF_A_STORE.search(text):
        for sign, sentence in _REASONS.items():
            if match := re.search(sign, text, re.I):
                return sentence.format(*match.groups())
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "permission denied"
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return hide(getattr(error, "strerror", None) or first)[:REASON_CHARS_MAX]


def check_room(place: str, size_bytes: int) -> None:
    """Raise OSError where a commit would fill the disk of *place*: delta-rs reports that in pages of panics."""
    while "://" not in place and not os.path.exists(place):
        place = os.path.dirname(place)
    if "://" not in place and shutil.disk_usage(place).free < size_bytes + COMMIT_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
