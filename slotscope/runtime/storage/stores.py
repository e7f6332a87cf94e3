"""Object stores: how inputs, tables and reports get to ``s3://``, ``gs://`` and ``abfss://``, decided here for pyarrow, delta-rs and Spark alike.

Endpoint, region and credentials come from the environment alone (``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_ACCESS_KEY_ID`` …,
``AWS_PROFILE``), so no URI, message, table or page holds a secret.  Commits are conditional puts of delta-rs.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from slotscope.runtime.errors import InputError, PlaceError

if TYPE_CHECKING:
    from pyarrow import NativeFile, fs

S3_SCHEMES: Final = frozenset(("s3", "s3a", "s3n"))
OTHER_STORES: Final = frozenset(("gs", "gcs", "abfs", "abfss"))
LIVE: Final = "redis://"
_SCHEME: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")
SUPPORTED: Final = "a local folder, file://, s3://, s3a://, gs:// or abfss://"
_REFUSED: Final = {
    "dbfs": "DBFS has no client outside Databricks",
    "hdfs": "delta-rs, which commits to the tables, has no client for HDFS",
}
CONNECT_SECONDS: Final = 3
REQUEST_SECONDS: Final = 60
ATTEMPTS_MAX: Final = 4
PAUSE_S: Final = 0.2
"""Pause before a range is read again; it doubles each time."""
READ_BYTES: Final = 1 << 20
"""Smallest range of a request, which costs as much as so many bytes."""
PROBE: Final = ".slotscope-may-write"
"""Object that is written and deleted to check a root."""
PROBE_BYTES: Final = 1 << 20
"""Size of the smallest snapshot."""
COMMIT_BYTES: Final = 128 << 10
"""Size of a commit without its rows."""
REASON_CHARS_MAX: Final = 200
DEFAULT_REGION: Final = "us-east-1"
"""Region of a store with its own endpoint; few of them have regions."""

ENDPOINT, REGION, KEY, SECRET, TOKEN = (
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)
_SENT: Final = (ENDPOINT, "AWS_ENDPOINT_URL_S3", REGION, "AWS_DEFAULT_REGION", KEY, SECRET, TOKEN, "AWS_PROFILE")
_S3_CONF: Final = re.compile(r"spark\.hadoop\.fs\.s3a\.(endpoint|access\.key|secret\.key|session\.token)")
_OPTIONS: Final = re.compile(r"\?[a-z_]+=")
"""A query; a question mark before anything else is one of a glob."""
_NOT_ANSWERING: Final = "the store at {} does not answer: is AWS_ENDPOINT_URL right?"
_REASONS: Final = (
    (re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist", re.I), "no such bucket"),
    (
        re.compile(
            r"ACCESS_DENIED|AccessDenied|InvalidAccessKeyId|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|"
            r"InvalidClientTokenId|EXPIRED_TOKEN|ExpiredToken|HTTP status 40[13]|40[13] (?:Forbidden|Unauthorized)|credential",
            re.I,
        ),
        "access denied: check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE) and what they allow",
    ),
    (
        re.compile(r"NETWORK_CONNECTION|curlCode|error sending req|\bconnect|timed? ?out|resolve host|dns error", re.I),
        _NOT_ANSWERING,
    ),
    (re.compile(r"PRECONDITION_FAILED|PreconditionFailed", re.I), "another writer came first"),
)
_OF_A_STORE: Final = re.compile(r"\bAWS\b|\bS3\b|\bGCS\b|azure|google", re.I)
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def is_store(path: str) -> bool:
    """Whether *path* is a URI of an object store."""
    return _scheme(path) in S3_SCHEMES | OTHER_STORES


def is_s3(path: str) -> bool:
    """Whether *path* is a URI of S3, or of a store that speaks as S3."""
    return _scheme(path) in S3_SCHEMES


def _scheme(path: str) -> str:
    scheme, colon, _ = path.partition("://")
    return scheme.lower() if colon else ""


def folder_of(place: str) -> str:
    """Return the path or URI of a folder that is written to: a root or a landing; ``file:`` URIs become paths.

    Raises InputError for a file system that is not supported, so that no local folder gets the name of its scheme.
    """
    match = _SCHEME.match(place)
    scheme = match["scheme"].lower() if match else ""
    if scheme == "file":
        host, _, path = place.partition(":")[2].removeprefix("//").partition("/")
        if host in ("", "localhost"):
            return unquote(f"/{path.lstrip('/')}")
        raise InputError(f"{place}: file:// URIs name no host: write file:///{host}/{path}")
    if match and (scheme not in S3_SCHEMES | OTHER_STORES or "://" not in place):
        reason = _REFUSED.get(scheme, f"{scheme}: is not a file system that tables can be written to")
        raise InputError(f"{place}: not supported: {reason}; use {SUPPORTED}")
    return place


def is_hidden(name: str) -> bool:
    """Whether listings leave the file *name* out."""
    return name.startswith((".", "_"))


def is_live(path: str) -> bool:
    """Whether *path* means the dump of a live server, ``redis://HOST:PORT``."""
    return path.startswith(LIVE)


def plain(path: str) -> str:
    """*path* in one spelling: ``s3a://`` and ``s3n://`` mean ``s3://``.

    Raises InputError, which repeats no secret, for a URI with credentials or options.
    """
    if not is_s3(path):
        return path
    bucket, slash, inside = path.partition("://")[2].partition("/")
    if "@" in bucket or _OPTIONS.search(inside):
        raise InputError(
            f"s3://{bucket.rpartition('@')[2]}: a URI holds no credentials and no options; set {ENDPOINT}, {REGION}, {KEY} and {SECRET}"
        )
    return f"s3://{bucket}{slash}{inside}"


def check_conf(conf: Mapping[str, str]) -> None:
    """Raise InputError where settings of Spark name the endpoint or the credentials of S3, which only Spark would use."""
    for name in conf:
        if _S3_CONF.match(name):
            raise InputError(f"--conf {name}: set {ENDPOINT}, {REGION}, {KEY} and {SECRET}, which Spark gets, too")


def hide(text: str) -> str:
    """*text* without the secrets in the environment."""
    for name in (SECRET, TOKEN):
        secret = os.environ.get(name, "")
        if secret:
            text = text.replace(secret, "***")
    return text


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get(ENDPOINT) or None


def _region() -> str | None:
    region = os.environ.get(REGION) or os.environ.get("AWS_DEFAULT_REGION")
    return region or (DEFAULT_REGION if _endpoint() else None)


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of *uri* and the path in it; raises OSError or ValueError as pyarrow does."""
    if is_s3(uri):
        path = plain(uri).partition("://")[2]
        return _s3(path.partition("/")[0], _endpoint(), _region(), *map(os.environ.get, (KEY, SECRET, TOKEN))), path
    if _scheme(uri) in ("abfs", "abfss") and os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"):
        container, _, rest = uri.partition("://")[2].partition("@")
        host, _, inside = rest.partition("/")
        account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or host.partition(".")[0]
        return _azure(account, os.environ["AZURE_STORAGE_ACCOUNT_KEY"]), f"{container}/{inside}"
    from pyarrow import fs

    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
    return found


def open_to_read(uri: str) -> IO[bytes]:
    """Open an object; raises FileNotFoundError, `PlaceError` where a store fails, OSError or ValueError as pyarrow does elsewhere."""
    try:
        system, path = file_system(uri)
        opened: Any = system.open_input_file(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        if not is_store(uri):
            raise
        raise PlaceError(f"{uri}: cannot be read: {reason(error)}") from error
    return io.BufferedReader(StoredFile(uri, opened), READ_BYTES) if is_store(uri) else opened


class StoredFile(io.RawIOBase):
    """An open object that retries failed reads and raises `PlaceError`, not OSError, when the store keeps failing.

    pyarrow retries too, but not where the error message of the store is longer than the range.
    """

    def __init__(self, uri: str, opened: NativeFile) -> None:
        self._uri = uri
        self._opened = opened

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, without a request."""
        return int(self._opened.seek(offset, whence))

    def tell(self) -> int:
        """The place where is read next."""
        return int(self._opened.tell())

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer*; 0 at the end."""
        at = self.tell()
        for attempt in range(ATTEMPTS_MAX):
            try:
                return int(self._opened.readinto(buffer))
            except OSError as error:
                if attempt + 1 == ATTEMPTS_MAX:
                    raise PlaceError(f"{self._uri}: cannot be read: {reason(error)}") from error
                time.sleep(PAUSE_S * 2**attempt)
                self.seek(at)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Release it."""
        self._opened.close()
        super().close()


@cache
def _s3(
    bucket: str, endpoint: str | None, region: str | None, key: str | None, secret: str | None, token: str | None
) -> fs.FileSystem:
    from pyarrow import fs

    if region is None:
        region = _region_of(bucket)
    scheme, _, host = (endpoint or "https://").partition("://")
    return fs.S3FileSystem(
        access_key=key,
        secret_key=secret,
        session_token=token if key else None,
        region=region,
        scheme=scheme,
        endpoint_override=host or None,
        connect_timeout=CONNECT_SECONDS,
        request_timeout=REQUEST_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS_MAX),
    )


def _region_of(bucket: str) -> str | None:
    from pyarrow import fs

    try:
        found: str = fs.resolve_s3_region(bucket)
        return found
    except (OSError, ValueError):
        return None


@cache
def _azure(account: str, key: str) -> fs.FileSystem:
    from pyarrow import fs

    return fs.AzureFileSystem(account, account_key=key)


def storage_options(uri: str) -> dict[str, str] | None:
    """The options with which delta-rs opens the table at *uri*; None for the defaults."""
    if not is_s3(uri):
        return None
    options = {
        "aws_conditional_put": "etag",
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "timeout": f"{REQUEST_SECONDS}s",
        "max_retries": str(ATTEMPTS_MAX),
    }
    endpoint, region = _endpoint(), _region()
    if endpoint:
        options |= {"aws_endpoint_url": endpoint, "aws_allow_http": str(endpoint.startswith("http://")).lower()}
    if region:
        options["aws_region"] = region
    return options


def spark_uri(uri: str) -> str:
    """*uri* as Hadoop's file systems, and so Spark, name it."""
    return f"s3a{plain(uri)[2:]}" if is_s3(uri) else uri


def spark_settings() -> dict[str, str]:
    """Spark's settings for S3, without credentials: those are in its environment, which other users cannot read."""
    settings = {
        "spark.hadoop.fs.s3a.connection.establish.timeout": f"{CONNECT_SECONDS}s",
        "spark.hadoop.fs.s3a.attempts.maximum": str(ATTEMPTS_MAX),
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    }
    endpoint, region = _endpoint(), _region()
    if endpoint:
        settings |= {"spark.hadoop.fs.s3a.endpoint": endpoint, "spark.hadoop.fs.s3a.path.style.access": "true"}
    if region:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
    return settings


def environment() -> dict[str, str]:
    """The variables of this process that executors need to open the same objects."""
    return {name: os.environ[name] for name in _SENT if os.environ.get(name)}


def reason(error: Exception) -> str:
    """The reason of a file system's error and what to do about it, in one line without secrets."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "permission denied"
    text = _COLOURS.sub("", str(error))
    for sign, words in _REASONS if _OF_A_STORE.search(text) else ():
        if sign.search(text):
            return words.format(_endpoint() or "AWS") if words is _NOT_ANSWERING else words
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return hide(getattr(error, "strerror", None) or first)[:REASON_CHARS_MAX]


def check_writable(root: str) -> None:
    """Write a file below *root*, which is made, or a small object, that goes again; raises InputError where that fails."""
    place = plain(root)
    try:
        if is_store(root):
            system, path = file_system(f"{place.rstrip('/')}/{PROBE}")
            with system.open_output_stream(path) as probe:
                probe.write(b"slotscope may write here\n")
            with suppress(OSError):  # who may write need not be allowed to delete
                system.delete_file(path)
        else:
            os.makedirs(place, exist_ok=True)
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
    except (OSError, ValueError) as error:
        raise InputError(f"{place}: cannot be written: {reason(error)}") from error


def check_room(place: str, size_bytes: int) -> None:
    """Raise OSError where a commit of so many bytes would fill the disk of *place*: delta-rs reports that in pages of panics."""
    while "://" not in place and not os.path.exists(place):
        place = os.path.dirname(place)
    if "://" not in place and shutil.disk_usage(place).free < size_bytes + COMMIT_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
