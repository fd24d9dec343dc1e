"""A USI engine that plays random legal moves, independent of senju's rules."""

import random
import sys

import cshogi


def main() -> None:
    chance, board = random.Random(int(sys.argv[1])), cshogi.Board()
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        if command == "usi":
            answer = "id name random\nusiok"
        elif command == "isready":
            answer = "readyok"
        elif command == "position":
            board.set_position(rest)
            continue
        elif command == "go":
            moves = [cshogi.move_to_usi(move) for move in board.legal_moves]
            answer = f"bestmove {chance.choice(moves) if moves else 'resign'}"
        elif command == "quit":
            return
        else:
            continue
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
