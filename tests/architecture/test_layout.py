"""Names of files and folders, and what templates may not do."""

import re

import pytest

from tests.architecture.source import ROOT, modules

# A file of this name has no subject; what is in it has one.
SHAPELESS = re.compile(r"(^|/)(utils?|helpers?|commons?|misc|managers?|services?)(\.py|/)")
UNESCAPED = re.compile(r"\|\s*safe\b|\|\s*safeseq\b|{%\s*autoescape\s+off|{%\s*debug")


def test_every_file_is_named_by_its_subject() -> None:
    assert [module.path for module in modules() if SHAPELESS.search(module.path)] == []


@pytest.mark.parametrize(
    "path", ["jobs/utils.py", "panel/helpers/forms.py", "sites/manager.py", "api/services.py"]
)
def test_a_planted_shapeless_name_is_found(path: str) -> None:
    assert SHAPELESS.search(path)


def test_templates_escape_everything() -> None:
    pages = (ROOT / "templates").rglob("*.html")
    assert [str(page) for page in pages if UNESCAPED.search(page.read_text("utf-8"))] == []


@pytest.mark.parametrize("text", ["{{ name|safe }}", "{{ name | safe }}", "{% autoescape off %}"])
def test_a_planted_unescaped_value_is_found(text: str) -> None:
    assert UNESCAPED.search(text)


def test_every_folder_of_tests_is_a_package() -> None:
    """Without its `__init__.py`, tests/jobs would stand in the way of jobs."""
    folders = {file.parent for file in (ROOT / "tests").rglob("test_*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []
