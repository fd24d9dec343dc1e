"""Memory for learning: freed blocks are kept, since the next minibatch asks for the same ones."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_LARGEST = 2**31 - 1
_OLDER_LIMIT = 32 * 2**20  # what older versions of glibc allow


def keep_freed_memory() -> bool:
    """Tell glibc's malloc to keep large blocks; return whether there is a glibc to tell.

    Otherwise every large tensor is mapped anew and its pages are cleared by the kernel again: with
    an MLP 2×256 and minibatches of 2048 that was 22,000 page faults an update, a fifth of the time.
    It holds for the whole process, whose memory then stays at its peak.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library
        return False
    is_kept = mallopt(_M_MMAP_THRESHOLD, _LARGEST // 2) or mallopt(_M_MMAP_THRESHOLD, _OLDER_LIMIT)
    is_trimmed_late = mallopt(_M_TRIM_THRESHOLD, _LARGEST)
    return bool(is_kept and is_trimmed_late)
