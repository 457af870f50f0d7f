"""Tables on a terminal of 80 columns."""

import pytest

from autoprox.report.layout import WIDTH, room, show
from autoprox.report.worth import named_table


def test_names_have_the_room_that_figures_leave(capsys: pytest.CaptureFixture[str]) -> None:
    table = named_table("proxy", "tau", "params")
    name = "runs/" + 50 * "x"
    table.add_row(name, "0.500", "0.250")
    show(table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split() == [name, "0.500", "0.250"]
    assert max(map(len, lines)) <= WIDTH


def test_names_have_their_least_room_beside_many_figures() -> None:
    assert room(["tau", "\n95 % interval"], 26) == 80 - 1 - 7 - 14
    assert room(12 * ["tau"], 26) == 26
