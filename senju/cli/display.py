"""The live display of a training run, and its plain version where there is no terminal."""

from abc import ABC, abstractmethod
from collections import defaultdict
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from senju.cli.agents import AgentsBoard, reward_text, who_text
from senju.cli.console import percent, score_text
from senju.cli.quantities import duration_text, figure_text, size_text
from senju.machine import available_cores
from senju.training import trainer
from senju.training.episodes import EpisodesResult
from senju.training.evaluation import MatchResult
from senju.training.run import Run
from senju.training.run_config import RunConfig
from senju.training.stages import share_of_groups

BARS = " ▁▂▃▄▅▆▇█"
PLAIN_INTERVAL = 10.0  # seconds between lines where there is no terminal
SHOWN_METRICS = {
    "policy_loss": "policy loss",
    "value_loss": "value loss",
    "entropy": "entropy",
    "approximate_kl": "KL",
    "clip_fraction": "clipped",
    "explained_variance": "value explains",
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


class LiveDisplay(ABC):
    """What is drawn again and again in a terminal while something goes on; nothing where there is none."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=4, transient=False)
        self._last_line = monotonic()

    @abstractmethod
    def _render(self) -> RenderableType:
        """What the screen is to show now."""

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._live.stop()


class TrainingDisplay(LiveDisplay, trainer.Listener):
    """Progress with ETA, speed, strength so far, losses, and where the time goes."""

    def __init__(self, console: Console) -> None:
        self.results: dict[str, list[MatchResult]] = defaultdict(list)
        self.agents: AgentsBoard | None = None  # where every seat has one of its own
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
        self._latest: trainer.Progress | None = None
        super().__init__(console)  # last, since it draws at once

    def on_start(self, run: Run, update: int) -> None:
        """Say what is trained and where it is kept."""
        config = run.config
        self.agents = AgentsBoard(config) if config.is_independent else None
        self.console.print(
            f"Training [bold]{config.game['name']}[/]{_learners(run)}, {config.collect.num_games} games at "
            f"once, {config.total_steps:,} steps, seed {config.seed}; {_hands(config)}.",
            highlight=False,
        )
        for line in _others(config):
            self.console.print(escape(line), highlight=False)
        self.console.print(f"Run folder: [bold]{escape(str(run.path))}[/]", highlight=False, soft_wrap=True)
        self._progress.update(self._task, total=config.total_updates, completed=update)

    def on_update(self, progress: trainer.Progress) -> None:
        """Redraw, or now and then write a line."""
        self._latest = progress
        if self.agents is not None:
            self.agents.see(progress.metrics)
        left = f"{duration_text(progress.seconds_left)} left"
        self._progress.update(self._task, completed=progress.update, left=left)
        if not self.console.is_terminal and monotonic() - self._last_line > PLAIN_INTERVAL:
            self._last_line = monotonic()
            self.console.print(
                f"update {progress.update}/{progress.total_updates}, "
                f"{progress.steps_per_second:,.0f} steps/s, "
                f"{f'{self.agents.line()}, ' if self.agents else ''}{left}",
                highlight=False,
            )

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        """Add a result to the strength so far."""
        self.results[result.opponent].append(result)
        if not self.console.is_terminal:
            self.console.print(
                f"update {update}: against {escape(result.opponent)} {score_text(result)}", highlight=False
            )

    def on_episodes(self, update: int, result: EpisodesResult) -> None:
        """Add what the agents got to what is known of them."""
        assert self.agents is not None
        self.agents.results.append(result)
        if not self.console.is_terminal:
            assert result.random is not None
            rewards, random = (", ".join(map(reward_text, r.rewards)) for r in (result, result.random))
            self.console.print(
                f"update {update}: reward per episode {rewards} (at random {random})", highlight=False
            )

    def _render(self) -> RenderableType:
        if self._latest is None:
            return Panel("compiling kernels and starting …", border_style="dim")
        parts: list[RenderableType] = [self._progress]
        if self.results:
            parts.append(self._strength_table())
        if self.agents is not None:
            parts.append(self.agents.table())
        columns = Table.grid(expand=True, padding=(0, 2))
        columns.add_row(self._metrics_table(self._latest), _time_table(self._latest))
        parts += [columns, Text(f"  {self._latest.explanation}", style="dim")]
        if self._latest.engine.get("workers", 0) > 1:
            parts.append(_workers_line(self._latest))
        return Panel(Group(*parts), border_style="dim")

    def _strength_table(self) -> Table:
        table = Table(box=None, padding=(0, 2))
        for name in ("strength against", "score (95 % interval)", "so far"):
            table.add_column(name, header_style="bold")
        for opponent, results in self.results.items():
            line = "".join(BARS[round(8 * result.score)] for result in results[-40:])
            table.add_row(escape(opponent), score_text(results[-1]), f"[cyan]{line}[/]")
        return table

    def _metrics_table(self, progress: trainer.Progress) -> Table:
        table = Table(box=None, padding=(0, 2))
        table.add_column("learning", header_style="bold")
        table.add_column("", justify="right")
        for name, label in SHOWN_METRICS.items():
            if name in progress.metrics:
                table.add_row(label, figure_text(progress.metrics[name]))
        return table


def _time_table(progress: trainer.Progress) -> Table:
    table = Table(box=None, padding=(0, 2))
    table.add_column("where the time goes", header_style="bold")
    table.add_column("", justify="right")
    table.add_column(f"{progress.steps_per_second:,.0f} steps/s", min_width=20)
    for name, share in share_of_groups(progress.stages).items():
        table.add_row(name, percent(share, 0), f"[green]{'█' * round(20 * share)}[/]")
    return table


def _workers_line(progress: trainer.Progress) -> Text:
    """How busy each worker was lately, and what had to be healed."""
    engine = progress.engine
    line = Text("  workers ", style="bold")
    line.append("".join(BARS[max(1, round(8 * share))] for share in engine["busy"]), style="green")
    mean = sum(engine["busy"]) / len(engine["busy"])
    facts = [f" {percent(mean, 0)} busy"]
    facts += [f"{size_text(engine['memory_bytes'])} in all"] if engine["memory_bytes"] else []
    facts += [f"{engine['restarts']} replaced"] if engine["restarts"] else []
    facts += [f"{engine['set_aside']} shards set aside"] if engine["set_aside"] else []
    facts += [f"lag {progress.metrics['lag_mean']:.1f}"] if progress.metrics["lag_max"] else []
    return line.append(", ".join(facts), style="dim")


def _learners(run: Run) -> str:
    """Who learns, in words."""
    config = run.config
    if config.is_independent:
        return f": {who_text(run)}, nothing shared"
    weights = sum(parameter.numel() for parameter in run.new_model().parameters())
    return f" by {config.algorithm['name']} with the model {config.model['name']} ({weights:,} weights)"


def _others(config: RunConfig) -> list[str]:
    """Who it is trained against, in words, and what may surprise about it."""
    if config.collect.seating != "opponents":
        return []
    chosen, updates = config.opponents, config.total_updates
    past = f"its own past (a snapshot every {chosen.snapshot_interval} updates)"
    names = [*([past] if chosen.snapshot_interval else []), *chosen.fixed]
    itself = f"; {percent(chosen.self_share, 0)} of its games against itself" if chosen.self_share else ""
    lines = [f"Against {', '.join(names)}{itself}."]
    if chosen.snapshot_interval >= updates:
        lines.append(
            f"It ends after {updates} updates, before its first snapshot could play: "
            "for so short a run set opponents.snapshot_interval lower."
        )
    return lines


ONE_OF = {"processes": "process", "threads": "thread"}


HOW_THEY_LEARN = {
    "sequential": "agents learn one after another",
    "processes": "agents learn in processes of their own",
    "stacked": "agents learn stacked, as one computation",
}


def _hands(config: RunConfig) -> str:
    """Who plays, in words, and how agents learn where there are several."""
    players = _players(config)
    if not config.is_independent:
        return players
    meanwhile = " while games go on" if config.collect.mode == "async" else ""
    return f"{players}, {HOW_THEY_LEARN[config.learners]}{meanwhile}"


def _players(config: RunConfig) -> str:
    name = config.backend["name"]
    if name == "serial":
        return "one process"
    count = min(config.backend.get("num_workers") or available_cores(), config.plan.num_shards)
    return f"{count} {name} play" if count > 1 else f"one {ONE_OF.get(name, name)} plays"
