"""Presets: ready-made settings for a game, from YAML files in `senju/presets`."""

from pathlib import Path

from senju.config import Settings, merged, read_yaml, shown
from senju.errors import ConfigError
from senju.games import GAMES

_PRESETS = Path(__file__).parent.with_name("presets")


def preset(game: str, variant: str | None = None) -> Settings:
    """The usual preset of a game, or a variant of it; empty where senju has none."""
    if variant is not None and variant not in preset_variants(game):
        known = ", ".join(preset_variants(game)) or "none"
        raise ConfigError(
            f"no preset {shown(variant)} for {game}; there are: {known}; "
            "leave it out to use the game's usual preset"
        )
    file = _PRESETS / f"{game}{f'_{variant}' if variant else ''}.yaml"
    return read_yaml(file) if ":" not in game and file.is_file() else {}


def preset_for(game: str, given: Settings) -> Settings:
    """The preset that suits the given settings: their algorithm's variant, or else the usual one."""
    algorithm = merged({"algorithm": {}}, given)["algorithm"]
    name = algorithm.get("name") if isinstance(algorithm, dict) else None
    return preset(game, name if name in preset_variants(game) else None)


def preset_variants(game: str) -> list[str]:
    """The presets of a game besides its usual one."""
    names = [file.stem for file in _PRESETS.glob("*.yaml")]
    others = tuple(other for other in GAMES.names() if other.startswith(f"{game}_"))
    own = (name for name in names if name.startswith(f"{game}_") and not name.startswith(others))
    return sorted(name.removeprefix(f"{game}_") for name in own)


def known_presets() -> str:
    """All variants with their games: `gpu (shogi)`."""
    found: dict[str, list[str]] = {}
    for game in GAMES.names():
        for variant in preset_variants(game):
            found.setdefault(variant, []).append(game)
    return ", ".join(f"{variant} ({', '.join(games)})" for variant, games in found.items()) or "none yet"
