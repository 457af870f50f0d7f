"""The base of all summaries, as in summary.json, `--json` and Python."""

from typing import Annotated, Any

from pydantic import Field

from autoprox.files.json_documents import JSONDocument
from autoprox.shortfalls import Shortfall


class Summary(JSONDocument):
    """The result of a command."""

    run: Annotated[str, Field(description="The run's folder.")] = ""
    shortfalls: Annotated[
        tuple[Shortfall, ...],
        Field(description="What was done less of than was asked for; often empty."),
    ] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        return self.model_dump(mode="json")


Choices = Annotated[
    dict[str, Any], Field(description="An architecture's choices in its space, by name.")
]


class ArchitectureDocument(JSONDocument):
    """An architecture, as `export arch` and `supernet extract --arch` read it."""

    space: str
    choices: Choices
