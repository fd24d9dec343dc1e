"""Decisions of the replay as tensors: what DQN learns from, for one network or for a stack of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.algorithms.device_replay import Located
from senju.algorithms.ring_reader import Sample


class Transitions(NamedTuple):
    """Decisions to learn from, as tensors on one device; all [..., sample, …].

    Observations are bytes and legal actions are bits until the loss uses them.
    """

    observation: Tensor
    legal: Tensor
    actions: Tensor
    returns: Tensor
    next_observation: Tensor
    next_legal: Tensor
    factors: Tensor
    weights: Tensor


def transitions(samples: Sequence[Sample], device: torch.device) -> Transitions:
    """Samples of one size, one for each network: [network, sample, …]."""
    columns = {
        name: [_with_signed_bits(getattr(sample, name)) for sample in samples]
        for name in Sample._fields
        if name != "frames"
    }
    if device.type == "cpu":
        moved = {name: _stacked(arrays) for name, arrays in columns.items()}
    else:
        moved = in_one_copy(columns, device)
    return Transitions(**moved)


def gathered_transitions(samples: Sequence[Located], device: torch.device) -> Transitions:
    """The same for samples whose positions are on the device: only numbers and a few rows are sent."""
    names = ("places", "actions", "returns", "factors", "weights")
    sent = in_one_copy({name: [getattr(each, name) for each in samples] for name in names}, device)
    places = sent.pop("places")
    seen = [_gathered(each, own, device) for each, own in zip(samples, places, strict=True)]
    observation, legal = (torch.stack(columns) for columns in zip(*seen, strict=True))
    return Transitions(
        observation=observation[:, 0],
        legal=legal[:, 0],
        next_observation=observation[:, 1],
        next_legal=legal[:, 1],
        **sent,
    )


def take_rows(column: Tensor, indices: Tensor) -> Tensor:
    """Rows of a column [row, …]; a GPU copies bytes eight at once."""
    size = column[:1].numel()
    if column.device.type == "cpu" or column.dtype != torch.uint8 or size % 8:
        return column.index_select(0, indices)
    return in_words(column, indices)


def in_words(column: Tensor, indices: Tensor) -> Tensor:
    """Rows of bytes, whose number is a multiple of eight, copied as words."""
    words = column.flatten(1).view(torch.int64).index_select(0, indices)
    return words.view(torch.uint8).view(len(indices), *column.shape[1:])


def _gathered(sample: Located, places: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Observations and legal actions [2, sample, …]."""
    flat = places.reshape(-1)
    found = take_rows(sample.observations, flat), take_rows(sample.legal_words, flat)
    if len(sample.rows):  # rows that the device lacks
        lacking = {
            "rows": [sample.rows],
            "observation": [sample.observation],
            "legal": [sample.legal.view(np.int64)],
        }
        sent = {name: column[0] for name, column in in_one_copy(lacking, device).items()}
        for column, name in zip(found, ("observation", "legal"), strict=True):
            column.index_copy_(0, sent["rows"], sent[name])
    observation, legal = (column.view(*places.shape, *column.shape[1:]) for column in found)
    return observation, legal


def _with_signed_bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(np.int64) if array.dtype == np.uint64 else array  # torch shifts no uint64


def _stacked(arrays: Sequence[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(arrays[0][None] if len(arrays) == 1 else np.stack(arrays))


def in_one_copy(columns: dict[str, list[NDArray[Any]]], device: torch.device) -> dict[str, Tensor]:
    """Stack each column's arrays, and send all columns to a device together.

    They are sent from pinned memory, so that the copy is asynchronous; torch keeps it until the
    copy is done. The widest numbers lie first, so that all are aligned.
    """
    shapes = {name: (len(arrays), *arrays[0].shape) for name, arrays in columns.items()}
    names = sorted(columns, key=lambda name: -columns[name][0].itemsize)
    ends = np.cumsum([len(columns[name]) * columns[name][0].nbytes for name in names]).tolist()
    parts = dict(zip(names, zip([0, *ends[:-1]], ends, strict=True), strict=True))
    host = torch.empty(ends[-1], dtype=torch.uint8, pin_memory=device.type == "cuda")
    memory = host.numpy()
    for name, (start, end) in parts.items():
        room = memory[start:end].view(columns[name][0].dtype).reshape(shapes[name])
        np.stack(columns[name], out=room)
    sent = host.to(device, non_blocking=True)
    return {
        name: sent[start:end].view(torch.from_numpy(columns[name][0]).dtype).view(shapes[name])
        for name, (start, end) in parts.items()
    }
