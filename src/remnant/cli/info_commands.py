"""Commands that list, estimate and measure; none of them trains."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from remnant.cli import console
from remnant.errors import InputError, command_text

if TYPE_CHECKING:
    from remnant.config import RunConfig

_MEASURING_SECONDS = 10.0
_SAMPLE = 600  # training images that `plan` encodes


def show(
    recipe: str,
    /,
    *,
    set_: console.SetOption = None,
    data_root: console.DataRoot = None,
    hours: Annotated[bool, Parameter(negative="")] = False,
    as_json: console.JsonOption = False,
) -> None:
    """Show the config, memory plan and cost of a run before it starts. Needs no data.

    Parameters
    ----------
    recipe
        Name from `remnant list recipes`, or path of a config.json.
    hours
        Measure this machine for a few seconds and estimate how long the run takes on one core.
    """
    from remnant.config import settle
    from remnant.planning.run_estimate import estimate
    from remnant.terminal.tables import plan_lines, settled_lines

    given = console.configure(recipe, console.parse_settings(set_, {}), data_root)
    plan = estimate(config := settle(given))
    if hours:
        plan["hours"] = _hours_of(config, plan["train_flops"])
    if as_json:
        console.print_json({"config": config.model_dump(mode="json"), **plan})
        return
    console.out.print_json(data=config.model_dump(mode="json"))
    for line in plan_lines(plan):
        console.out.print(line, markup=False)
    for line in settled_lines(given.model_dump(mode="json"), config.model_dump(mode="json")):
        console.out.print(line, markup=False)
    console.suggest(command_text("remnant", "run", recipe, *console.option_words(set_, data_root)))


def _hours_of(config: RunConfig, flops: float) -> float:
    """Hours on one idle core of this machine."""
    from remnant.planning.calibration import measure_speed, one_thread

    with one_thread():
        return flops / measure_speed(config, _MEASURING_SECONDS).flops_per_second / 3600


def schema(what: Literal["result", "config", "store"], /) -> None:
    """Print the JSON schema of result.json, of config.json, or of the header of a store.

    Methods and codecs of plug-ins are not in it.

    Parameters
    ----------
    what
        Which schema to print.
    """
    print((files("remnant") / "schemas" / f"{what}.json").read_text(), end="")


def bench(*, as_json: console.JsonOption = False) -> None:
    """Measure the training speed of this machine, as ratios. Takes about five minutes."""
    from remnant.bench import bench as measure
    from remnant.terminal.tables import bench_lines

    figures = measure(say=lambda text: console.notes.print(f"measuring {text}"))
    if as_json:
        console.print_json(figures)
        return
    for line in bench_lines(figures):
        console.out.print(line)


def plan(
    *,
    dataset: str,
    budget: str,
    set_: console.SetOption = None,
    sample: int = _SAMPLE,
    html: Path | None = None,
    data_root: console.DataRoot = None,
    as_json: console.JsonOption = False,
) -> None:
    """Measure how many exemplars of a data set each codec stores in a memory budget.

    Encodes real training images with the usual settings of every codec, and with the memory.codec
    given by --set, if any.

    Parameters
    ----------
    dataset
        Name from `remnant list datasets`; `folder` also needs --data-root, its folder of images.
    budget
        Memory budget, as in memory.budget: 60KiB/class, 20images/class or 2MiB.
    sample
        Number of training images to encode, spread evenly over the classes.
    html
        HTML page to write, which shows the same images under each codec.
    """
    from remnant.data import load_dataset
    from remnant.planning.codec_table import plan_codecs
    from remnant.reports import write_codec_page
    from remnant.terminal.tables import codec_lines, codec_table

    config = _plan_config(dataset, budget, data_root, set_ or [])
    console.check_page("--html", html)
    with console.counting("measuring codecs", in_bytes=False) as count:
        measured = plan_codecs(
            load_dataset(config.data),
            config.memory,
            sample=sample,
            seed=config.seed,
            progress=count,
        )
    document = measured.document()
    if html is not None:
        write_codec_page(document, measured.pictures, html)
    if as_json:
        console.print_json(document)
        return
    console.out.print(codec_table(document))
    for line in codec_lines(document, console.out.width):
        console.out.print(line, markup=False)
    if html is not None:
        console.out.print(f"page: {html}", markup=False)
    else:
        options = console.option_words(set_, data_root)
        options += ["--sample", str(sample)] * (sample != _SAMPLE)
        words = ("--dataset", dataset, "--budget", budget, *options, "--html", "plan.html")
        console.suggest(command_text("remnant", "plan", *words))


def _plan_config(dataset: str, budget: str, data_root: Path | None, settings: list[str]) -> Any:
    """A run config of which only data, memory and seed count."""
    from remnant.config import override
    from remnant.recipes import load_recipe

    given = {"data.dataset": dataset, "memory.budget": budget}
    changes = console.parse_settings(settings, given | console.place_of(dataset, data_root))
    for key in changes:
        if key.partition(".")[0] not in ("data", "memory", "seed"):
            raise InputError(
                f"remnant plan accepts only settings of data, memory and seed; got {key!r}."
            )
    # Any recipe with a memory would do.
    return override(load_recipe("digits-er"), changes)
