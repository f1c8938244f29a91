"""A Ray cluster of two nodes on this machine, and the death of one of its workers."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import ROOT

_STARTED = "Ray runtime started"
_PATIENCE = 120.0  # seconds, on a machine that does other things


class Cluster(NamedTuple):
    """Where the cluster is, what a process needs in its environment to join it, and the sessions of its nodes."""

    address: str
    environment: dict[str, str]
    sessions: tuple[int, ...]


@contextmanager
def two_nodes() -> Iterator[Cluster]:
    """Start two nodes of one processor each, on loopback; every process of theirs is gone afterwards."""
    # Paths of sockets are short; a token of its own keeps everybody else out.
    folder = Path(tempfile.mkdtemp(prefix="tpray", dir="/tmp"))
    port, dashboard = _free_ports(2)
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(24),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_memory_monitor_refresh_ms": "0",
    }
    head = ["--head", "--port", str(port), "--include-dashboard", "false", "--dashboard-port", str(dashboard)]
    head += ["--temp-dir", str(folder)]
    address = f"127.0.0.1:{port}"
    nodes: list[subprocess.Popen[bytes]] = []
    try:
        logs = [folder / "head.log", folder / "second.log"]
        nodes.append(_start(head, logs[0], environment))
        _wait_for(lambda: _listens(port), nodes[0], logs[0])
        nodes.append(_start(["--address", address], logs[1], environment))
        for node, log in zip(nodes, logs, strict=True):
            _wait_for(lambda log=log: _STARTED in log.read_text(errors="replace"), node, log)
        yield Cluster(address, environment, tuple(node.pid for node in nodes))
    finally:
        for node in nodes:
            _end(node)
        shutil.rmtree(folder, ignore_errors=True)


def kill_a_busy_worker(cluster: Cluster, task: str, while_running: subprocess.Popen[str]) -> int | None:
    """Kill one worker in the middle of a task; return its process, or None where the program ended before."""
    while while_running.poll() is None:
        for pid in _processes(cluster.sessions):
            if not _is_running(pid, task):
                continue
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)  # so that it cannot end its task meanwhile
                if _is_running(pid, task):
                    os.kill(pid, signal.SIGKILL)
                    return pid
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.005)
    return None


def _start(options: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    ray = Path(sys.executable).with_name("ray")
    common = ["--node-ip-address", "127.0.0.1", "--num-cpus", "1", "--object-store-memory", "100000000", "--block"]
    with log.open("wb") as output:
        return subprocess.Popen(
            [ray, "start", *options, *common], env=environment, stdout=output, stderr=output, start_new_session=True
        )


def _wait_for(condition: Callable[[], bool], node: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + _PATIENCE
    while not condition():
        if node.poll() is not None or time.monotonic() > ends:
            raise RuntimeError(f"the node did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.1)


def _listens(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


def _end(node: subprocess.Popen[bytes]) -> None:
    """End a node with all of its processes, which are those of its session."""
    while pids := _processes((node.pid,)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            node.wait(0.1)


def _processes(sessions: tuple[int, ...]) -> list[int]:
    """Return the processes of some sessions that are alive."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                state, _, _, session, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(session) in sessions and state != "Z":
                    found.append(int(folder.name))
    return found


def _is_running(pid: int, task: str) -> bool:
    """Tell whether a worker is at a task, by the title that Ray gives its process."""
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().startswith(f"ray::{task}".encode())
    return False


def _free_ports(count: int) -> list[int]:
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in listening]
    finally:
        for each in listening:
            each.close()
