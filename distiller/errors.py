"""Nothing in, names for a failing world out: each error carries one line for the person and an exit code.

The line says what happened, what is still safe and what to do. Expected trouble (a lying model, a torn line) is a
value, never one of these.
"""


class DistillerError(Exception):
    """Something that a person has to be told; `main` prints it as one line on stderr."""

    exit_code = 1


class UsageError(DistillerError):
    """The words of a command are off."""

    exit_code = 2


class PartlyDoneError(DistillerError):
    """Some of the work was done; nothing that was done is lost."""

    exit_code = 3


class LockHeldError(DistillerError):
    """Another daemon holds the lock of this home."""

    exit_code = 75


class SettingError(DistillerError):
    """The configuration cannot be used."""

    exit_code = 78


class StoreUnusableError(DistillerError):
    """The database cannot be opened, is damaged, or was written by a newer program."""

    exit_code = 78


class StoreBusyError(DistillerError):
    """Another process held the database for longer than 30 s; nothing was written."""


class DiskFullError(DistillerError):
    """No room for the database; nothing was written and nothing is lost."""


class LeaseLostError(DistillerError):
    """Another process took the turn over; nothing was written."""


class ConflictError(DistillerError):
    """The fact was changed by someone else since it was read; nothing was written."""


class UnknownNameError(DistillerError):
    """No fact, turn or session goes by that name."""


class AmbiguousNameError(DistillerError):
    """More than one goes by that name; the message lists them."""


class OutdatedProgramError(DistillerError):
    """A part of the program was replaced while it ran (an upgrade); a restart helps. Turns wait."""

    exit_code = 4


class BackendError(DistillerError):
    """No answer came. `calls` reached the backend all the same and may be billed for `spent_tokens` (a guess)."""

    def __init__(self, message: str, *, calls: int = 0, spent_tokens: int = 0) -> None:
        super().__init__(message)
        self.calls = calls
        self.spent_tokens = spent_tokens


class BackendUnavailableError(BackendError):
    """The backend did not answer; the turn waits. `retry_after_seconds` is what it asked for, if it did.

    `counts` says whether the failure counts towards the turn's eight (429, 529 and refused connections never do).
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        counts: bool = True,
        calls: int = 0,
        spent_tokens: int = 0,
    ) -> None:
        super().__init__(message, calls=calls, spent_tokens=spent_tokens)
        self.retry_after_seconds = retry_after_seconds
        self.counts = counts


class BackendHaltedError(BackendError):
    """The backend cannot be used until a person acts; `reason` as in CONTRACTS §5. Turns wait.

    The message says what happened, `fix` what to do. `said_by_model`: it stood in an answer, where a turn may have
    provoked it; one such answer proves nothing yet.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        fix: str = "",
        said_by_model: bool = False,
        calls: int = 0,
        spent_tokens: int = 0,
    ) -> None:
        super().__init__(message, calls=calls, spent_tokens=spent_tokens)
        self.reason = reason
        self.fix = fix
        self.said_by_model = said_by_model


class RequestRefusedError(BackendError):
    """The backend will never take this request as it is; `reason` is `too-long` or `request-invalid`."""

    def __init__(self, reason: str, message: str, *, calls: int = 0, spent_tokens: int = 0) -> None:
        super().__init__(message, calls=calls, spent_tokens=spent_tokens)
        self.reason = reason
