"""The same position and the same move with the colours exchanged and the board turned round."""

import re


def flip_sfen(sfen: str) -> str:
    """Black's pieces become White's, on the squares opposite; Black's hand comes first as before.

    >>> flip_sfen("4k4/9/9/9/9/9/4+P4/9/K8 b R2p 5")
    '8k/9/4+p4/9/9/9/9/9/4K4 w 2Pr 5'
    """
    board, side, hands, number = sfen.split()
    squares = re.findall(r"\+?[A-Za-z]|[1-9]|/", board)
    turned = "".join(square.swapcase() for square in reversed(squares))
    held = sorted(re.findall(r"-|\d*[A-Za-z]", hands.swapcase()), key=str.islower)
    return f"{turned} {'w' if side == 'b' else 'b'} {''.join(held)} {number}"


def flip_usi(usi: str) -> str:
    """A move on the board that is turned round.

    >>> flip_usi("7g7f"), flip_usi("8h2b+"), flip_usi("P*1a")
    ('3c3d', '2b8h+', 'P*9i')
    """
    return re.sub(
        "([1-9])([a-i])",
        lambda square: f"{10 - int(square[1])}{'ihgfedcba'['abcdefghi'.index(square[2])]}",
        usi,
    )
