"""Write requirements.lock and sbom.cdx.json: the exact packages that CI and releases use.

    python .ci/lock.py

pip resolves the extra `dev`, with all optional dependencies, on the machine that runs this (CI's:
Linux on x86-64, Python 3.11). torch is not in the lock: constraints.txt has its version, and a CPU
build where one is at hand has another digest than the one of the registry. To install:

    pip install -c constraints.txt torch
    pip install --require-hashes --no-deps -r requirements.lock
    pip install --no-deps -e .
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK, SBOM = ROOT / "requirements.lock", ROOT / "sbom.cdx.json"
_HEAD = "# Written by .ci/lock.py, which says how to install it; torch is in constraints.txt."
_UNLOCKED = re.compile(r"torch|triton|cuda.*|nvidia-.*|remnant")


def resolve() -> dict[str, Any]:
    """What pip would install."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed"]
        command += ["--report", str(report), "-c", str(ROOT / "constraints.txt")]
        subprocess.run([*command, f"{ROOT}[dev]"], check=True)
        return json.loads(report.read_text())


def locked(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, version and SHA-256 of each package, by name."""
    found = []
    for one in report["install"]:
        name = re.sub(r"[-_.]+", "-", one["metadata"]["name"]).lower()
        if _UNLOCKED.fullmatch(name) is None:
            digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
            found.append((name, one["metadata"]["version"], digest))
    return sorted(found)


def lock_text(packages: list[tuple[str, str, str]]) -> str:
    lines = [f"{name}=={version} --hash=sha256:{digest}" for name, version, digest in packages]
    return "\n".join([_HEAD, *lines]) + "\n"


def read_lock(text: str) -> list[tuple[str, str, str]]:
    return re.findall(r"^(\S+)==(\S+) --hash=sha256:(\w+)$", text, re.MULTILINE)


def sbom_text(packages: list[tuple[str, str, str]], torch: str) -> str:
    """CycloneDX: what a tested installation consists of."""
    components = [
        {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for name, version, digest in packages
    ]
    components.append(
        {"type": "library", "name": "torch", "version": torch, "purl": f"pkg:pypi/torch@{torch}"}
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    about = {
        "type": "library",
        "name": project["name"],
        "licenses": [{"license": {"id": project["license"]}}],
    }
    return (
        json.dumps(
            {
                "bomFormat": "CycloneDX",
                "specVersion": "1.5",
                "version": 1,
                "metadata": {"component": about},
                "components": sorted(components, key=lambda one: one["name"]),
            },
            indent=1,
        )
        + "\n"
    )


def torch_version() -> str:
    (found,) = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, help="of pip install --dry-run, made before")
    given = parser.parse_args()
    report = json.loads(given.report.read_text()) if given.report else resolve()
    packages = locked(report)
    LOCK.write_text(lock_text(packages))
    SBOM.write_text(sbom_text(packages, torch_version()))


if __name__ == "__main__":
    main()
