"""URIs of object stores, settings of Spark about them, and roots that take no tables."""

from __future__ import annotations

import pytest

from jobs.key_slots import Request
from slotscope.runtime import stores
from slotscope.runtime.errors import InputError


@pytest.mark.parametrize(
    ("uri", "same"),
    [
        ("s3a://b/x/*.rdb", "s3://b/x/*.rdb"),
        ("s3n://b/x", "s3://b/x"),
        ("S3://b/x", "s3://b/x"),
        ("s3://b/node-?.rdb", "s3://b/node-?.rdb"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
        ("dumps/x.rdb", "dumps/x.rdb"),
    ],
)
def test_a_uri_has_one_spelling(uri, same):
    assert stores.plain(uri) == same


@pytest.mark.parametrize("uri", ["s3://key:se%2Fcret@b/x", "s3a://b/x/*.rdb?access_key=key&secret_key=se%2Fcret"])
def test_credentials_in_a_uri_are_refused_and_not_repeated(uri):
    with pytest.raises(InputError, match="a URI holds no credentials and no options; set AWS_ENDPOINT_URL") as refused:
        stores.plain(uri)

    assert "cret" not in str(refused.value)


def test_credentials_of_the_environment_are_in_no_text_and_no_setting(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://h:9")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "se/cret")

    assert stores.environment()["AWS_SECRET_ACCESS_KEY"] == "se/cret"
    assert stores.hide("of se/cret things") == "of *** things"
    assert "se/cret" not in str(stores.spark_settings())


def test_only_settings_of_spark_are_accepted():
    assert Request(conf=("spark.x=1=2",)).spark_conf() == {"spark.x": "1=2"}
    for setting in ("spark.x", "x=1"):
        with pytest.raises(InputError, match="write KEY=VALUE"):
            Request(conf=(setting,))


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("tables", "tables"),
        ("./a:b/tables", "./a:b/tables"),
        ("file:///data/my%20tables", "/data/my tables"),
        ("file:/data", "/data"),
        ("s3a://bucket/tables", "s3a://bucket/tables"),
        ("abfss://box@account.dfs.core.windows.net/t", "abfss://box@account.dfs.core.windows.net/t"),
        ("gs://bucket", "gs://bucket"),
    ],
)
def test_a_supported_root_is_a_path_or_the_uri_of_a_store(place, folder):
    assert stores.folder_of(place) == folder


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ("dbfs:/mnt/lake", "DBFS has no client outside Databricks"),
        ("hdfs://name:8020/lake", "delta-rs, which commits to the tables, has no client for HDFS"),
        ("ftp://host/lake", "ftp: is not a file system that tables can be written to"),
        ("s3:/bucket/lake", "s3: is not a file system"),
        ("file://host/lake", "file:// URIs name no host"),
    ],
)
def test_an_unsupported_root_is_refused_in_one_line_and_makes_no_folder(root, reason, tmp_path, monkeypatch, capsys):
    """The reason, and the supported kinds."""
    from jobs.main import run

    monkeypatch.chdir(tmp_path)

    assert [run([job, "--root", root]) for job in ("incidents", "key-slots", "demo")] == [2, 2, 2]

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"slotscope: {root}: ") and reason in line for line in lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Generic GCS error\n  \x1b[31m↳\x1b[0m Error performing GET http://127.0.0.1:4443/lake?list-type=2 in 3ms, after 4 retries, "
            "max_retries 4, retry_timeout 180s - Server returned non-2xx status code\n  ↳ 501 Not Implemented\n",
            "the store answers 501 Not Implemented",
        ),
        (
            "Generic GCS error\n  ↳ Error performing GET http://127.0.0.1:9/lake in 3s - HTTP error: error sending request",
            "the store at http://127.0.0.1:9 does not answer: check its endpoint and the network (docs/clusters.md)",
        ),
    ],
)
def test_a_failing_store_of_any_kind_is_named(text, reason):
    """As delta-rs reported them; a timeout of retries is no timeout of the store."""
    assert stores.reason(OSError(text)) == reason
