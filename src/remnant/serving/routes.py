"""The JSON API; every failure is one sentence under the key `error`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, File, Form, Path, Query, Request, Response, UploadFile

from remnant.serving import schemas
from remnant.serving.jobs import Job
from remnant.serving.store_session import Form as PictureForm
from remnant.serving.store_session import ServedStore, UnknownError
from remnant.serving.uploads import check_name, receive, receive_all

_SHOWN = 24  # exemplars of a class that are listed at once


def served(request: Request) -> ServedStore:
    return request.app.state.store


def _failures(**meanings: str) -> dict[int | str, dict[str, Any]]:
    """`_404="..."`: what a status means, for the schema."""
    always = {"_503": "The store was removed or damaged while it was served."}
    return {
        int(status[1:]): {"model": schemas.Failure, "description": meaning}
        for status, meaning in {**meanings, **always}.items()
    }


Store = Annotated[ServedStore, Depends(served)]
ClassName = Annotated[str, Path(description="Of a class, as /api/classes tells it.")]
Rank = Annotated[int, Path(description="From 0, the best.")]
WhichPicture = Annotated[PictureForm, Path(description="What is kept, or what becomes of it.")]
JobId = Annotated[int, Path(description="As /api/teach gave it.")]
_NO_CLASS = "There is no such class."
_MALFORMED = "The request is not of the form asked for."
_FORM = "The body is no form that can be read."

router = APIRouter(prefix="/api")


@router.get("/store", responses=_failures())
def get_store(store: Store) -> schemas.StoreFacts:
    """Tell what the store holds as a whole."""
    return store.facts()


@router.get("/classes", responses=_failures())
def get_classes(store: Store) -> list[schemas.ClassFacts]:
    """List the classes in order of arrival, with what is kept of each."""
    return store.classes()


@router.post(
    "/predict",
    responses=_failures(_400=_FORM, _413="The image has too many bytes.", _422=_MALFORMED),
)
def predict(
    store: Store,
    image: Annotated[UploadFile, File(description="A JPEG, PNG, WebP, BMP or GIF file.")],
    top: Annotated[int, Query(ge=1, le=1000, description="How many classes to tell.")] = 5,
) -> schemas.Prediction:
    """Tell the likeliest classes of an image."""
    return schemas.Prediction(guesses=store.predict(receive(image), top))


@router.post(
    "/teach",
    status_code=202,
    responses=_failures(
        _400=_FORM,
        _409="A class is being taught already.",
        _413="Too many images, or too many bytes.",
        _422=_MALFORMED,
    ),
)
def teach(
    store: Store,
    name: Annotated[str, Form(description="Of a new class, or of one that is known.")],
    images: Annotated[list[UploadFile], File(description="Files as in /api/predict.")],
) -> schemas.JobFacts:
    """Begin to teach a class; the answer's id serves to watch the lesson.

    The other classes are replayed from the memory. Until the end the store answers as before.
    """
    store.jobs.check_free()  # before anything is decoded
    return store.teach(check_name(name), receive_all(images)).facts()


@router.get("/jobs/{id}", responses=_failures(_404="There is no such lesson.", _422=_MALFORMED))
def get_job(store: Store, id: JobId) -> schemas.JobFacts:
    """Tell how a lesson goes."""
    return _job(store, id).facts()


@router.post(
    "/jobs/{id}/cancel",
    status_code=202,
    responses=_failures(
        _404="There is no such lesson.", _409="The lesson is over.", _422=_MALFORMED
    ),
)
def cancel_job(store: Store, id: JobId) -> schemas.JobFacts:
    """Stop a lesson at its next step; the store stays as it was."""
    job = _job(store, id)
    store.jobs.cancel(job)
    return job.facts()


@router.get("/classes/{name:path}/exemplars", responses=_failures(_404=_NO_CLASS, _422=_MALFORMED))
def get_exemplars(
    store: Store,
    name: ClassName,
    first: Annotated[int, Query(ge=0, description="Rank to begin at.")] = 0,
    count: Annotated[int, Query(ge=1, le=1000, description="How many to tell.")] = _SHOWN,
) -> schemas.ClassMemory:
    """List exemplars of a class, best first."""
    sizes = store.sizes(name)
    place = f"/api/classes/{quote(name, safe='')}/exemplars"
    rows = [
        schemas.ExemplarFacts(
            rank=rank,
            bytes=sizes[rank],
            stored=f"{place}/{rank}/stored.png",
            completed=f"{place}/{rank}/completed.png" if store.keeps_patches else None,
        )
        for rank in range(len(sizes))[first : first + count]
    ]
    return schemas.ClassMemory(name=name, total=len(sizes), exemplars=rows)


@router.get(
    "/classes/{name:path}/exemplars/{rank}/{form}.png",
    response_class=Response,
    responses={
        200: {"content": {"image/png": {}}, "description": "The picture."},
        **_failures(_404="There is no such class or exemplar.", _422=_MALFORMED),
    },
)
def get_picture(store: Store, name: ClassName, rank: Rank, form: WhichPicture) -> Response:
    """Show an exemplar: what is stored of it, or how the network completes that.

    The first picture after a change of the store takes longer: all exemplars are completed.
    """
    return Response(store.picture(name, rank, form), media_type="image/png")


@router.delete(
    "/classes/{name:path}",
    responses=_failures(
        _404=_NO_CLASS, _409="The class cannot be removed, or not now.", _422=_MALFORMED
    ),
)
def forget(store: Store, name: ClassName) -> schemas.Forgotten:
    """Remove a class: its exemplars, its row of the classifier, its name."""
    return schemas.Forgotten(told=store.forget(name))


def _job(store: ServedStore, number: int) -> Job:
    job = store.jobs.find(number)
    if job is None:
        raise UnknownError(f"there is no lesson {number}.")
    return job
