"""Tables that answer a question."""

from __future__ import annotations

from schemas.bronze import KEY_FIELDS
from schemas.table import BYTES, DOUBLE, INTEGER, LONG, PARTIAL, TEXT, optional, required, snapshot_table, with_texts

NODE_LOAD = snapshot_table(
    "gold/node_load",
    "Load of every master and its share of the whole.",
    [
        optional("node_id", TEXT, "master; null if no topology was given"),
        optional("address", TEXT, "host:port"),
        required("slots", INTEGER, "slots the node owns"),
        required("keys", LONG, "keys it holds"),
        optional("serialized_bytes", LONG, "bytes in the dumps"),
        optional("memory_bytes", LONG, "estimated bytes in memory"),
        optional("expires", LONG, "keys with a time to live"),
        optional("ops", LONG, "operations, if a key list has them"),
        required("keys_share", DOUBLE, "of all keys, 0 to 1"),
        optional("bytes_share", DOUBLE, "of all bytes, 0 to 1"),
        required("keys_over_mean", DOUBLE, "keys divided by the mean of the masters"),
        optional("bytes_over_mean", DOUBLE, "bytes divided by the mean of the masters"),
        PARTIAL,
        optional("unread_share", DOUBLE, "of its own inputs that could not be read, 0 to 1; null if not known"),
    ],
    key=("node_id",),
)

BIG_KEYS = snapshot_table(
    "gold/big_keys",
    "The largest keys of the cluster, of each node, slot and type: by memory, or by bytes of the dump where memory is not known.",
    [
        required("scope", TEXT, "cluster, node, slot or type"),
        required("scope_value", TEXT, "node id, slot number or type; empty for the cluster"),
        required("rank", INTEGER, "1 is the largest in its scope"),
        optional("node_id", TEXT, "master that holds the key"),
        *with_texts(KEY_FIELDS),
        required("source", TEXT, "file the key was read from"),
        PARTIAL,
    ],
    key=("scope", "scope_value", "rank"),
)

_GROUP = [
    required("keys", LONG, "keys counted"),
    optional("serialized_bytes", LONG, "bytes counted"),
    optional("memory_bytes", LONG, "estimated bytes in memory of those that a model knows"),
    optional("expires", LONG, "keys with a time to live among them"),
    required("keys_error", LONG, "the true number is at most this much higher"),
    required("bytes_error", LONG, "the true bytes are at most this much higher"),
    optional("memory_error", LONG, "the true bytes in memory are at most this much higher"),
]

HASH_TAGS = snapshot_table(
    "gold/hash_tags",
    "The heaviest hash tags, by keys and by memory, or bytes where memory is not known.",
    [
        *with_texts([required("hash_tag", BYTES, "bytes between the braces")]),
        required("slot", INTEGER, "slot of all its keys"),
        optional("node_id", TEXT, "owner of the slot"),
        *_GROUP,
        required("rank_keys", INTEGER, "1 has the most keys"),
        required("rank_bytes", INTEGER, "1 has the most bytes in memory, or of the dump where memory is not known"),
        PARTIAL,
    ],
    key=("hash_tag",),
)

KEY_PREFIXES = snapshot_table(
    "gold/key_prefixes",
    "Keys and bytes below each prefix that ends in a separator, heaviest first.",
    [
        *with_texts([required("prefix", BYTES, "beginning of the keys, with its last separator")]),
        required("depth", INTEGER, "number of separators in it"),
        *_GROUP,
        required(
            "rank_bytes",
            INTEGER,
            "1 has the most bytes within its depth: in memory, or of the dump where memory is not known",
        ),
        PARTIAL,
    ],
    key=("prefix",),
)

KEY_TYPES = snapshot_table(
    "gold/key_types",
    "How many keys of each type every master holds, and what they weigh.",
    [
        optional("node_id", TEXT, "master that holds the keys"),
        optional("type", TEXT, "as TYPE replies; null for keys of lists that do not say"),
        required("keys", LONG, "keys of the type, all of them"),
        optional("serialized_bytes", LONG, "bytes of these keys in the dumps"),
        optional("memory_bytes", LONG, "estimated bytes in memory of those that a model knows"),
        optional("expires", LONG, "keys with a time to live among them"),
        PARTIAL,
    ],
    key=("node_id", "type"),
)

KEY_SIZES = snapshot_table(
    "gold/key_sizes",
    "Keys of each type and master by size and by elements, in ranges each of which is twice as wide as the one before.",
    [
        optional("node_id", TEXT, "master that holds the keys"),
        optional("type", TEXT, "as TYPE replies; null for keys of lists that do not say"),
        required(
            "measure",
            TEXT,
            "memory_bytes, serialized_bytes where no model knows the memory, or elements, which strings have none of",
        ),
        required("at_least", LONG, "0, 1, 2, 4, 8 …: the least of the range"),
        required("keys", LONG, "keys from there to below the double of it"),
        required("total", LONG, "what they have of the measure together"),
        PARTIAL,
    ],
    key=("node_id", "type", "measure", "at_least"),
)

TTL_BUCKETS = snapshot_table(
    "gold/ttl_buckets",
    "Keys by remaining time to live, counted from the clock of the dump they are in.",
    [
        optional("node_id", TEXT, "master that holds the keys"),
        required("bucket", INTEGER, "order of the bucket"),
        required("label", TEXT, "e.g. 1 h to 1 d"),
        required("keys", LONG, "keys in it"),
        optional("serialized_bytes", LONG, "bytes of these keys"),
        PARTIAL,
    ],
    key=("node_id", "bucket"),
)

KEY_USE = snapshot_table(
    "gold/key_use",
    "Hot, cold and doomed: how often keys are used, memory that nobody touched, memory that expires; of the cluster, each node, slot and prefix.",
    [
        required("scope", TEXT, "cluster, node, slot or prefix"),
        required("scope_value", BYTES, "node id, slot number or prefix; empty for the cluster"),
        optional("scope_value_text", TEXT, "scope_value as text, escaped as in the reports"),
        required("keys", LONG, "keys counted"),
        optional(
            "weight_bytes",
            LONG,
            "their bytes in memory, or of the dump where memory is not known; so are all bytes of this table",
        ),
        optional(
            "expires", LONG, "keys with a time to live among them; null, as what follows, where no input knows it"
        ),
        optional(
            "untouched_1d_bytes",
            LONG,
            "of keys that nobody touched for a day; null: not recorded (maxmemory-policy is not LRU)",
        ),
        optional("untouched_7d_bytes", LONG, "for 7 days"),
        optional("untouched_30d_bytes", LONG, "for 30 days"),
        optional("expiring_1h_bytes", LONG, "of keys that expire within an hour of the dump"),
        optional("expiring_1d_bytes", LONG, "within a day"),
        optional("expiring_7d_bytes", LONG, "within 7 days"),
        optional("expiring_bytes", LONG, "of all keys with a time to live"),
        optional(
            "ops_per_s",
            DOUBLE,
            "accesses a second, estimated from LFU counters; null: not recorded (maxmemory-policy is not LFU)",
        ),
        optional(
            "ops_per_s_error",
            DOUBLE,
            "they are at most this much more by counters that say only so; null: ops_per_s is the least there may be (lfu-decay-time is 2 or more)",
        ),
        PARTIAL,
    ],
    key=("scope", "scope_value"),
)
