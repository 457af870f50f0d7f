"""The documents say what is true."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_reference_of_options_is_that_of_the_declaration() -> None:
    spec = importlib.util.spec_from_file_location("make_options", DOCS / "make_options.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "options.md").read_text() == module.reference(), "run docs/make_options.py"
