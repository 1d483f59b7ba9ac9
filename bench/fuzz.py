"""Fuzzing: mutated input for every reader, the mark-up parser, the splitter and the mapping of tokens to offsets.

With atheris (``pip install 'phrasemate[fuzz]'``) mutation is guided by coverage; without it, or with --plain, sound
documents are mutated at random, and the output says so. What must hold of any input is in fuzz_targets.py. Seeds are
made there; inputs that reached new code can be kept (--keep) in bench/fuzz/TARGET/ and are seeds from then on. A
finding ends the run with exit code 1 and is written to bench/out/fuzz/TARGET-*.

bench/fuzz/done.json counts what was done with --keep, in a processor's seconds, so that an hour for each target can be
run in pieces: --until takes the target that has had the least time, again and again, each time with another seed.

    python bench/fuzz.py tmx --seconds 3600
    python bench/fuzz.py --until 3600 --seconds 5400 --keep 15    at most an hour and a half now, in pieces of 300 s
    python bench/fuzz.py --list
    python bench/fuzz.py --done                                   what was done, as a table
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout
from fuzz_mutate import JSON, LONGEST, MARKUP, mutated, reshaped, revalued

FOUND = Path(__file__).parent / "out" / "fuzz"
KEPT = Path(__file__).parent / "fuzz"
DONE = KEPT / "done.json"
PIECE = 300  # seconds of a target, with --until
HANG = 20  # seconds
MEMORY_MB = 1_024  # beyond what the warm process takes


def main() -> None:
    args = _arguments()
    if args.done:
        print(table(done()))
        return
    FOUND.mkdir(parents=True, exist_ok=True)
    if not args.plain:
        try:
            import atheris
        except ImportError:
            print("no atheris here (pip install 'phrasemate[fuzz]'): mutation at random, not guided by coverage")
            args.plain = True
    if args.plain:
        from fuzz_targets import TARGETS
    else:
        with atheris.instrument_imports(include=["phrasemate"]):
            from fuzz_targets import TARGETS
    if args.until:
        if args.plain or not args.keep:  # what is not counted would be done again and again
            raise SystemExit("--until counts what was done: it needs atheris and --keep")
        _all(sorted(TARGETS), args)
        return
    if args.list or args.target not in TARGETS:
        print(*TARGETS, sep="\n")
        raise SystemExit(not args.list)
    if args.plain:
        _plain(args.target, args.seconds, args.seed)
    else:
        _guided(args.target, args.seconds, args.seed, args.keep)


def _all(targets: list[str], args: argparse.Namespace) -> None:
    """Piece after piece, in processes of their own, until each target has had its time or there is none left."""
    deadline = time.monotonic() + args.seconds
    while (left := int(deadline - time.monotonic())) > PIECE // 10:
        spent = {target: done().get(target, {}).get("seconds", 0) for target in targets}
        for target in sorted(targets, key=lambda each: (spent[each], each)):
            try:
                with FileLock(FOUND / f"{target}.lock", timeout=0):  # another process may be at it
                    if spent[target] >= args.until:
                        return
                    _piece(target, min(PIECE, left, args.until - int(spent[target]) + 1), args)
                    break
            except Timeout:
                continue


def _piece(target: str, seconds: int, args: argparse.Namespace) -> None:
    seed = args.seed + done().get(target, {}).get("runs", 0) + 1
    command = [sys.executable, __file__, target, "--seconds", str(seconds), "--seed", str(seed)]
    code = subprocess.run([*command, "--keep", str(args.keep)], stderr=subprocess.DEVNULL).returncode
    if code:
        raise SystemExit(f"{target}: exit code {code} with seed {seed}; look into {FOUND}")


def done() -> dict[str, dict[str, int]]:
    """Target -> seconds of a processor, inputs, inputs that reached new code, findings, runs."""
    found: dict[str, dict[str, int]] = json.loads(DONE.read_text("utf-8")) if DONE.exists() else {}
    return found


def _add(target: str, **more: float) -> None:
    """To what was done."""
    with FileLock(FOUND / "done.lock"):
        known = done()
        held = known.setdefault(target, {})
        for name, value in more.items():
            held[name] = held.get(name, 0) + round(value)
        DONE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def table(known: dict[str, dict[str, int]]) -> str:
    """As in docs/safety.md."""
    lines = ["| target | minutes | inputs | that reached new code | findings |", "|---|---|---|---|---|"]
    for target, facts in sorted(known.items()):
        numbers = [f"{facts.get(name, 0):,}" for name in ("inputs", "new", "findings")]
        lines.append(f"| {target} | {facts['seconds'] / 60:.0f} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def _guided(target: str, seconds: int, seed: int, keep: int) -> None:
    """libFuzzer, in a fork, for it never comes back; afterwards the smallest inputs that reached new code are kept."""
    import atheris
    from fuzz_targets import run

    seeds = _seeds(target)
    with atheris.instrument_imports(include=["phrasemate"]):  # targets import what they feed at their first input
        run(target, seeds[0])
    with tempfile.TemporaryDirectory(prefix="seeds-") as name:
        for data in seeds:
            (Path(name) / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        options = [f"-max_total_time={seconds}", f"-timeout={HANG}", f"-rss_limit_mb={MEMORY_MB + 1_024}"]
        options += [f"-max_len={LONGEST}", f"-seed={seed or 1}", "-print_final_stats=1", "-verbosity=0"]
        options += [f"-artifact_prefix={FOUND}/{target}-", name]
        count = mmap.mmap(-1, 8)  # the child counts in memory that both have
        child = os.fork()
        if child == 0:
            change = {"custom_mutator": _mutator(target)} if target in MARKUP or target in JSON else {}
            call = _counting(count, lambda data: run(target, data) and None)
            atheris.Setup([sys.argv[0], *options], call, **change)
            atheris.Fuzz()
            os._exit(0)
        _, status, usage = os.wait4(child, 0)
        code, inputs = os.waitstatus_to_exitcode(status), int.from_bytes(count[:8], "little")
        spent = usage.ru_utime + usage.ru_stime  # on a busy machine less than the clock says
        new = {path.read_bytes() for path in Path(name).iterdir()} - set(seeds)
    for data in sorted(new, key=len)[:keep]:
        (KEPT / target).mkdir(parents=True, exist_ok=True)
        (KEPT / target / f"{hashlib.sha256(data).hexdigest()[:16]}.seed").write_bytes(data)
    if keep:
        _add(target, seconds=spent, inputs=inputs, new=len(new), findings=int(code != 0), runs=1)
    found = f"{inputs:,} inputs in {spent:.0f} s of a processor, {len(new)} that reached new code"
    print(f"{target}: {'no finding' if not code else 'a finding'}, {found} (seed {seed})", flush=True)
    raise SystemExit(code)


def _mutator(target: str) -> Callable[[bytes, int, int], bytes]:
    """Of two inputs one is changed in its elements or values, one in its bytes."""
    import atheris

    def change(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        made = _structured(draw, data, target) if draw.random() < 0.5 else data
        return atheris.Mutate(data, most) if made == data or len(made) > most else made

    return change


def _structured(draw: random.Random, data: bytes, target: str) -> bytes:
    """Changed in its elements or values, where it has any."""
    if target in JSON:
        return revalued(draw, data)
    return reshaped(draw, data, target) if target in MARKUP else data


def _counting(count: mmap.mmap, call: Callable[[bytes], None]) -> Callable[[bytes], None]:
    seen = 0

    def counted(data: bytes) -> None:
        nonlocal seen
        seen += 1
        count[:8] = seen.to_bytes(8, "little")
        call(data)

    return counted


def _plain(target: str, seconds: int, seed: int) -> None:
    """Mutation at random: elements or values of a seed changed, or bytes and blocks, mixed among the seeds."""
    from fuzz_targets import SEEDS, run

    draw, seeds, sound = random.Random(f"{target} {seed}"), _seeds(target), SEEDS[target]()
    deadline, count, read = time.monotonic() + seconds, 0, 0
    _limit()
    signal.signal(signal.SIGALRM, _hang)
    while time.monotonic() < deadline:
        one = draw.choice(sound)
        data = _structured(draw, one, target) if draw.random() < 0.5 else one
        if data == one or len(data) > LONGEST:
            data = mutated(draw, seeds)
        signal.setitimer(signal.ITIMER_REAL, HANG)
        try:
            read += run(target, data)
        except KeyboardInterrupt:
            raise
        except BaseException:  # a panic of a library in Rust is no Exception
            path = FOUND / f"{target}-{hashlib.sha256(data).hexdigest()[:16]}"
            path.write_bytes(data)
            traceback.print_exc()
            raise SystemExit(f"{target}: a finding after {count:,} inputs, written to {path}") from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        count += 1
    print(f"{target}: {count:,} inputs, {read:,} of them read, no finding (mutated at random; seed {seed})")


class Hang(BaseException):
    """More than `HANG` seconds for one input; no reader catches it."""


def _hang(*_: object) -> None:
    raise Hang(f"more than {HANG} s")


def _seeds(target: str) -> list[bytes]:
    from fuzz_targets import SEEDS

    kept = sorted((KEPT / target).glob("*")) if (KEPT / target).is_dir() else []
    return [*SEEDS[target](), *(path.read_bytes() for path in kept)]


def _limit() -> None:
    """Memory beyond the limit is a finding: it becomes a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    most = pages * resource.getpagesize() + MEMORY_MB * 1_000_000
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("target", nargs="?", default="", help="one of those that --list names")
    made.add_argument("--seconds", type=int, default=60)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--keep", type=int, default=0, help="so many new inputs, the smallest, go to bench/fuzz/TARGET")
    made.add_argument("--plain", action="store_true", help="without atheris")
    made.add_argument("--until", type=int, default=0, help="all targets, until each has had so many seconds")
    made.add_argument("--done", action="store_true", help="print what was done")
    made.add_argument("--list", action="store_true", help="name the targets")
    return made.parse_args()


if __name__ == "__main__":
    main()
