"""Runs the fast numeric tests as they would run elsewhere: other processors, threads and seeds.

    python tests/elsewhere.py [NAME] [OPTIONS OF PYTEST]

Floats are summed in another order by every instruction set, so results differ in the last digits,
and a little training makes that visible. A test must hold all the same. torch, oneDNN and MKL
read their instruction set from the environment when they are loaded; `tests/support/worlds.py`
reads the seed and the number of threads. Every setting occurs in some variant, not every
combination.
"""

from __future__ import annotations

import os
import subprocess
import sys

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "AVX2"}
NO_VECTORS = {"ATEN_CPU_CAPABILITY": "default"}
OLDEST = {**NO_VECTORS, "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"}
# Passive: threads that wait for each other do not spin, which is slow on a busy machine.
TWO_THREADS = {"REMNANT_TEST_THREADS": "2", "OMP_WAIT_POLICY": "passive"}

VARIANTS: dict[str, dict[str, str]] = {
    "oldest": OLDEST,
    "avx2-two-threads": {**AVX2, **TWO_THREADS},
    "no-vectors-seed-1000": {**NO_VECTORS, "REMNANT_TEST_SEED": "1000"},
    "two-threads-seed-2000": {**TWO_THREADS, "REMNANT_TEST_SEED": "2000"},
}


def run_tests(name: str, options: list[str]) -> bool:
    settings = VARIANTS[name]
    print(f"== {name}:", *(f"{key}={value}" for key, value in settings.items()), flush=True)
    threads = settings.get("REMNANT_TEST_THREADS", "1")
    # As many processes as `make test` has, or as many threads: two in all.
    workers = ["-n", "2", "--dist", "loadfile"] if threads == "1" else []
    command = [sys.executable, "-m", "pytest", "-q", *workers, "-m", "numeric and not slow"]
    environment = {**os.environ, "OMP_NUM_THREADS": threads, **settings}
    return subprocess.run([*command, *options], env=environment).returncode == 0


def main() -> None:
    chosen, options = list(VARIANTS), sys.argv[1:]
    if options and not options[0].startswith("-"):
        chosen = [options.pop(0)]
    if chosen[0] not in VARIANTS:
        sys.exit(f"VARIANT must be one of {', '.join(VARIANTS)}; got {chosen[0]}.")
    failed = [name for name in chosen if not run_tests(name, options)]
    if failed:
        sys.exit(f"Tests failed in: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
