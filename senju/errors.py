"""Every error that senju raises on purpose; each class says when."""


class SenjuError(Exception):
    """The base class of senju's errors."""


class ConfigError(SenjuError, ValueError):
    """A setting is unknown, out of bounds, or inconsistent with the others."""


class UnknownNameError(ConfigError):
    """A game, model, algorithm, backend or player has an unknown name."""


class GameContractError(SenjuError, ValueError):
    """A game breaks the Game contract; raised by `check_game`, or by code that notices it first."""


class IllegalActionError(SenjuError, ValueError):
    """An action is not legal in its row, or the row's game is over."""


class IllegalPositionError(SenjuError, ValueError):
    """A position is impossible in its game, or outside a solver's range."""


class NoLegalActionError(SenjuError, RuntimeError):
    """A row has no legal action to choose from."""


class ModelError(SenjuError, RuntimeError):
    """A model has the wrong shape, cannot be built, or returns numbers that are not finite."""


class CheckpointError(SenjuError, RuntimeError):
    """A checkpoint is missing, damaged, for another game, or in another format."""


class RunFolderError(SenjuError, RuntimeError):
    """A run folder already exists, is not a run folder, or cannot be written."""


class TrustError(SenjuError, RuntimeError):
    """A run or another file names code that is not installed, and that the user has not agreed to load."""


class WorkerError(SenjuError, RuntimeError):
    """Workers failed in a way that cannot be repaired; the message says how to reproduce it."""


class DeviceMemoryError(SenjuError, RuntimeError):
    """The memory of a GPU is exhausted; the message says which settings to lower."""


class DeviceRoomError(ConfigError):
    """A run does not fit into the memory of its GPU, which its first update shows."""


class ControlError(SenjuError, RuntimeError):
    """A running run cannot be reached, or refuses a command."""


class OpponentError(SenjuError, RuntimeError):
    """An opponent raises an error, or returns an illegal move."""


class OutputError(SenjuError, RuntimeError):
    """Standard output cannot be written, for example because the disk is full."""
