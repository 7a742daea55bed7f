"""What the API answers with, as its schema tells."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from remnant.settings import Settings


class Failure(Settings):
    """Why a request could not be met."""

    error: str = Field(description="One sentence for people.")


class UploadLimits(Settings):
    """What may be sent at once."""

    image_bytes: int = Field(description="Of one image.")
    images: int = Field(description="In one lesson.")
    request_bytes: int = Field(description="Of a whole request.")
    pixels: int = Field(description="Of one image, decoded.")
    name_characters: int = Field(description="Of the name of a class.")


class StoreFacts(Settings):
    """A store as a whole."""

    name: str = Field(description="Of its file.")
    remnant: str = Field(description="The version of remnant that serves it.")
    method: str = Field(description="That learns, as in `remnant list methods`.")
    image_size: int = Field(description="Side, in pixels, to which images are brought.")
    num_classes: int = Field(description="That it knows.")
    num_exemplars: int = Field(description="That it keeps, of all classes together.")
    memory_bytes: int = Field(description="Of all exemplars, as the budget counts them.")
    budget_bytes: int | None = Field(description="Null for a method that keeps no exemplars.")
    file_bytes: int = Field(description="Of the store on disk, weights included.")
    history: list[dict[str, Any]] = Field(description="One entry per update, oldest first.")
    limits: UploadLimits = Field(description="What may be sent.")
    job: int | None = Field(description="The lesson under way.")


class ClassFacts(Settings):
    """What is kept of one class."""

    name: str = Field(description="Of the class.")
    exemplars: int = Field(description="That are kept.")
    bytes: int = Field(description="Of all of them.")


class ExemplarFacts(Settings):
    """One exemplar; `stored` and `completed` are addresses of pictures."""

    rank: int = Field(description="0 is the best.")
    bytes: int = Field(description="Payload, positions and length.")
    stored: str = Field(description="What is kept; the rest is transparent.")
    completed: str | None = Field(
        description="As the network completes it for replay; null where it is stored whole."
    )


class ClassMemory(Settings):
    """Some exemplars of a class, best first."""

    name: str = Field(description="Of the class.")
    total: int = Field(description="Exemplars that the class has.")
    exemplars: list[ExemplarFacts] = Field(description="Those asked for.")


class Guess(Settings):
    """A class, and how sure the network is of it."""

    name: str = Field(description="Of the class.")
    probability: float = Field(ge=0, le=1, description="Of all classes they add up to 1.")


class Prediction(Settings):
    """The likeliest classes of an image, best first."""

    guesses: list[Guess] = Field(description="As many as asked for, or as there are.")


class JobFacts(Settings):
    """A lesson, under way or over."""

    id: int = Field(description="To ask for it again.")
    name: str = Field(description="Of the class that is taught.")
    images: int = Field(description="That it is taught with.")
    state: Literal["running", "done", "failed", "cancelled"] = Field(description="How it stands.")
    share_done: float = Field(ge=0, le=1, description="Of the whole lesson.")
    doing: str = Field(description="What is being done, in a few words.")
    seconds_left: float | None = Field(description="Of training; null before it has begun.")
    error: str | None = Field(description="Of a lesson that failed: one sentence.")


class Forgotten(Settings):
    """What became of a class."""

    told: str = Field(description="What is gone and what cannot be undone.")
