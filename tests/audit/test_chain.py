"""The chain as pure values: any change of any entry is found, at the entry where it was made."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.chain import COLUMNS, GENESIS, Mark, Verdict, canonical, mac_of, verify, verify_end

KEY = bytes(range(32))
KEYS = {"k1": KEY, "k2": bytes(range(32, 64))}

Row = dict[str, object]


def chain_of(length: int, key_id: str = "k1", **changed: str) -> list[Row]:
    """Give a good chain of this length."""
    rows: list[Row] = []
    previous = GENESIS
    for sequence in range(1, length + 1):
        row: Row = dict.fromkeys(COLUMNS, "")
        row.update(
            sequence=sequence, actor="alice", data='{"a":1}', key_id=key_id, previous=previous, **changed
        )
        row["mac"] = previous = mac_of(row, KEYS[key_id])
        rows.append(row)
    return rows


def first_problem(rows: list[Row], anchor: Mark | None = None) -> tuple[int, str] | None:
    problem = verify(rows, KEYS, anchor).problem
    return (problem.sequence, problem.kind) if problem else None


def test_good_chain_is_intact() -> None:
    rows = chain_of(20)
    assert verify(rows, KEYS) == Verdict(20, str(rows[-1]["mac"]))


def test_empty_chain_is_intact() -> None:
    assert verify([], KEYS) == Verdict(0, GENESIS)


def test_chain_goes_on_over_a_change_of_keys() -> None:
    rows = chain_of(1)
    second: Row = {**rows[0], "sequence": 2, "key_id": "k2", "previous": rows[0]["mac"]}
    second["mac"] = mac_of(second, KEYS["k2"])
    assert first_problem([*rows, second]) is None


def test_canonical_line_is_stable() -> None:
    row = chain_of(1, reason='ü "quoted"\n')[0]
    assert canonical(row) == (
        b'{"action":"","actor":"alice","actor_kind":"","at":"","data":"{\\"a\\":1}","key_id":"k1","previous":"'
        + b"0" * 64
        + b'","reason":"\\u00fc \\"quoted\\"\\n","result":"","sequence":1,"target":"","tenant":""}'
    )


def test_composed_and_decomposed_letters_are_two_texts() -> None:
    composed, decomposed = chain_of(1, reason="\u00fc")[0], chain_of(1, reason="u\u0308")[0]
    assert composed["mac"] != decomposed["mac"]


@pytest.mark.parametrize("column", [name for name in COLUMNS if name not in ("sequence", "key_id")])
def test_every_column_is_covered(column: str) -> None:
    rows = chain_of(5)
    rows[2][column] = f"{rows[2][column]}x"
    assert first_problem(rows) == (3, "altered")


def test_unknown_key_is_named() -> None:
    rows = chain_of(5)
    rows[2]["key_id"] = "k9"
    assert first_problem(rows) == (3, "unknown_key")


def test_other_known_key_does_not_fit() -> None:
    rows = chain_of(5)
    rows[2]["key_id"] = "k2"
    assert first_problem(rows) == (3, "altered")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("sequence", "3"),
        ("sequence", None),
        ("sequence", True),
        ("sequence", 3.0),
        ("reason", None),
        ("mac", b"0"),
        ("mac", "ü"),
    ],
)
def test_value_that_the_panel_never_writes_is_malformed(column: str, value: object) -> None:
    rows = chain_of(5)
    rows[2][column] = value
    assert first_problem(rows) == (3, "malformed")


def test_missing_and_additional_columns_are_malformed() -> None:
    rows = chain_of(2)
    del rows[0]["tenant"]
    assert first_problem(rows) == (1, "malformed")
    rows = chain_of(2)
    rows[1]["extra"] = ""
    assert first_problem(rows) == (2, "malformed")


def test_deleted_entry_is_missed() -> None:
    rows = chain_of(9)
    assert first_problem(rows[:3] + rows[5:]) == (4, "missing")


def test_cut_off_start_is_missed() -> None:
    assert first_problem(chain_of(9)[4:]) == (1, "missing")


def test_repeated_entry_is_found() -> None:
    rows = chain_of(5)
    assert first_problem(rows[:3] + rows[2:]) == (4, "unexpected")


def test_entry_of_another_chain_with_the_same_key_is_found() -> None:
    ours, other = chain_of(9), chain_of(9, reason="other")
    assert first_problem(ours[:4] + other[4:]) == (5, "relinked")


def test_swapped_entries_are_found_also_when_renumbered() -> None:
    rows = chain_of(5)
    swapped = [{**rows[2], "sequence": 2}, {**rows[1], "sequence": 3}]
    assert first_problem([rows[0], *swapped, *rows[3:]]) == (2, "altered")


def test_cut_off_end_is_found_by_the_anchor() -> None:
    rows = chain_of(9)
    anchor = Mark(8, str(rows[7]["mac"]))
    assert first_problem(rows[:6], anchor) == (7, "cut_off")
    assert first_problem(rows[:6]) is None


def test_emptied_chain_is_found_by_the_anchor() -> None:
    assert first_problem([], Mark(1, "f" * 64)) == (1, "cut_off")


def test_replaced_chain_is_found_by_the_anchor() -> None:
    anchor = Mark(5, str(chain_of(9)[4]["mac"]))
    assert first_problem(chain_of(9, reason="other"), anchor) == (5, "replaced")
    assert first_problem(chain_of(9), anchor) is None


@pytest.mark.parametrize(
    ("head", "kind", "sequence"),
    [
        (None, "head_missing", 3),
        (Mark(4, GENESIS), "cut_off", 4),
        (Mark(2, GENESIS), "behind_head", 3),
        (Mark(3, GENESIS), "head_altered", 3),
    ],
)
def test_head_that_does_not_name_the_end_is_found(head: Mark | None, kind: str, sequence: int) -> None:
    problem = verify_end(verify(chain_of(3), KEYS), head).problem
    assert problem is not None
    assert (problem.kind, problem.sequence) == (kind, sequence)


def test_earlier_problem_is_not_replaced_by_the_heads() -> None:
    verdict = verify(chain_of(3)[1:], KEYS)
    assert verify_end(verdict, None) == verdict


def test_head_of_a_good_chain_fits() -> None:
    verdict = verify(chain_of(3), KEYS)
    assert verify_end(verdict, Mark(3, verdict.last_mac)) == replace(verdict, problem=None)
    assert verify_end(Verdict(0, GENESIS), Mark(0, GENESIS)).problem is None
    assert verify_end(Verdict(0, GENESIS), None).problem is None


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_change_of_any_chain_is_found_where_it_was_made(data: st.DataObject) -> None:
    rows = chain_of(data.draw(st.integers(2, 12)), reason=data.draw(st.text(max_size=5)))
    place = data.draw(st.integers(0, len(rows) - 2))
    act = data.draw(st.sampled_from(["edit", "delete", "repeat", "swap"]))
    if act == "edit":
        column = data.draw(st.sampled_from(COLUMNS[1:]))
        value = data.draw(st.text(max_size=70).filter(lambda text: text != rows[place][column]))
        rows[place][column] = value
    elif act == "delete":
        del rows[place]
    elif act == "repeat":
        rows.insert(place, rows[place])
        place += 1
    else:
        rows[place], rows[place + 1] = rows[place + 1], rows[place]
    problem = first_problem(rows)
    assert problem is not None
    assert problem[0] == place + 1
