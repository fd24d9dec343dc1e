"""Your own training loop: policy gradient on tic-tac-toe in plain PyTorch, with games from senju.

    python -m examples.own_loop

Two worker processes play the network against itself. The loop gets their decisions as one batch of
arrays, makes one gradient step on it, and sends the weights to the workers. The score against a random player
(win 1, draw 0.5) rises from about 0.4 to more than 0.9.
"""

import copy

import torch
from torch import Tensor

import senju
from senju.evaluation.matches import play_match
from senju.opponents.players import RandomPlayer

UPDATES = 500
LEARNING_RATE, ENTROPY_BONUS = 0.005, 0.3


def loss_of(model: senju.Model, batch: senju.Experiences, num_actions: int) -> Tensor:
    """Policy loss, value loss and entropy bonus: decisions with a positive advantage become more likely."""
    logits, values = model(torch.from_numpy(batch.observation).float())
    legal = torch.from_numpy(batch.legal_mask(num_actions))
    policy = torch.distributions.Categorical(logits=logits.masked_fill(~legal, -1e9))
    advantages = torch.from_numpy(batch.advantages)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    gain = (policy.log_prob(torch.from_numpy(batch.actions)) * advantages).mean()
    error = (values - torch.from_numpy(batch.returns)).square().mean()
    return error - gain - ENTROPY_BONUS * policy.entropy().mean()


def score_against_random(game: senju.Game, model: senju.Model) -> float:
    """The share of 400 games that the network's best moves win, draws counting half."""
    player = senju.Agent(game, copy.deepcopy(model), "own loop").player()  # a copy: an agent does not learn
    return play_match(game, player, RandomPlayer(), num_games=400).score.mean


def train(updates: int = UPDATES, backend: str = "processes") -> tuple[float, float]:
    """Train for `updates` updates; return the score before and after."""
    config = {"num_workers": 2, "games_per_worker": 64, "experience_batch_size": 1024, "backend": backend}
    with senju.ParallelManager("tic_tac_toe", {"name": "mlp", "hidden": [64]}, config, seed=1) as manager:
        game, model = manager.game, manager.new_model()
        optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        before = score_against_random(game, model)
        for update in range(1, updates + 1):
            batch = manager.collect_experiences(target_steps=2048)
            batch = batch.select(batch.is_known)  # in zero-sum games in turn, that is all of them
            optimizer.zero_grad()
            loss = loss_of(model, batch, game.num_actions)
            loss.backward()
            optimizer.step()
            manager.sync_model_to_workers(model)
            if update % 100 == 0:
                print(f"update {update:3}  score against random {score_against_random(game, model):.3f}")
        return before, score_against_random(game, model)


if __name__ == "__main__":
    torch.set_num_threads(1)  # so small a network learns no faster with more; the workers need the cores
    first, last = train()
    print(f"score against random: {first:.3f} before, {last:.3f} after")
