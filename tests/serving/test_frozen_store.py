"""A store on a frozen encoder: estimates, progress by images, and none of these."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from remnant.learner import Learner
from remnant.serving import StoreSession, build_app
from remnant.serving.guard import Rules
from remnant.serving.jobs import Observer
from tests.support.http_client import Client, png
from tests.support.striped_photos import SIZE, photos


def files(label: int, count: int, seed: int = 3) -> list[bytes]:
    return [png(image) for image in photos(label, count, seed)]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frozen") / "photos.remnant"
    options = {"method.num_projected": 100}
    learner = Learner(method="ranpac", quiet=True, threads=1, options=options)
    images = np.concatenate([photos(label, 20) for label in (0, 1)])
    learner.partial_fit(images, ["a"] * 20 + ["b"] * 20)
    learner.save(path)
    return path


@pytest.fixture
def session(taught: Path, tmp_path: Path) -> Iterator[StoreSession]:
    shutil.copy(taught, tmp_path)
    found = StoreSession(tmp_path / taught.name)
    yield found
    found.close()


@pytest.fixture
def client(session: StoreSession) -> Client:
    return Client(build_app(session, Rules()))


def test_the_plan_names_encoder_and_licence_and_counts_images(
    client: Client, session: StoreSession
) -> None:
    plan = client("GET", "/api/plan?images=40").json()
    assert (plan["method"], plan["encoder"]) == ("ranpac", "efficientnet-lite0")
    assert plan["licence"] == "Apache-2.0"
    assert plan["seconds"] == pytest.approx(40 * session.version().seconds_per_image)
    assert "for each image, as measured on this machine" in plan["basis"]


def test_a_job_tells_how_many_images_were_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, plain = [], Observer.on_images

    def on_images(self: Observer, num_read: int, num_images: int) -> None:
        plain(self, num_read, num_images)
        told.append((self._job.doing, self._job.share_done))

    monkeypatch.setattr(Observer, "on_images", on_images)
    job = client.taught("c", files(2, 24))
    assert job["state"] == "done"
    assert told[-1] == ("24 of 24 images read", 0.98)
    assert [share for _, share in told] == sorted({share for _, share in told})
    assert job["update"]["measured_on"] == "held-out"
    assert {name for name, _ in job["update"]["class_accuracy_before"]} == {"a", "b"}


def test_a_job_stops_while_it_reads(
    client: Client, session: StoreSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Observer.on_images

    def cancel(self: Observer, num_read: int, num_images: int) -> None:
        self._job.is_cancelled.set()
        plain(self, num_read, num_images)

    before = session.path.read_bytes()
    monkeypatch.setattr(Observer, "on_images", cancel)
    assert client.taught("c", files(2, 3))["state"] == "cancelled"
    assert session.path.read_bytes() == before


def test_noise_is_none_of_the_classes(client: Client) -> None:
    noise = np.random.default_rng(5).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    answer = client("POST", "/api/predict", files={"image": ("x.png", png(noise))}).json()
    assert answer["is_known"] is False
    assert len(answer["guesses"]) == 2
    known = [
        client("POST", "/api/predict", files={"image": ("x.png", content)}).json()["is_known"]
        for content in files(0, 12, seed=0)  # that it was taught
    ]
    assert sum(known) > 6
