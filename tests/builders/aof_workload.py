"""Random commands for a real server: every writing command of the data types, in sense and nonsense, over few keys."""

from __future__ import annotations

import random
from collections.abc import Iterator

Words = list[str | bytes | int | float]
_TEXTS = ["", "a", "b", "hello", "17", "-3", "x" * 40, "y" * 70, "z" * 200]
_SCORES = ["1", "2.5", "-3", "inf", "-inf", "0.1", "1e3"]
_FIELDS = ["f", "g", "h", "number", "long" * 20]


class Workload:
    """Commands drawn from *seed*; *valkey* adds those that Valkey 9 alone has."""

    def __init__(self, seed: int, *, valkey: bool) -> None:
        self.chance = random.Random(seed)
        self.valkey = valkey
        self.makers = [self.strings, self.lists, self.sets, self.sorted_sets, self.hashes, self.streams, self.keys]

    def commands(self, count: int) -> Iterator[Words]:
        for _ in range(count):
            options = self.chance.choice(self.makers)()
            yield self.chance.choice(options)

    def key(self, kind: str) -> str:
        """A key that mostly holds *kind*; sometimes another's."""
        if self.chance.random() < 0.03:
            kind = self.chance.choice("slezhx")
        return f"{kind}:{self.chance.randint(1, 5)}"

    def text(self) -> str:
        return self.chance.choice(_TEXTS)

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.chance.randint(1, 6))]

    def some(self, values: list[str]) -> list[str]:
        return [self.chance.choice(values) for _ in range(self.chance.randint(1, 4))]

    def small(self, low: int = -3, high: int = 9) -> int:
        return self.chance.randint(low, high)

    def strings(self) -> list[Words]:
        k, other, pick = self.key("s"), self.key("s"), self.chance.choice
        commands: list[Words] = [
            ["SET", k, self.text()], ["SET", k, "5", "EX", 5000], ["SET", k, "v", "PX", 5000000], ["SET", k, "v", "KEEPTTL"],
            ["SET", k, "v", "NX"], ["SET", k, "w", "XX", "GET"], ["SET", k, "v", "EXAT", 4000000000], ["SETNX", k, "n"],
            ["SETEX", k, 1000, "v"], ["PSETEX", k, 1000000, "v"], ["GETSET", k, "v"], ["GETDEL", k],
            ["GETEX", k, "EX", 1000], ["GETEX", k, "PERSIST"], ["APPEND", k, self.text()], ["SETRANGE", k, self.small(0, 70), self.text()],
            ["INCR", k], ["DECR", k], ["INCRBY", k, 1000], ["DECRBY", k, 7], ["INCRBYFLOAT", k, "1.5"], ["MSET", k, "1", other, "22"],
            ["MSETNX", k, "1", other, "22"], ["SETBIT", k, self.small(0, 600), pick([0, 1])],
            ["BITFIELD", k, "SET", "u8", "#3", 200, "INCRBY", "i5", 100, 1], ["BITFIELD", k, "GET", "u8", 0],
            ["BITOP", pick(["AND", "OR", "XOR"]), k, other, self.key("s")], ["BITOP", "NOT", k, other],
            ["PFADD", "p:1", *[f"e{self.small(0, 4000)}" for _ in range(self.small(1, 60))]], ["PFADD", "p:2", *self.texts()],
            ["PFADD", "p:3"], ["PFMERGE", "p:4", "p:1", "p:2"], ["PFMERGE", "p:1", "p:3"], ["PFCOUNT", "p:1"],
        ]  # fmt: skip
        if self.valkey:
            commands += [["SET", k, "new", "IFEQ", self.text()], ["DELIFEQ", k, self.text()], ["MSETEX", 2, k, "1", other, "2", "EX", 900],
                      ["MSETEX", 1, k, "3", "NX"]]  # fmt: skip
        return commands

    def lists(self) -> list[Words]:
        k, other, pick = self.key("l"), self.key("l"), self.chance.choice
        side = ["LEFT", "RIGHT"]
        return [
            ["LPUSH", k, *self.texts()], ["RPUSH", k, *self.texts()], ["RPUSH", k, *self.texts()], ["LPUSHX", k, "q"], ["RPUSHX", k, "q"],
            ["LPOP", k], ["RPOP", k, 2], ["LREM", k, self.small(-2, 2), self.text()], ["LSET", k, self.small(), "set"],
            ["LINSERT", k, pick(["BEFORE", "AFTER"]), self.text(), "ins"], ["LTRIM", k, self.small(), self.small()],
            ["RPOPLPUSH", k, other], ["LMOVE", k, other, pick(side), pick(side)], ["LMPOP", 2, k, other, pick(side), "COUNT", 2],
            ["BLPOP", k, other, "0.01"], ["BLMOVE", k, other, pick(side), pick(side), "0.01"], ["BLMPOP", "0.01", 1, k, "LEFT"],
        ]  # fmt: skip

    def sets(self) -> list[Words]:
        k, other, third = self.key("e"), self.key("e"), self.key("e")
        return [
            ["SADD", k, *self.texts()], ["SADD", k, *[f"m{self.small()}" for _ in range(5)]], ["SADD", k, *range(self.small(1, 30))],
            ["SREM", k, *self.texts()], ["SPOP", k], ["SPOP", k, 3], ["SPOP", k, 100], ["SMOVE", k, other, self.text()],
            ["SINTERSTORE", k, other, third], ["SUNIONSTORE", k, other, third], ["SDIFFSTORE", k, other, third],
        ]  # fmt: skip

    def sorted_sets(self) -> list[Words]:
        k, other, third, pick = self.key("z"), self.key("z"), self.key("z"), self.chance.choice
        pairs: Words = [word for text in self.texts() for word in (pick(_SCORES), text)]
        commands: list[Words] = [
            ["ZADD", k, *pairs], ["ZADD", k, *pairs], ["ZADD", k, pick(["NX", "XX", "GT", "LT"]), "CH", *pairs], ["ZADD", k, "INCR", "2", "a"],
            ["ZINCRBY", k, "1.5", self.text()], ["ZREM", k, *self.texts()], ["ZREMRANGEBYRANK", k, self.small(), self.small()],
            ["ZREMRANGEBYSCORE", k, pick(["-inf", "(1", "0"]), pick(["2.5", "(2.5", "+inf"])],
            ["ZADD", "equal:1", *[word for text in self.texts() for word in ("0", text)]], ["ZREMRANGEBYLEX", "equal:1", pick(["-", "[a", "(b"]), pick(["+", "[hello", "(hello"])], ["ZPOPMIN", k], ["ZPOPMAX", k, 2],
            ["ZMPOP", 2, k, other, pick(["MIN", "MAX"]), "COUNT", 2], ["BZPOPMIN", k, "0.01"], ["BZPOPMAX", k, other, "0.01"],
            ["ZUNIONSTORE", k, 2, other, third, "WEIGHTS", 2, "-1", "AGGREGATE", pick(["MIN", "MAX", "SUM"])],
            ["ZINTERSTORE", k, 2, other, self.key("e")], ["ZDIFFSTORE", k, 2, other, third],
            ["ZRANGESTORE", k, other, "0", "2"], ["ZRANGESTORE", k, other, "(0", "+inf", "BYSCORE", "LIMIT", 1, 2],
            ["ZRANGESTORE", k, "equal:1", "+", "[b", "BYLEX", "REV"], ["GEOADD", "geo:1", "13.36", "38.11", self.text(), "15.08", "37.5", "c"],
            ["GEOADD", "geo:1", *[word for city in range(6) for word in (self.small(-90, 90), self.small(-60, 60), f"city{city}")]],
            ["GEOADD", "geo:1", "XX", "13.37", "38.11", "a"],
        ]  # fmt: skip
        return commands

    def hashes(self) -> list[Words]:
        k, pick = self.key("h"), self.chance.choice
        commands: list[Words] = [
            ["HSET", k, *[word for field in self.some(_FIELDS) for word in (field, self.text())]], ["HSET", k, "number", "41"],
            ["HMSET", k, "f", "1", "g", "2"], ["HSETNX", k, pick(_FIELDS), "v"], ["HDEL", k, *self.some(_FIELDS)],
            ["HINCRBY", k, "number", 3], ["HINCRBYFLOAT", k, "number", "0.5"], ["HINCRBY", k, pick(_FIELDS), 1],
        ]  # fmt: skip
        if self.valkey:
            fields = list(dict.fromkeys(self.some(_FIELDS)))
            tail: Words = ["FIELDS", len(fields), *fields]
            commands += [
                ["HEXPIRE", k, 9000, *tail], ["HPEXPIRE", k, 9000000, pick(["NX", "XX", "GT", "LT"]), *tail], ["HPERSIST", k, *tail],
                ["HEXPIREAT", k, 4000000000, *tail], ["HGETEX", k, "EX", 8000, *tail], ["HGETEX", k, "PERSIST", *tail],
                ["HSETEX", k, "EX", 7000, "FIELDS", 2, "f", "1", "g", "2"], ["HSETEX", k, "KEEPTTL", "FIELDS", 1, "f", "3"],
                ["HSETEX", k, "FNX", "FIELDS", 1, "h", "3"], ["HPEXPIREAT", k, 1000, *tail], ["HGETDEL", k, *tail],
            ]  # fmt: skip
        return commands

    def streams(self) -> list[Words]:
        k, pick = self.key("x"), self.chance.choice
        return [
            ["XADD", k, "*", "f", self.text()], ["XADD", k, "*", "f", "1", "g", self.text()], ["XADD", k, "MAXLEN", 4, "*", "f", "1"],
            ["XADD", k, "MAXLEN", "~", 3, "*", "f", "1"], ["XADD", k, "NOMKSTREAM", "*", "f", "1"], ["XADD", k, "1-*", "f", "1"],
            ["XTRIM", k, "MAXLEN", self.small(0, 6)], ["XTRIM", k, "MAXLEN", "~", 2], ["XTRIM", k, "MINID", "99999999999999"],
            ["XDEL", k, "1-1"], ["XGROUP", "CREATE", k, pick(["g", "h"]), "0", "MKSTREAM"], ["XGROUP", "DESTROY", k, "h"],
            ["XGROUP", "SETID", k, "g", "0"], ["XREADGROUP", "GROUP", "g", "c", "COUNT", 2, "STREAMS", k, ">"],
            ["XACK", k, "g", "1-1"], ["XAUTOCLAIM", k, "g", "d", 0, 0], ["XSETID", k, "9999999999999-1"],
            ["XGROUP", "CREATECONSUMER", k, "g", "e"],
        ]  # fmt: skip

    def keys(self) -> list[Words]:
        k, other, pick = (
            self.key(self.chance.choice("slezhx")),
            self.key(self.chance.choice("slezhx")),
            self.chance.choice,
        )
        return [
            ["DEL", k, other], ["UNLINK", k], ["EXPIRE", k, 3000], ["PEXPIRE", k, 3000000, pick(["NX", "XX", "GT", "LT"])],
            ["EXPIREAT", k, 4000000000], ["EXPIRE", k, -1], ["PERSIST", k], ["RENAME", k, other], ["RENAMENX", k, other],
            ["COPY", k, other], ["COPY", k, other, "REPLACE"], ["COPY", k, "moved", "DB", 1, "REPLACE"], ["MOVE", k, 1], ["SELECT", pick([0, 0, 0, 1])],
            ["SWAPDB", 0, 1], ["EVAL", "redis.call('SET', KEYS[1], ARGV[1]); redis.call('PEXPIRE', KEYS[1], 100000)", 1, k, "v"],
            ["TOUCH", k], ["PUBLISH", "c", "m"],
        ]  # fmt: skip
