"""Keys that could expire, keys and tags that should be split."""

from __future__ import annotations

from cluster_core.advice.totals import PrefixTotals, Splittable, expiries, splits


def test_prefixes_without_expiry_are_listed_once_by_untouched_keys():
    held = [
        PrefixTotals(b"a:", 100, 0, 5000, 4000), PrefixTotals(b"a:b:", 50, 0, 2500, 2000), PrefixTotals(b"c:", 100, 3, 5000, 5000), PrefixTotals(b"d:", 10, 0, 10, 10),
    ]  # fmt: skip

    assert [(expiry.subject, expiry.saved_bytes) for expiry in expiries(held, 10_000)] == [(b"a:", 4000)]


def test_untouched_keys_are_not_guessed():
    (hint,) = expiries([PrefixTotals(b"a:", 100, 0, 5000, None)], 10_000)

    assert hint.saved_bytes is None
    assert "not recorded" in hint.how


def test_a_large_key_is_cut_into_pieces_and_its_slot_named():
    (hint,) = splits([Splittable("split_key", b"big", 7, 50_000, 1000, "elements")], {7: 60_000}, 1_000_000)

    assert "5 pieces of about 200 elements" in hint.how
    assert "slot 7 falls from 0.06 to about 0.02 MB" in hint.how


def test_small_keys_and_single_elements_are_left_whole():
    assert (
        splits(
            [
                Splittable("split_key", b"s", 1, 9_000, 10, "elements"),
                Splittable("split_key", b"t", 2, 90_000, 1, "elements"),
            ],
            {},
            1_000_000,
        )
        == []
    )


def test_a_tag_is_split_without_the_keys_that_are_cut():
    large = Splittable("split_key", b"{t}:large", 3, 900_000, 1000, "bytes")
    few = Splittable("split_tag", b"t", 3, 905_000, 51, "keys")
    many = Splittable("split_tag", b"t", 3, 940_000, 41, "keys")

    (key,) = splits([large, few], {3: 905_000}, 1_000_000)
    _, tag = splits([large, many], {3: 940_000}, 1_000_000)

    assert "90 pieces of about 11 bytes" in key.how
    assert "4 pieces of about 10 keys, beside 1 listed separately," in tag.how
    assert "slot 3 falls from 0.94 to about 0.91 MB" in tag.how
