"""The queue before the writer: it holds producers back by bytes."""

from __future__ import annotations

import threading
import time

from torchparity.storage.writing.bounded_queue import ByteBoundedQueue


def test_the_queue_holds_producers_back():
    queue: ByteBoundedQueue[int] = ByteBoundedQueue(100)
    done: list[int] = []

    def produce() -> None:
        for number in range(5):
            queue.put(number, 60)
            done.append(number)

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    time.sleep(0.05)
    held_at = len(done)
    received = [queue.get(at_exit=-1) for _ in range(5)]
    thread.join()

    assert held_at == 1  # the second would have made 120 bytes
    assert received == [0, 1, 2, 3, 4]


def test_an_entry_larger_than_the_queue_passes_when_it_is_empty():
    queue: ByteBoundedQueue[str] = ByteBoundedQueue(10)

    queue.put("large", 1000)

    assert queue.get(at_exit="") == "large"


def test_closing_the_queue_frees_a_waiting_producer():
    queue: ByteBoundedQueue[int] = ByteBoundedQueue(10)
    queue.put(0, 10)
    thread = threading.Thread(target=queue.put, args=(1, 10), daemon=True)
    thread.start()
    queue.close()
    thread.join(timeout=10)

    assert not thread.is_alive()
