"""Malformed input by a seed: whole commands, torn ones, and random bytes."""

import random
from collections.abc import Callable, Iterator

from senju.usi.options import EngineConfig, option_lines

COMMANDS = "usi isready setoption usinewgame position go stop ponderhit gameover debug register"
LIMITS = "btime wtime byoyomi binc winc nodes depth movetime infinite ponder mate"
ANNOUNCED = [line.split() for line in option_lines(EngineConfig())]
LARGEST = {words[2]: words[-1] for words in ANNOUNCED if "max" in words}
# without Threads: on a busy machine they wait for each other most of the time
OPTIONS = " ".join([words[2] for words in ANNOUNCED if words[2] != "Threads"] + ["Nothing"])
VALUES = "true false none 24 27 0 1 -1 7 20 50 99999999999999999999 1e9 0x10 ٣ ½ NaN inf 1_0 +5 --5"
MOVES = "7g7f 3c3d 2g2f 8c8d 2b8h+ 7i8h 8h2b+ B*5e P*5e 5e5d 1a1b 9i9h 5i5h 0a0b 7g7f+ K*5e 7g 7g7f7e"
WORDS = f"{COMMANDS} {LIMITS} {OPTIONS} {VALUES} {MOVES} name value startpos sfen moves win"
SFENS = (
    "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1",
    "4k4/9/4G4/9/9/9/9/9/4K4 b G 1",
    "4k4/4G4/4G4/9/9/9/9/9/4K4 w - 1",
    "K+R+R+B+B4/GGGGSSSS1/9/9/9/9/9/9/4k4 b - 1",
    "8k/9/9/9/9/9/9/9/K8 w 2R2B4G4S4N4L18P 300",
    "9/9/9/9/9/9/9/9/9 b - 1",
    "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL x y z",
)


def rubbish(seed: int, count: int) -> Iterator[bytes]:
    """So many lines, without their ends."""
    chance = random.Random(seed)
    makers: list[Callable[[random.Random], bytes]] = [_noise, _words, _position, _go, _option, _simple]
    for _ in range(count):
        line = chance.choice(makers)(chance)
        yield _torn(chance, line) if chance.random() < 0.3 else line


def _noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(40)).replace(b"\n", b"\0")


def _words(chance: random.Random) -> bytes:
    return " ".join(_some(chance, WORDS, 8)).encode()


def _position(chance: random.Random) -> bytes:
    start = "startpos" if chance.random() < 0.5 else f"sfen {chance.choice(SFENS)}"
    moves = MOVES.split()[: chance.randrange(8)] if chance.random() < 0.5 else _some(chance, MOVES, 4)
    return f"position {start} moves {' '.join(moves)}".encode()


def _go(chance: random.Random) -> bytes:
    words = [f"{name} {chance.choice(VALUES.split())}" for name in _some(chance, LIMITS, 4)]
    return f"go {' '.join(words)}".encode()


def _option(chance: random.Random) -> bytes:
    name = chance.choice(OPTIONS.split())
    values = VALUES.split()
    if name in LARGEST and name != "Batch":  # so large a batch takes its time
        values.append(LARGEST[name])
    value = chance.choice(values)
    return f"setoption name {name} value {value}".encode()


def _some(chance: random.Random, words: str, most: int) -> list[str]:
    return chance.choices(words.split(), k=chance.randrange(most))


def _simple(chance: random.Random) -> bytes:
    return chance.choice([b"usi", b"isready", b"usinewgame", b"stop", b"ponderhit", b"gameover win", b""])


def _torn(chance: random.Random, line: bytes) -> bytes:
    """A line with a piece cut out, doubled or overwritten."""
    at, length = chance.randrange(len(line) + 1), chance.randrange(5)
    piece = chance.choice([b"", line[at : at + length] * 2, chance.randbytes(length).replace(b"\n", b"\r")])
    return line[:at] + piece + line[at + length :]
