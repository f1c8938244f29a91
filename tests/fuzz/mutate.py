"""Mutate one kind of file many times and read each result; run by test_fuzz.py in its own process.

Fails by raising: an exception that is not a ParityError, a case that takes a second of
CPU, or anything that starts a program, compiles code, unpickles or writes outside.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from tests.support.runs import write_linear_run, write_ptdbg
from torchparity import RunPart, RunWriter, open_run, plugins
from torchparity.errors import ParityError
from torchparity.kernels.reference import profile
from torchparity.records import Record, TensorLeaf
from torchparity.storage import open_info_files, summarise, write_info_files

SECONDS = 1
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pickle.find_class", "compile")
INTERESTING = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**62, 2**63 - 1, 2**64 - 1]
JSON_WORDS = [b"-1", b"NaN", b"1e999", b"null", b"{}", b"[]", b'"../x"', b"9223372036854775808", b"true", b"[[[["]


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Return the content with one to four random changes."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(8)
        if kind == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + rng.randrange(1, 64)]
        elif kind == 4:
            data[at:at] = data[at : at + rng.randrange(1, 64)]
        elif kind == 5:
            width = rng.choice([2, 4, 8])
            data[at : at + width] = (rng.choice(INTERESTING) & (256**width - 1)).to_bytes(width, "little")
        elif kind == 6:
            data[at:at] = rng.choice(JSON_WORDS)
        else:
            _swap_number(data, rng)
    return bytes(data)


def _swap_number(data: bytearray, rng: random.Random) -> None:
    """Replace a run of digits, so that JSON stays JSON and only its meaning breaks."""
    digits = [index for index, byte in enumerate(data[:4096]) if 48 <= byte <= 57]
    if digits:
        at = rng.choice(digits)
        data[at : at + 1] = rng.choice([b"-1", b"0", b"99999999999", b"18446744073709551616", b"1.5"])


def prepare(target: str, folder: Path) -> tuple[Path, Path]:
    """Return a run and the file of it to mutate."""
    run = folder / "run"
    if target in ("npy", "pkl"):
        write_ptdbg(run / "rank0")
        return run, next(run.rglob("*input.0.npy" if target == "npy" else "dump.pkl"))
    if target == "journal":
        writer = RunWriter(run)
        writer.start_step(0)
        leaf = TensorLeaf(dtype="torch.float32", shape=(2,))
        for call in range(5):
            writer.add(Record(name=f"Torch.exp.{call}.forward", direction="forward", input_args=[leaf]))
        writer.close()
        return run, next(run.rglob("journal.jsonl"))
    write_linear_run(run, tensor_format="pt" if target == "pt" else "safetensors")
    if target.endswith("_info"):
        files = write_info_files(folder, 0, open_run(run).parts, real_data=True)
        files.backward.write_text('{"Functional.linear.0": [{"type": "torch.Tensor", "dtype": "float", "shape": [2]}]}')
        return files.forward, folder / f"{target}_0.json"
    pattern = {"dump.json": "dump.json", "stack.json": "stack.json", "shard": "*.safetensors", "pt": "*.pt"}[target]
    return run, sorted(run.rglob(pattern))[0]


def parts_of(run: Path) -> list[RunPart]:
    if run.is_file():
        return [open_info_files(run, run.with_name("backward_info_0.json"))]
    opened = open_run(run)
    summarise(opened, opened.parts)
    return opened.parts


def read_everything(run: Path) -> tuple[bool, bool]:
    """Read all that a run offers; return whether anything was refused and whether anything was read."""
    refused, read = False, False
    try:
        parts = parts_of(run)
        for part in parts:
            refused |= bool(part.problems or part.verify())
            read |= bool(part.records)
            for _, leaf in part.tensors():
                try:
                    profile(part.tensor(leaf, verify=False))
                except ParityError:
                    refused = True
    except ParityError as error:
        assert "\n" not in str(error)
        refused = True
    return refused, read


def forbid(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith(FORBIDDEN):
        raise AssertionError(f"reading a file led to {event} {arguments!r}")
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        raise AssertionError(f"reading a file opened {arguments[0]!r} for writing")


def main() -> None:
    target, cases, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    run, file = prepare(target, folder)
    original = file.read_bytes()
    for name in plugins.names("storage.formats"):
        plugins.load("storage.formats", name)  # importing compiles, which is forbidden below
    refused, read = read_everything(run)
    assert read
    assert refused == (target == "journal")  # a journal is always half a step
    with np.errstate(all="ignore"):
        result = attack(run, file, original, target, cases)
    print(json.dumps(result))


def attack(run: Path, file: Path, original: bytes, target: str, cases: int) -> dict[str, object]:
    sys.addaudithook(lambda event, arguments: forbid(event, arguments) if armed else None)
    # CPU time, not the clock: a busy machine must not fail the test.
    signal.signal(signal.SIGVTALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("over a second of CPU")))
    refused, read, slowest = 0, 0, 0.0
    armed = False
    for case in range(cases):
        rng = random.Random(f"{target}-{case}")
        file.write_bytes(mutate(original, rng))
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        began = time.process_time()
        armed = True
        try:
            outcome = read_everything(run)
        except BaseException:
            armed = False
            (run.parent / "failed").write_bytes(file.read_bytes())
            print(f"case {target}-{case} failed", file=sys.stderr)
            raise
        finally:
            armed = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        refused, read = refused + outcome[0], read + outcome[1]
        slowest = max(slowest, time.process_time() - began)
    # Not getrusage: a process inherits the peak of the one that started it.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) // 1024
    return {
        "target": target,
        "cases": cases,
        "refused": refused,
        "read": read,
        "slowest_seconds": round(slowest, 3),
        "peak_mib": peak,
    }


if __name__ == "__main__":
    main()
