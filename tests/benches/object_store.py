"""A real S3 server on this machine (moto's): buckets, users with rights, objects."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.benches.servers import await_port, free_port

REGION = "us-east-1"
KEY, SECRET = "AKIDOFTHETESTS", "a-secret-of-the-tests"
READING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["s3:Get*", "s3:List*"], "Resource": "*"}],
}


@dataclass(frozen=True)
class ObjectStore:
    endpoint: str

    def client(self, service: str = "s3") -> Any:
        import boto3

        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def environment(self, key: str = KEY, secret: str = SECRET) -> dict[str, str]:
        """How a user of AWS names it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
        }

    def put(self, uri: str, file: Path) -> None:
        bucket, _, key = uri.partition("/")
        self.client().upload_file(str(file), bucket, key)

    def names(self, bucket: str) -> list[str]:
        return [entry["Key"] for entry in self.client().list_objects_v2(Bucket=bucket).get("Contents", [])]

    def read(self, bucket: str, name: str) -> bytes:
        content: bytes = self.client().get_object(Bucket=bucket, Key=name)["Body"].read()
        return content

    def add_reader(self) -> tuple[str, str]:
        """Key and secret of a new user who may read and write nothing; from now on the store asks who one is."""
        users = self.client("iam")
        users.create_user(UserName="reader")
        users.put_user_policy(UserName="reader", PolicyName="reading", PolicyDocument=json.dumps(READING))
        made = users.create_access_key(UserName="reader")["AccessKey"]
        self.ask_everyone(after=0)
        return made["AccessKeyId"], made["SecretAccessKey"]

    def ask_everyone(self, *, after: int) -> None:
        """Check credentials from the request number *after* on."""
        plain = {"Content-Type": "text/plain"}
        urlopen(Request(f"{self.endpoint}/moto-api/reset-auth", str(after).encode(), plain, method="POST")).close()


@contextmanager
def object_store(*buckets: str) -> Iterator[ObjectStore]:
    """A server with *buckets*, in a process of its own: delta-rs keeps Python's lock while it waits for an answer."""
    port = free_port()
    command = [sys.executable, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            await_port(port)
            store = ObjectStore(f"http://127.0.0.1:{port}")
            for bucket in buckets:
                store.client().create_bucket(Bucket=bucket)
            yield store
        finally:
            process.terminate()
