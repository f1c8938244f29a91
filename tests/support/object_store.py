"""An S3 server on this machine, in a process of its own, and runs put there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import ROOT

# moto is a process of its own: it changes how botocore works wherever it is imported.
_SERVER = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
print(f"http://{host}:{port}", flush=True)
input()
server.stop()
"""
_PUT = """
import sys, fsspec
system = fsspec.filesystem("s3")
system.mkdir(sys.argv[2])
system.put(sys.argv[1], f"{sys.argv[2]}/run", recursive=True)
"""


class Store(NamedTuple):
    """What a process needs in its environment to use the server; its keys open nothing else."""

    environment: dict[str, str]

    def put(self, folder: Path, bucket: str) -> str:
        """Copy a run into a bucket that is made for it; return the URL."""
        subprocess.run([sys.executable, "-c", _PUT, folder, bucket], env=self.environment, check=True)
        return f"s3://{bucket}/run"


@contextmanager
def s3_server() -> Iterator[Store]:
    """Run moto's server on a port of its own until the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            assert address, "the S3 server did not start"
            yield Store(
                os.environ
                | {
                    "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
                    "AWS_ENDPOINT_URL": address,
                    "AWS_ACCESS_KEY_ID": "of-this-test",
                    "AWS_SECRET_ACCESS_KEY": "of-this-test",
                    "AWS_DEFAULT_REGION": "us-east-1",
                    "AWS_EC2_METADATA_DISABLED": "true",
                }
            )
        finally:
            server.stdin.close()
            server.terminate()
