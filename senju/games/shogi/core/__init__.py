"""The compiled rules of Shogi: whole sets of squares as bits, both players' views side by side."""
