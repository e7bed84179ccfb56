"""The benchmarks' operations are the benchmarks' alone."""

from benchmarks.operations import OPERATIONS as OF_BENCHMARKS
from chp_site.operations import OPERATIONS
from jobs.profile import SiteLock
from tests.architecture.source import imports, modules


def test_the_products_table_has_none_of_them() -> None:
    names = {operation.name for operation in OF_BENCHMARKS}
    assert names == {"BENCH_NOOP", "BENCH_SLEEP"}
    assert not names & {operation.name for operation in OPERATIONS}


def test_the_product_does_not_know_the_benchmarks() -> None:
    knows = [
        module.path
        for module in modules()
        for _, name in imports(module.tree)
        if name.partition(".")[0] == "benchmarks"
    ]
    assert knows == []


def test_they_need_no_site() -> None:
    assert {operation.profile.lock for operation in OF_BENCHMARKS} == {SiteLock.NONE}
