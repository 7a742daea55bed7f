"""The JSON API; the body of every error is one sentence under the key `error`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, File, Form, Path, Query, Request, Response, UploadFile

from remnant.serving import schemas
from remnant.serving.forms import FormRoute
from remnant.serving.jobs import Job
from remnant.serving.store_session import StoreSession
from remnant.serving.store_version import NotFoundError, PictureKind
from remnant.serving.teaching_plan import plan_teaching
from remnant.serving.uploads import receive, receive_all

_PAGE_SIZE = 24  # exemplars per request, unless the client asks for another number


# Not plain functions: those would each wait for a thread.
async def current_session(request: Request) -> StoreSession:
    return request.app.state.session


async def client_address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _errors(**meanings: str) -> dict[int | str, dict[str, Any]]:
    """`_404="..."`: the meaning of an error status, for the schema."""
    always = {"_503": "The store file was removed or damaged while it was being served."}
    return {
        int(status[1:]): {"model": schemas.ErrorResponse, "description": meaning}
        for status, meaning in {**meanings, **always}.items()
    }


Session = Annotated[StoreSession, Depends(current_session)]
Client = Annotated[str, Depends(client_address)]
ClassName = Annotated[str, Path(description="Name of a class, as listed by /api/classes.")]
Rank = Annotated[int, Path(description="Rank of the exemplar in its class; 0 is the best.")]
Kind = Annotated[
    PictureKind,
    Path(description="`stored`: the stored pixels; `completed`: the image used for replay."),
]
Names = Annotated[
    list[str],
    Form(
        min_length=1,
        description="Name of the class of all images; or one name for each image, in the same "
        "order, to send several classes.",
    ),
]
Images = Annotated[list[UploadFile], File(description="JPEG, PNG, WebP, BMP or GIF files.")]
JobId = Annotated[int, Path(description="Id of a job, as returned by /api/teach.")]
_NO_CLASS = "There is no class of this name."
_NO_JOB = "There is no job with this id."
_INVALID = "A parameter, form field or image is missing or invalid."
_TOO_LARGE = "There are too many images, or they are too large."
_UNREADABLE_FORM = "The body is not a readable multipart form."

router = APIRouter(prefix="/api", route_class=FormRoute)


@router.get("/store", responses=_errors())
def get_store(session: Session) -> schemas.StoreInfo:
    """Get the size, history and upload limits of the store."""
    return session.info()


@router.get("/classes", responses=_errors())
def get_classes(session: Session) -> list[schemas.ClassInfo]:
    """List the classes in the order in which they were learned."""
    return session.classes()


@router.post(
    "/predict",
    response_model=schemas.Prediction,
    responses=_errors(_400=_UNREADABLE_FORM, _413="The image file is too large.", _422=_INVALID),
)
def predict(
    session: Session,
    image: Annotated[UploadFile, File(description="A JPEG, PNG, WebP, BMP or GIF file.")],
    top: Annotated[
        int, Query(ge=1, le=1000, description="Number of most probable classes to return.")
    ] = 5,
) -> Response:
    """Predict the class of an image."""
    version = session.version()
    prediction = version.predict(receive(image, version.image_size), top)
    # As text, since FastAPI would wait for another thread to turn an object into it.
    return Response(prediction.model_dump_json(), media_type="application/json")


@router.post(
    "/score",
    responses=_errors(_400=_UNREADABLE_FORM, _413=_TOO_LARGE, _422=_INVALID),
)
def score(session: Session, name: Names, images: Images) -> schemas.Score:
    """Compare predictions with the true classes of images; nothing is stored.

    Images that cannot be read are left out and named, unless nothing of a class is left.
    """
    version = session.version()
    received = receive_all(images, name, version.image_size)
    scored = version.score(received.images, received.names)
    return schemas.Score(
        images=len(received.images),
        accuracy=scored.accuracy,
        classes=[
            schemas.ClassScore(name=str(label), images=count, accuracy=share, mistaken_for=taken)
            for label, count, share, taken in scored.class_rows()
        ],
        mistakes=[
            schemas.Mistake(
                index=received.places[place],
                file=file,
                name=str(true),
                predicted=str(taken),
                probability=share,
            )
            for place, (file, true, taken, share) in zip(scored.places, scored.files, strict=True)
        ],
        notes=received.notes,
    )


@router.get("/plan", responses=_errors(_422=_INVALID))
def get_plan(
    session: Session,
    images: Annotated[int, Query(ge=1, le=100_000, description="Number of images to teach.")] = 1,
) -> schemas.TeachingPlan:
    """Get the settings that teaching would use, and an estimate of how long it would take."""
    return plan_teaching(session.version(), images)


@router.post(
    "/teach",
    status_code=202,
    responses=_errors(
        _400=_UNREADABLE_FORM, _409="Another job is running.", _413=_TOO_LARGE, _422=_INVALID
    ),
)
def teach(
    session: Session,
    client: Client,
    name: Names,
    images: Images,
    guard: Annotated[
        float | None,
        Form(
            ge=0,
            le=100,
            description="Refuse the update if an old class would lose more points of accuracy "
            "than this.",
        ),
    ] = None,
) -> schemas.JobStatus:
    """Start a job that teaches one or several classes from images.

    The other classes are replayed from the memory. Until the job is done, predictions come from
    the store as it was before. Images that cannot be read are left out and named, unless nothing
    of a class is left.
    """
    session.jobs.check_free()  # before the images are decoded
    received = receive_all(images, name, session.version().image_size)
    return session.teach(received, guard, client).status()


@router.post("/undo", responses=_errors(_409="A job is running, or there is nothing to undo."))
def undo(session: Session, client: Client) -> schemas.UndoneUpdate:
    """Undo the last update of the store, once."""
    return schemas.UndoneUpdate(message=session.undo(client))


@router.get("/jobs/{id}", responses=_errors(_404=_NO_JOB, _422=_INVALID))
def get_job(session: Session, id: JobId) -> schemas.JobStatus:
    """Get the state and progress of a job."""
    return _job(session, id).status()


@router.post(
    "/jobs/{id}/cancel",
    status_code=202,
    responses=_errors(_404=_NO_JOB, _409="The job has already ended.", _422=_INVALID),
)
def cancel_job(session: Session, id: JobId) -> schemas.JobStatus:
    """Stop a job as soon as possible and leave the store unchanged."""
    job = _job(session, id)
    session.jobs.cancel(job)
    return job.status()


@router.get("/classes/{name:path}/exemplars", responses=_errors(_404=_NO_CLASS, _422=_INVALID))
def get_exemplars(
    session: Session,
    name: ClassName,
    first: Annotated[int, Query(ge=0, description="Rank of the first exemplar to return.")] = 0,
    count: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of exemplars to return.")
    ] = _PAGE_SIZE,
) -> schemas.ExemplarPage:
    """List exemplars of a class, best first."""
    version = session.version()
    sizes = version.exemplar_bytes(version.find(name))
    path = f"/api/classes/{quote(name, safe='')}/exemplars"
    rows = [
        schemas.ExemplarInfo(
            rank=rank,
            bytes=sizes[rank],
            stored=f"{path}/{rank}/stored.png",
            completed=f"{path}/{rank}/completed.png" if version.keeps_patches else None,
        )
        for rank in range(len(sizes))[first : first + count]
    ]
    return schemas.ExemplarPage(name=name, total=len(sizes), exemplars=rows)


@router.get(
    "/classes/{name:path}/exemplars/{rank}/{kind}.png",
    response_class=Response,
    responses={
        200: {"content": {"image/png": {}}, "description": "The picture as a PNG file."},
        **_errors(_404="There is no such class or exemplar.", _422=_INVALID),
    },
)
def get_picture(session: Session, name: ClassName, rank: Rank, kind: Kind) -> Response:
    """Get a picture of an exemplar: its stored pixels, or its completion by the network.

    The first request after the store has changed takes longer, since it completes all exemplars.
    """
    return Response(session.version().picture(name, rank, kind), media_type="image/png")


@router.delete(
    "/classes/{name:path}",
    responses=_errors(
        _404=_NO_CLASS, _409="A job is running, or the class cannot be removed.", _422=_INVALID
    ),
)
def forget(session: Session, client: Client, name: ClassName) -> schemas.RemovedClass:
    """Remove a class: its exemplars, its row of the classifier and its name."""
    return schemas.RemovedClass(message=session.forget(name, client))


def _job(session: StoreSession, number: int) -> Job:
    job = session.jobs.find(number)
    if job is None:
        raise NotFoundError(f"there is no job {number}.")
    return job
