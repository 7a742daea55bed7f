"""The JSON documents of the API, as its OpenAPI schema describes them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from remnant.settings import Settings


class ErrorResponse(Settings):
    """Why a request failed."""

    error: str = Field(description="One sentence that says what is wrong.")


class UploadLimits(Settings):
    """The largest uploads that the server accepts."""

    image_bytes: int = Field(description="Maximum size of one image file, in bytes.")
    images: int = Field(description="Maximum number of images in one request.")
    request_bytes: int = Field(description="Maximum size of a whole request, in bytes.")
    pixels: int = Field(description="Maximum number of pixels of one decoded image.")
    decoding_bytes: int = Field(
        description="Maximum memory that one image may take while it is decoded, in bytes; JPEG "
        "files are decoded at a smaller size and take less."
    )
    name_characters: int = Field(description="Maximum length of a class name, in characters.")


class StoreInfo(Settings):
    """The store as a whole."""

    name: str = Field(description="File name of the store.")
    remnant: str = Field(description="Version of remnant that runs this server.")
    method: str = Field(description="Learning method, one of `remnant list methods`.")
    image_size: int = Field(description="Side to which images are resized, in pixels.")
    num_classes: int = Field(description="Number of classes that the store can predict.")
    num_exemplars: int = Field(description="Number of stored exemplars, over all classes.")
    memory_bytes: int = Field(description="Bytes of all exemplars, as counted in the budget.")
    budget_bytes: int | None = Field(
        description="Bytes that the exemplars may take; null if the method keeps no exemplars."
    )
    file_bytes: int = Field(description="Size of the store file including weights, in bytes.")
    history: list[dict[str, Any]] = Field(description="One entry per update, oldest first.")
    limits: UploadLimits = Field(description="Upload limits of this server.")
    job: int | None = Field(description="Id of the running job; null if no job is running.")
    can_undo: bool = Field(description="Whether POST /api/undo can undo the last update.")


class ClassInfo(Settings):
    """One class and the size of its memory."""

    name: str = Field(description="Name of the class.")
    exemplars: int = Field(description="Number of stored exemplars of the class.")
    bytes: int = Field(description="Bytes of all exemplars of the class.")


class ExemplarInfo(Settings):
    """One exemplar."""

    rank: int = Field(description="Rank within the class; 0 is the best.")
    bytes: int = Field(description="Bytes of payload, patch positions and length.")
    stored: str = Field(
        description="Path of a PNG of the stored pixels; patches that are not stored are "
        "transparent."
    )
    completed: str | None = Field(
        description="Path of a PNG of the image as the network completes it for replay; null if "
        "exemplars are stored whole."
    )


class ExemplarPage(Settings):
    """Some exemplars of a class, best first."""

    name: str = Field(description="Name of the class.")
    total: int = Field(description="Number of stored exemplars of the class.")
    exemplars: list[ExemplarInfo] = Field(description="The requested exemplars, best first.")


class Guess(Settings):
    """A class and its predicted probability."""

    name: str = Field(description="Name of the class.")
    probability: float = Field(
        ge=0, le=1, description="Predicted probability; over all classes they sum to 1."
    )


class Prediction(Settings):
    """The most probable classes of an image."""

    guesses: list[Guess] = Field(
        description="The `top` most probable classes, or all if there are fewer; best first."
    )
    is_known: bool | None = Field(
        description="Whether the image is of one of the classes at all; false for what is unlike "
        "anything taught, null if the method cannot reject images."
    )


class TeachingPlan(Settings):
    """What teaching will use, and how long it will take."""

    method: str = Field(description="Learning method, one of `remnant list methods`.")
    encoder: str | None = Field(
        description="Frozen pretrained encoder; null if a network is trained from scratch."
    )
    licence: str | None = Field(description="Licence of the encoder's weights; null without one.")
    image_size: int = Field(description="Side to which images are resized, in pixels.")
    images: int = Field(description="Number of images that the estimate is for.")
    seconds: float | None = Field(description="Estimated seconds; null if nothing is known.")
    basis: str = Field(description="What the estimate is based on, in a few words.")


class JobStatus(Settings):
    """A teaching job, running or finished."""

    id: int = Field(description="Id of the job, for /api/jobs/{id}.")
    name: str = Field(description="The class being taught, or several of them, for display.")
    classes: list[str] = Field(description="Names of all classes being taught.")
    images: int = Field(description="Number of images that are taught.")
    state: Literal["running", "done", "refused", "failed", "cancelled"] = Field(
        description="State of the job; the store changes only if it ends as `done`. `refused`: an "
        "old class would have lost more than `guard` allows."
    )
    share_done: float = Field(ge=0, le=1, description="Finished share of the job, from 0 to 1.")
    doing: str = Field(description="Current activity, in a few words for display.")
    seconds_left: float | None = Field(
        description="Estimated seconds left; null before learning starts and after the job ends."
    )
    error: str | None = Field(
        description="One sentence that says why the job failed or was refused; null otherwise."
    )
    notes: list[str] = Field(
        description="Sentences about the images: unreadable ones, which are left out, copies, "
        "classes of very different sizes."
    )
    update: dict[str, Any] | None = Field(
        description="The entry that the job added to the history, with what was measured; null "
        "unless it is done."
    )


class ClassScore(Settings):
    """Accuracy on the images of one class."""

    name: str = Field(description="Name of the class.")
    images: int = Field(description="Number of images of the class in the request.")
    accuracy: float = Field(
        ge=0, le=100, description="Percent of them that were predicted correctly."
    )
    mistaken_for: str = Field(
        description="The class that they were most often mistaken for, with the number of images; "
        "empty if there were no mistakes."
    )


class Mistake(Settings):
    """An image that was predicted as another class."""

    index: int = Field(description="Place of the image in the request, from 0.")
    file: str = Field(description="File name of the image, as it was sent.")
    name: str = Field(description="The class of the image.")
    predicted: str = Field(description="The class that was predicted.")
    probability: float = Field(ge=0, le=1, description="Probability of the predicted class.")


class Score(Settings):
    """Accuracy on images whose classes are known."""

    images: int = Field(description="Number of images that could be read.")
    accuracy: float = Field(
        ge=0, le=100, description="Percent of the images that were predicted correctly."
    )
    classes: list[ClassScore] = Field(description="The classes that have images.")
    mistakes: list[Mistake] = Field(description="All mistakes, most confident first.")
    notes: list[str] = Field(description="A sentence about unreadable images, if there are any.")


class UndoneUpdate(Settings):
    """The outcome of undoing an update."""

    message: str = Field(description="What the store holds now.")


class RemovedClass(Settings):
    """The outcome of removing a class."""

    message: str = Field(description="What was removed, and what cannot be undone.")
