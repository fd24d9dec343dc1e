"""A categorical distribution over the legal actions, accurate from 2 to many thousands of them."""

import torch
from torch import Tensor

from senju.errors import NoLegalActionError


class MaskedCategorical:
    """Probabilities of legal actions only; computed in float32 whatever the logits are.

    Illegal logits never enter a sum: they are replaced before the softmax. In the entropy, the term of
    an impossible action is set to zero, since 0 · (−∞) is NaN.
    """

    def __init__(self, logits: Tensor, legal: Tensor, is_checked: bool = True) -> None:
        """`logits` and boolean `legal`, both [..., actions].

        The check waits for the device. Without it, a row without legal actions has probabilities of NaN.
        """
        if is_checked and not bool(legal.any(-1).all()):
            rows = (~legal.any(-1)).reshape(-1).nonzero().reshape(-1).tolist()
            raise NoLegalActionError(f"no legal action in rows {rows[:10]}{' …' if len(rows) > 10 else ''}")
        scores = logits.float().masked_fill(~legal, float("-inf"))
        # not scores - logsumexp(scores), which rounds at the size of the logits, not of their differences
        self.log_probs = scores.log_softmax(-1)  # -inf where illegal

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probability of each row's action; minus infinity for an illegal one."""
        return self.log_probs.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats."""
        is_impossible = self.log_probs.isneginf()  # illegal, or legal with a logit of minus infinity
        finite = self.log_probs.masked_fill(is_impossible, 0.0)
        return -(finite.exp() * finite).masked_fill(is_impossible, 0.0).sum(-1)


def unpack_legal_bits(words: Tensor, num_actions: int) -> Tensor:
    """Legal words (int64 bits, [..., words]) as booleans [..., actions], on any device."""
    if torch.compiler.is_compiling():  # shifts of whole words are merged into the kernel that uses the bits
        places = torch.arange(64, device=words.device)
        return ((words.unsqueeze(-1) >> places) & 1).flatten(-2)[..., :num_actions].bool()
    octets = words.contiguous().view(torch.uint8)
    shifts = torch.arange(8, device=words.device, dtype=torch.uint8)
    bits = (octets.unsqueeze(-1) >> shifts) & 1
    return bits.reshape(*words.shape[:-1], -1)[..., :num_actions].bool()
