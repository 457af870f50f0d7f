"""What the parameters of every strategy have in common."""

from abc import abstractmethod

from autoprox.options import Options


class SearchParameters(Options):
    """The parameters of a strategy, with their defaults; those that a user gives come in here."""

    noun = "a strategy"

    @property
    @abstractmethod
    def candidates(self) -> int:
        """How many candidates a search with them scores at most."""
