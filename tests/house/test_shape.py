"""The tool that measures code and pages counts what it says it counts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.shape import (
    ROOT,
    annotated,
    functions,
    length,
    lines_of,
    main,
    modules,
    nesting,
    parameters,
    quantile,
    sentences,
    words,
)

CODE = '''
@decorated
def long(self, a: int, *rest: int, b: str = "", **more: object) -> None:
    """Two lines
    that do not count.
    """
    for x in rest:
        if x:
            pass
        elif a:
            with open(b):
                pass

    def inner(y):
        while y:
            pass


class Some:
    def __init__(self, z: int): ...
'''


def test_functions_are_measured() -> None:
    found = {function.name: function for function in functions(ast.parse(CODE))}
    assert {name: lines_of(one) for name, one in found.items()} == {
        "long": 11,
        "inner": 3,
        "__init__": 1,
    }
    assert [len(parameters(one)) for one in found.values()] == [4, 1, 1]
    assert [nesting(one) for one in found.values()] == [3, 1, 0]
    assert {name for name, one in found.items() if annotated(one)} == {"long", "__init__"}


def test_the_splitter_knows_where_a_sentence_ends() -> None:
    text = """# A heading. With a point.

One sentence, e.g. this one (PROOFS.md, M4). Two: `a b. C d` is one word.
It goes on
here. 1, 2, 4, ... are numbers, 3.5 as well!

- An item
  of two lines
- [A link with words](page.md#x). [`code`](y.md) *is* a word.

| a table. | Is no. Sentence |
|---|---|

![a picture. Of nothing](x.svg)

```python
print("code. Is no sentence.")
```

    indented. Code

The end?
"""
    assert list(map(length, sentences(text))) == [7, 5, 4, 8, 5, 4, 4, 2]
    assert sentences(text)[1] == "Two: `code` is one word." and "3.5 as" in sentences(text)[3]


def test_words_are_counted_outside_code_and_quantiles_are_numbers_that_occur() -> None:
    assert words("One `two` [three](four.md).\n\n```sh\nfive\n```\n| six |\n") == 6
    assert [quantile([4, 1, 3, 2], share) for share in (0.5, 0.9, 1)] == [2, 4, 4]
    assert quantile([], 0.5) == 0


def test_a_folder_becomes_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("setup.py", "pack/a.py", "pack/a_test.py", "pack/tests/b.py", "docs/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(CODE + "#" * 110)
    assert modules(tmp_path) == [tmp_path / "pack/a.py"]
    (tmp_path / "README.md").write_text("Four words are here.\n\n```sh\nx\n```\n")
    main([str(tmp_path)])
    head, line, row = capsys.readouterr().out.splitlines()
    assert head.count("|") == line.count("|") == row.count("|")
    cells = [cell.strip() for cell in row.split("|")[2:-1]]
    assert cells == ["3/11/11", "4", "3", "67%", "4.8% / 0.0%", "4", "4/4", "", "250.0"]


def test_our_own_code_keeps_its_shape(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.startswith("| ours | ") and len(modules(ROOT)) > 150
