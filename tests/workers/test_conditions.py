"""Conditions are not left locked by Ctrl-C."""

import inspect
import signal
import threading

from senju.workers.conditions import SafeCondition


def test_condition_locks_and_unlocks_by_functions_that_no_signal_interrupts() -> None:
    condition = SafeCondition()
    for method in (type(condition).__enter__, type(condition).__exit__):
        assert inspect.isbuiltin(method.__get__(condition))


def test_condition_that_is_interrupted_again_and_again_is_never_left_locked() -> None:
    condition, num_interrupted = SafeCondition(), 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while num_interrupted < 300:
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4)  # here: on a busy machine it rings at once
                while True:
                    with condition:
                        pass
            except KeyboardInterrupt:
                num_interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(condition.acquire(timeout=60.0)))
    other.start()
    other.join()
    assert found == [True]
