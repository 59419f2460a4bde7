"""Errors of a sweep that end it before or between jobs."""

from __future__ import annotations

#: The trace in a reason: results are of contents, which may have several names.
TRACE = "{trace}"


class ManifestError(ValueError):
    """The manifest is not usable. The message names the file, the key and the remedy."""


class SweepError(RuntimeError):
    """The sweep cannot start or go on. The message names the cause and the remedy."""


class JobError(Exception):
    """A job has failed.

    ``lasting`` is true if the same job would always fail, as with a corrupt trace; its result is
    then kept. Other failures, such as a file that cannot be read now, are tried again by the next
    run. ``of_parameters`` is true if another size may succeed.
    """

    def __init__(self, message: str, *, lasting: bool, of_parameters: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.lasting = lasting
        self.of_parameters = of_parameters

    def __str__(self) -> str:
        return self.message
