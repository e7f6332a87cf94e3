"""Gold tables of key spaces: load per master, big keys, hash tags, prefixes, types, sizes, expiry, access."""

from __future__ import annotations

from schemas.bronze import KEY_FIELDS
from schemas.table import BYTES, DOUBLE, INTEGER, LONG, PARTIAL, TEXT, optional, required, snapshot_table, with_texts

NODE_LOAD = snapshot_table(
    "gold/node_load",
    "Load of every master and its share of the whole.",
    [
        optional("node_id", TEXT, "master; null without a topology"),
        optional("address", TEXT, "host:port"),
        required("slots", INTEGER, "slots the node owns"),
        required("keys", LONG, "keys it holds"),
        optional("serialized_bytes", LONG, "dump bytes"),
        optional("memory_bytes", LONG, "estimated memory"),
        optional("expires", LONG, "keys with an expiry"),
        optional("ops", LONG, "operations, if a key list counts them"),
        required("keys_share", DOUBLE, "share of all keys"),
        optional("bytes_share", DOUBLE, "share of all dump bytes"),
        required("keys_over_mean", DOUBLE, "keys over the mean of all masters"),
        optional("bytes_over_mean", DOUBLE, "dump bytes over the mean of all masters"),
        PARTIAL,
        optional("unread_share", DOUBLE, "unread share of its own inputs; null if unknown"),
    ],
    key=("node_id",),
)

BIG_KEYS = snapshot_table(
    "gold/big_keys",
    "Largest keys of the cluster, of each node, slot and type, by memory (without a model by dump bytes).",
    [
        required("scope", TEXT, "cluster, node, slot or type"),
        required("scope_value", TEXT, "node id, slot number or type; empty for the cluster"),
        required("rank", INTEGER, "1 is the largest in its scope"),
        optional("node_id", TEXT, "master of the key"),
        *with_texts(KEY_FIELDS),
        required("source", TEXT, "file of the key"),
        PARTIAL,
    ],
    key=("scope", "scope_value", "rank"),
)

_GROUP = [
    required("keys", LONG, "keys counted"),
    optional("serialized_bytes", LONG, "bytes counted"),
    optional("memory_bytes", LONG, "estimated memory of keys with a model"),
    optional("expires", LONG, "keys with an expiry"),
    required("keys_error", LONG, "upper bound of the undercount"),
    required("bytes_error", LONG, "upper bound of the undercounted dump bytes"),
    optional("memory_error", LONG, "upper bound of the undercounted memory"),
]

HASH_TAGS = snapshot_table(
    "gold/hash_tags",
    "Heaviest hash tags, by keys and by memory (without a model by dump bytes).",
    [
        *with_texts([required("hash_tag", BYTES, "bytes between the braces")]),
        required("slot", INTEGER, "slot of all its keys"),
        optional("node_id", TEXT, "owner of the slot"),
        *_GROUP,
        required("rank_keys", INTEGER, "rank by keys; 1 has most"),
        required("rank_bytes", INTEGER, "rank by memory, without a model by dump bytes; 1 is the heaviest"),
        PARTIAL,
    ],
    key=("hash_tag",),
)

KEY_PREFIXES = snapshot_table(
    "gold/key_prefixes",
    "Keys and bytes below each prefix that ends in a separator, heaviest first.",
    [
        *with_texts([required("prefix", BYTES, "prefix, including its last separator")]),
        required("depth", INTEGER, "number of separators"),
        *_GROUP,
        required(
            "rank_bytes",
            INTEGER,
            "rank within its depth by memory, without a model by dump bytes",
        ),
        PARTIAL,
    ],
    key=("prefix",),
)

KEY_TYPES = snapshot_table(
    "gold/key_types",
    "Keys and bytes by type and master.",
    [
        optional("node_id", TEXT, "master of the keys"),
        optional("type", TEXT, "type as in TYPE; null for key lists without one"),
        required("keys", LONG, "keys"),
        optional("serialized_bytes", LONG, "dump bytes"),
        optional("memory_bytes", LONG, "estimated memory of keys with a model"),
        optional("expires", LONG, "keys with an expiry"),
        PARTIAL,
    ],
    key=("node_id", "type"),
)

KEY_SIZES = snapshot_table(
    "gold/key_sizes",
    "Keys by type and master in ranges of size or elements that double.",
    [
        optional("node_id", TEXT, "master of the keys"),
        optional("type", TEXT, "type as in TYPE; null for key lists without one"),
        required(
            "measure",
            TEXT,
            "memory_bytes (without a model serialized_bytes), or elements of collections",
        ),
        required("at_least", LONG, "lower end of the range: 0, 1, 2, 4, 8 …"),
        required("keys", LONG, "keys in the range"),
        required("total", LONG, "sum of the measure"),
        PARTIAL,
    ],
    key=("node_id", "type", "measure", "at_least"),
)

TTL_BUCKETS = snapshot_table(
    "gold/ttl_buckets",
    "Keys by remaining time to live at the time of their dump.",
    [
        optional("node_id", TEXT, "master of the keys"),
        required("bucket", INTEGER, "order of the bucket"),
        required("label", TEXT, "e.g. 1 h to 1 d"),
        required("keys", LONG, "keys"),
        optional("serialized_bytes", LONG, "dump bytes"),
        PARTIAL,
    ],
    key=("node_id", "bucket"),
)

KEY_USE = snapshot_table(
    "gold/key_use",
    "Access and expiry: access rate, idle memory, expiring memory by cluster, node, slot and prefix.",
    [
        required("scope", TEXT, "cluster, node, slot or prefix"),
        required("scope_value", BYTES, "node id, slot number or prefix; empty for the cluster"),
        optional("scope_value_text", TEXT, "scope_value as text, escaped as in the reports"),
        required("keys", LONG, "keys counted"),
        optional(
            "weight_bytes",
            LONG,
            "memory, or dump bytes without a model, like all bytes of this table",
        ),
        optional("expires", LONG, "keys with an expiry; null if no input records it, like the columns below"),
        optional(
            "untouched_1d_bytes",
            LONG,
            "bytes of keys idle for a day; null without an LRU policy",
        ),
        optional("untouched_7d_bytes", LONG, "bytes of keys idle for 7 days"),
        optional("untouched_30d_bytes", LONG, "bytes of keys idle for 30 days"),
        optional("expiring_1h_bytes", LONG, "bytes of keys that expire within an hour of the dump"),
        optional("expiring_1d_bytes", LONG, "bytes of keys that expire within a day"),
        optional("expiring_7d_bytes", LONG, "bytes of keys that expire within 7 days"),
        optional("expiring_bytes", LONG, "bytes of all keys with an expiry"),
        optional(
            "ops_per_s",
            DOUBLE,
            "accesses a second, estimated from LFU counters; null without an LFU policy",
        ),
        optional(
            "ops_per_s_error",
            DOUBLE,
            "upper bound of the underestimate; null: ops_per_s is a lower bound (lfu-decay-time of 2 or more)",
        ),
        PARTIAL,
    ],
    key=("scope", "scope_value"),
)
