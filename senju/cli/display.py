"""The live display of a training run, and its plain version where there is no terminal."""

from collections import defaultdict
from collections.abc import Mapping
from time import monotonic
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from senju.cli.agents import AgentStats, learners_text
from senju.cli.console import say
from senju.cli.quantities import (
    duration_text,
    figure_text,
    gpu_text,
    reward_text,
    score_text,
    share_text,
    size_text,
)
from senju.cli.tables import BARS, live_table
from senju.evaluation.episodes import EpisodesResult
from senju.evaluation.matches import MatchResult
from senju.machine import available_cores
from senju.runs.run import Run
from senju.runs.run_config import RunConfig
from senju.runs.stages import share_of_groups
from senju.training import trainer

PLAIN_INTERVAL = 10.0  # seconds between lines where there is no terminal
SHOWN_METRICS = {
    "policy_loss": "policy loss",
    "value_loss": "value loss",
    "entropy": "entropy",
    "approximate_kl": "KL",
    "clip_fraction": "clipped",
    "explained_variance": "explained variance",
    "loss": "loss",
    "mean_error": "mean error",
    "mean_value": "mean value",
    "epsilon": "random moves",
    "replay_decisions": "in the replay",
    "pool_size": "snapshots",
    "opponent_score": "score against others",
    "learning_rate": "learning rate",
    "steps_per_game": "steps per game",
    "reward_per_game": "reward per game",
}


class LiveDisplay(Live):
    """Draws `get_renderable` again and again on a terminal; without one, prints lines now and then."""

    def __init__(self, console: Console) -> None:
        is_drawn = console.is_terminal
        super().__init__(console=console, auto_refresh=is_drawn, transient=not is_drawn)
        self._last_line = monotonic()

    def say(self, text: str) -> None:
        """Print a line if there is no terminal."""
        if not self.console.is_terminal:
            say(text, self.console)

    def is_line_due(self) -> bool:
        """Whether to print a line about the progress now."""
        is_due = not self.console.is_terminal and monotonic() - self._last_line > PLAIN_INTERVAL
        if is_due:
            self._last_line = monotonic()
        return is_due


class TrainingDisplay(LiveDisplay, trainer.TrainingListener):
    """Progress with ETA, speed, strength so far, losses, and where the time goes."""

    def __init__(self, console: Console) -> None:
        self.results: dict[str, list[MatchResult]] = defaultdict(list)
        self.agents: AgentStats | None = None  # where every seat has one of its own
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            expand=True,
        )
        self._task = self._progress.add_task("updates", total=None, left="")
        self._latest: trainer.TrainingProgress | None = None
        super().__init__(console)  # last, because it draws immediately

    def on_start(self, run: Run, update: int) -> None:
        config = run.config
        self.agents = AgentStats(config) if config.is_independent else None
        what = (
            f"Training [bold]{config.game['name']}[/]{learners_text(run)}, {config.collect.num_games} games "
            f"at once, {config.total_steps:,} steps, seed {config.seed}; {_workers_text(config)}."
        )
        self.console.print(what, *map(escape, _opponents_text(config)), sep="\n", highlight=False)
        say(f"Run folder: [bold]{escape(str(run.path))}[/]", self.console)
        self._progress.update(self._task, total=config.total_updates, completed=update)

    def on_update(self, progress: trainer.TrainingProgress) -> None:
        self._latest = progress
        if self.agents is not None:
            self.agents.see(progress.metrics)
        left = f"{duration_text(progress.seconds_left)} left"
        self._progress.update(self._task, completed=progress.update, left=left)
        if self.is_line_due():
            gpu = f"GPU {gpu_text(progress.engine)}, " if "gpu_busy" in progress.engine else ""
            self.say(
                f"update {progress.update}/{progress.total_updates}, "
                f"{progress.steps_per_second:,.0f} steps/s, {gpu}"
                f"{f'{self.agents.line()}, ' if self.agents else ''}{left}"
            )

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        self.results[result.opponent].append(result)
        score = score_text(result.score.mean, result.score.interval)
        self.say(f"update {update}: against {escape(result.opponent)} {score}")

    def on_episodes(self, update: int, result: EpisodesResult) -> None:
        assert self.agents is not None
        assert result.random is not None
        self.agents.results.append(result)
        rewards, random = (", ".join(map(reward_text, r.rewards)) for r in (result, result.random))
        self.say(f"update {update}: reward per episode {rewards} (at random {random})")

    def get_renderable(self) -> RenderableType:
        """Progress, strength, stages and advice, as known now."""
        if self._latest is None:
            return Panel("compiling kernels and starting …", border_style="dim")
        parts: list[RenderableType] = [self._progress]
        if self.results:
            parts.append(self._strength_table())
        if self.agents is not None:
            parts.append(self.agents.table())
        columns = Table.grid(expand=True, padding=(0, 2))
        learning = live_table(["learning"], [""], rows=learning_texts(self._latest.metrics).items())
        columns.add_row(learning, _time_table(self._latest))
        parts += [columns, Text(f"  {self._latest.explanation}", style="dim")]
        if self._latest.engine.get("workers", 0) > 1:
            parts.append(_workers_line(self._latest))
        if "gpu_busy" in self._latest.engine:
            parts.append(_gpu_line(self._latest.engine))
        return Panel(Group(*parts), border_style="dim")

    def _strength_table(self) -> Table:
        table = live_table(("strength against", "score (95 % interval)", "so far"))
        for opponent, results in self.results.items():
            line = "".join(BARS[round(8 * result.score.mean)] for result in results[-40:])
            last = results[-1].score
            table.add_row(escape(opponent), score_text(last.mean, last.interval), f"[cyan]{line}[/]")
        return table


def learning_texts(metrics: Mapping[str, float]) -> dict[str, str]:
    """The metrics of an update that are shown, by what they are called there."""
    return {label: figure_text(metrics[name]) for name, label in SHOWN_METRICS.items() if name in metrics}


def _time_table(progress: trainer.TrainingProgress) -> Table:
    table = live_table(["where the time goes"], [""])
    table.add_column(f"{progress.steps_per_second:,.0f} steps/s", min_width=20)
    for name, share in share_of_groups(progress.stages).items():
        table.add_row(name, share_text(share), f"[green]{'█' * round(20 * share)}[/]")
    return table


def _workers_line(progress: trainer.TrainingProgress) -> Text:
    """How busy each worker was lately, and how often workers were replaced."""
    engine = progress.engine
    line = Text("  workers ", style="bold")
    line.append("".join(BARS[max(1, round(8 * share))] for share in engine["busy"]), style="green")
    mean = sum(engine["busy"]) / len(engine["busy"])
    facts = [f" {share_text(mean)} busy"]
    facts += [f"{size_text(engine['memory_bytes'])} in all"] if engine["memory_bytes"] else []
    facts += [f"{engine['restarts']} replaced"] if engine["restarts"] else []
    facts += [f"{engine['set_aside']} shards set aside"] if engine["set_aside"] else []
    facts += [f"lag {progress.metrics['lag_mean']:.1f}"] if progress.metrics["lag_max"] else []
    return line.append(", ".join(facts), style="dim")


def _gpu_line(engine: Mapping[str, Any]) -> Text:
    """How busy the GPU was lately, and its memory."""
    line = Text("  GPU     ", style="bold")
    line.append(BARS[max(1, round(8 * engine["gpu_busy"]))], style="green")
    return line.append(f" {gpu_text(engine)}", style="dim")


def _opponents_text(config: RunConfig) -> list[str]:
    """The opponents, and a warning if no snapshot of the learner will ever play."""
    if not config.has_opponents:
        return []
    chosen, updates = config.opponents, config.total_updates
    past = f"its own past (a snapshot every {chosen.snapshot_interval} updates)"
    names = [*([past] if chosen.snapshot_interval else []), *chosen.fixed]
    itself = f"; {share_text(chosen.self_share)} of its games against itself" if chosen.self_share else ""
    lines = [f"Against {', '.join(names)}{itself}."]
    if chosen.snapshot_interval >= updates:
        lines.append(
            f"The run ends after {updates} updates, before its first snapshot could play; set "
            f"opponents.snapshot_interval below {updates}."
        )
    return lines


ONE_OF = {"processes": "process", "threads": "thread"}
HOW_THEY_LEARN = {
    "sequential": "agents learn one after another",
    "processes": "agents learn in processes of their own",
    "stacked": "agents learn stacked, as one computation",
}


def _workers_text(config: RunConfig) -> str:
    """How many workers play and, if there are several agents, how they learn."""
    name = config.backend["name"]
    count = min(config.backend.get("num_workers") or available_cores(), config.plan.num_shards)
    players = f"{count} {name} play" if count > 1 else f"one {ONE_OF.get(name, name)} plays"
    if name == "serial":
        players = "one process"
    if not config.is_independent:
        return players
    meanwhile = " while games go on" if config.collect.mode == "async" else ""
    return f"{players}, {HOW_THEY_LEARN[config.learners]}{meanwhile}"
