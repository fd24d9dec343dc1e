"""Every error senju raises on purpose; each class says when."""


class SenjuError(Exception):
    """The parent of all of senju's own errors."""


class ConfigError(SenjuError, ValueError):
    """A setting is unknown, out of bounds, or does not fit the others."""


class UnknownNameError(ConfigError):
    """A game, model, algorithm, backend or player is asked for by a name nobody registered."""


class GameContractError(SenjuError, ValueError):
    """A game breaks the Game contract; raised by `check_game` and by whatever notices first."""


class IllegalActionError(SenjuError, ValueError):
    """An action is not legal in its row, or the row's game is over."""


class IllegalPositionError(SenjuError, ValueError):
    """A position cannot arise in its game, or lies outside what a solver accepts."""


class NoLegalActionError(SenjuError, RuntimeError):
    """A choice is asked for in a row whose legal mask is empty."""


class ModelError(SenjuError, RuntimeError):
    """A model has the wrong shape, cannot be built, or gives numbers that are not finite."""


class CheckpointError(SenjuError, RuntimeError):
    """A checkpoint is missing, damaged, of another game, or of a newer format."""


class RunFolderError(SenjuError, RuntimeError):
    """A run folder exists already, is not one, or cannot be written."""


class TrustError(SenjuError, RuntimeError):
    """A run or another file names code that is not installed, and the user has not agreed to load it."""


class WorkerError(SenjuError, RuntimeError):
    """Workers failed in a way that cannot be healed; says which, where, and how to reproduce it."""


class ControlError(SenjuError, RuntimeError):
    """A running run cannot be reached from here, or refuses what it is asked."""


class OpponentError(SenjuError, RuntimeError):
    """An opponent raises, or answers with something that is no legal move."""


class OutputError(SenjuError, RuntimeError):
    """Standard output cannot be written, for example because the disk is full."""
