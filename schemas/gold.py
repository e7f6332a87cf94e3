"""Tables that answer a question."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from schemas.bronze import KEY_FIELDS, SNAPSHOT_ID
from schemas.table import PARTIAL, Table, optional, required, with_texts

NODE_LOAD = Table(
    "gold/node_load",
    "Load of every master and its share of the whole.",
    StructType(
        [
            SNAPSHOT_ID,
            optional("node_id", StringType(), "master; null if no topology was given"),
            optional("address", StringType(), "host:port"),
            required("slots", IntegerType(), "slots the node owns"),
            required("keys", LongType(), "keys it holds"),
            optional("serialized_bytes", LongType(), "bytes in the dumps"),
            optional("memory_bytes", LongType(), "estimated bytes in memory"),
            optional("expires", LongType(), "keys with a time to live"),
            optional("ops", LongType(), "operations, if a key list has them"),
            required("keys_share", DoubleType(), "of all keys, 0 to 1"),
            optional("bytes_share", DoubleType(), "of all bytes, 0 to 1"),
            required("keys_over_mean", DoubleType(), "keys divided by the mean of the masters"),
            optional("bytes_over_mean", DoubleType(), "bytes divided by the mean of the masters"),
            PARTIAL,
            optional(
                "unread_share", DoubleType(), "of its own inputs that could not be read, 0 to 1; null if not known"
            ),
        ]
    ),
    key=("snapshot_id", "node_id"),
    partition_by=("snapshot_id",),
)

BIG_KEYS = Table(
    "gold/big_keys",
    "The largest keys of the cluster, of each node, slot and type.",
    StructType(
        [
            SNAPSHOT_ID,
            required("scope", StringType(), "cluster, node, slot or type"),
            required("scope_value", StringType(), "node id, slot number or type; empty for the cluster"),
            required("rank", IntegerType(), "1 is the largest in its scope"),
            optional("node_id", StringType(), "master that holds the key"),
            *with_texts(KEY_FIELDS),
            required("source", StringType(), "file the key was read from"),
            PARTIAL,
        ]
    ),
    key=("snapshot_id", "scope", "scope_value", "rank"),
    partition_by=("snapshot_id",),
)

_GROUP = [
    required("keys", LongType(), "keys counted"),
    optional("serialized_bytes", LongType(), "bytes counted"),
    optional("expires", LongType(), "keys with a time to live among them"),
    required("keys_error", LongType(), "the true number is at most this much higher"),
    required("bytes_error", LongType(), "the true bytes are at most this much higher"),
]

HASH_TAGS = Table(
    "gold/hash_tags",
    "The heaviest hash tags, by keys and by bytes.",
    StructType(
        [
            SNAPSHOT_ID,
            *with_texts([required("hash_tag", BinaryType(), "bytes between the braces")]),
            required("slot", IntegerType(), "slot of all its keys"),
            optional("node_id", StringType(), "owner of the slot"),
            *_GROUP,
            required("rank_keys", IntegerType(), "1 has the most keys"),
            required("rank_bytes", IntegerType(), "1 has the most bytes"),
            PARTIAL,
        ]
    ),
    key=("snapshot_id", "hash_tag"),
    partition_by=("snapshot_id",),
)

KEY_PREFIXES = Table(
    "gold/key_prefixes",
    "Keys and bytes below each prefix that ends in a separator, heaviest first.",
    StructType(
        [
            SNAPSHOT_ID,
            *with_texts([required("prefix", BinaryType(), "beginning of the keys, with its last separator")]),
            required("depth", IntegerType(), "number of separators in it"),
            *_GROUP,
            required("rank_bytes", IntegerType(), "1 has the most bytes within its depth"),
            PARTIAL,
        ]
    ),
    key=("snapshot_id", "prefix"),
    partition_by=("snapshot_id",),
)

TTL_BUCKETS = Table(
    "gold/ttl_buckets",
    "Keys by remaining time to live, counted from the clock of the dump they are in.",
    StructType(
        [
            SNAPSHOT_ID,
            optional("node_id", StringType(), "master that holds the keys"),
            required("bucket", IntegerType(), "order of the bucket"),
            required("label", StringType(), "e.g. 1 h to 1 d"),
            required("keys", LongType(), "keys in it"),
            optional("serialized_bytes", LongType(), "bytes of these keys"),
            PARTIAL,
        ]
    ),
    key=("snapshot_id", "node_id", "bucket"),
    partition_by=("snapshot_id",),
)
