"""Headers that arrive, in the compiled gossip loop: what is news in them, and a replica that has taken its master's place (`gossip_hearing`)."""

# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_core.gossip.flags import FAIL, HANDSHAKE, MASTER, MEET, MIGRATE_TO, NOADDR, NOFAILOVER, REPLICA, ROLES
from cluster_core.kernels.compiled import borrowing
from cluster_core.sim.fast import gossip_fields as f
from cluster_core.sim.fast.gossip_messages import PING, PONG_KIND
from cluster_core.sim.fast.gossip_parts import Arrays, change_flags

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@borrowing(inline="always")
def is_news(g: Arrays, r: int, s: int, m: NDArray[np.int64]) -> bool:
    """Whether a header says of *s* what *r* does not know (_note_sender, _on_gossip but for the gossip)."""
    wide, narrow, rows = g.wide, g.narrow, g.rows
    known, said, master = g.flags[r, s], m[f.M_FLAGS], m[f.M_MASTER]
    if known & (HANDSHAKE | MEET | NOADDR) or master == f.UNKNOWN:
        return True
    if raises_epoch(g, r, s, m) and (master == f.NONE or g.control[f.KEEPS_CONFIGS]):
        return True
    if m[f.M_KIND] > PONG_KIND:
        return False
    if (known ^ said) & NOFAILOVER:
        return True
    if m[f.M_KIND] == PING and g.flags[r, s] >> f.ADDRESS_SHIFT != rows[f.MY_ADDRESS, s]:
        return True
    if master == f.NONE:
        if not known & MASTER:
            return True
    elif known & MASTER or not narrow[r, master, f.KNOWN] or narrow[r, s, f.MASTER_OF] != master:
        return True
    if known & MASTER:
        if narrow[r, s, f.SLOTS] != m[f.M_SLOTS]:
            return True
        if g.flags[r, r] & MASTER and wide[r, r, f.EPOCH] == m[f.M_CONFIG_EPOCH] and r < s:
            return True
    elif rows[f.REPLICAS_CLAIM, r] and narrow[r, master, f.SLOTS] != m[f.M_SLOTS]:
        return True
    if rows[f.SHARD_IDS, r]:
        shard = m[f.M_SHARD]
        if not shard and narrow[r, s, f.MASTER_OF] >= 0:
            shard = narrow[r, narrow[r, s, f.MASTER_OF], f.SHARD]
        return shard != 0 and shard != narrow[r, s, f.SHARD]
    return False


@borrowing(inline="always")
def raises_epoch(g: Arrays, r: int, s: int, m: NDArray[np.int64]) -> bool:
    """Whether a header raises the config epoch that *r* knows of *s* (learn_epochs)."""
    return m[f.M_CONFIG_EPOCH] > g.wide[r, s, f.EPOCH] and (m[f.M_MASTER] == f.NONE or g.rows[f.REPLICAS_RAISE, r] != 0)


@borrowing(inline="always")
def may_take_over(g: Arrays, r: int, s: int, m: NDArray[np.int64]) -> bool:
    """Whether a replica of another shard tells that it has taken its master's place, with all slots, and nothing else follows for
    *r* (learn_role, read_claims).
    """
    wide, narrow, rows = g.wide, g.narrow, g.rows
    known, epoch = g.flags[r, s], m[f.M_CONFIG_EPOCH]
    if m[f.M_KIND] > PONG_KIND or m[f.M_MASTER] != f.NONE or known & (MASTER | HANDSHAKE | MEET | NOADDR):
        return False
    old, mine = narrow[r, s, f.MASTER_OF], narrow[r, r, f.MASTER_OF]
    if old < 0 or not narrow[r, old, f.KNOWN] or not g.flags[r, old] & MASTER:
        return False
    if old == r:
        return False
    if old == mine:
        return False
    said = m[f.M_SLOTS]
    if narrow[r, old, f.SLOTS] != said or g.slot_counts[said] == 0 or narrow[r, s, f.SLOTS] != 0:
        return False
    if epoch <= wide[r, s, f.EPOCH] or epoch <= wide[r, old, f.EPOCH]:
        return False
    if rows[f.ELECTS, r] or not rows[f.SETTLED, r] or g.control[f.KEEPS_CONFIGS]:
        return False
    if (known ^ m[f.M_FLAGS]) & NOFAILOVER or (
        m[f.M_KIND] == PING and g.flags[r, s] >> f.ADDRESS_SHIFT != rows[f.MY_ADDRESS, s]
    ):
        return False
    if rows[f.SHARD_IDS, r]:
        shard = narrow[r, s, f.SHARD]
        if (m[f.M_SHARD] != 0 and m[f.M_SHARD] != shard) or (
            rows[f.SHARD_JOINS, r] and shard != 0 and shard == narrow[r, r, f.SHARD]
        ):
            return False
    if mine >= 0 and not rows[f.CHAINS_FOLD_EARLY, r] and g.flags[r, mine] & REPLICA:
        return False
    return not (g.flags[r, r] & MASTER and wide[r, r, f.EPOCH] == epoch and r < s)


@borrowing()
def take_over(g: Arrays, r: int, s: int, m: NDArray[np.int64]) -> None:
    """A replica has become a master in the place of its own (become_master, take_claims)."""
    narrow = g.narrow
    old = narrow[r, s, f.MASTER_OF]
    narrow[r, s, f.MASTER_OF] = f.NONE
    followed = False
    for h in range(g.rows.shape[1]):
        if narrow[r, h, f.KNOWN] and narrow[r, h, f.MASTER_OF] == old:
            followed = True
            break
    if not followed:
        change_flags(g, r, old, g.flags[r, old] & ~MIGRATE_TO)
    change_flags(g, r, s, (g.flags[r, s] & ~ROLES) | MASTER | MIGRATE_TO)
    narrow[r, old, f.SLOTS], narrow[r, s, f.SLOTS] = 0, m[f.M_SLOTS]
    g.rows[f.STALE, r] = 1


@borrowing()
def verdict_is_news(g: Arrays, r: int, subject: int) -> bool:
    """Whether more follows from a FAIL than a flag (_on_fail, _health_changed)."""
    if not g.narrow[r, subject, f.KNOWN]:
        return True
    if subject == r or g.flags[r, subject] & FAIL:
        return False
    return g.control[f.KEEPS_CONFIGS] != 0 or g.narrow[r, r, f.MASTER_OF] == subject
