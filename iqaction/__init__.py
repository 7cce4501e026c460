"""Does the faster engine still produce the model's output?

The library in three names: :func:`run` observes and judges, :func:`judge` judges an evidence
folder again, and :class:`Report` is what both return. They load lazily, so that importing the
package costs nothing.
"""

# Types stand in __init__.pyi: `typing` alone costs half a Python's start, and every command pays.

__version__ = "0.1.0"
__all__ = ["Report", "__version__", "judge", "run"]


def run(  # noqa: PLR0913 - all but two are optional and named
    plan,
    evidence_dir,
    *,
    endpoint="",
    model="",
    dialect="",
    baseline="",
    api_key_env="",
):
    """Ask an endpoint what ``plan`` wants, judge it against ``baseline``, and keep the evidence.

    Parameters
    ----------
    plan
        A plan file; None: the plan that ships with the package.
    evidence_dir
        The evidence folder; one that holds the same plan is continued.
    endpoint, model, dialect, baseline, api_key_env
        As on the command line: they take precedence over the plan file. Without a baseline the
        run captures a reference.

    Raises
    ------
    iqaction.errors.ConfigError, iqaction.errors.EvidenceError
        For mistakes that keep it from running at all; an endpoint that fails gives a report.
    """
    from pathlib import Path  # noqa: PLC0415 - importing the package must cost nothing

    from iqaction.progress import Quiet  # noqa: PLC0415
    from iqaction.session import RunOptions  # noqa: PLC0415
    from iqaction.session import run as run_session  # noqa: PLC0415

    options = RunOptions(
        Path(evidence_dir),
        None if plan is None else Path(plan),
        endpoint,
        model,
        dialect,
        str(baseline),
        api_key_env=api_key_env,
    )
    return run_session(options, progress=Quiet()).report


def judge(evidence_dir):
    """Judge an evidence folder from what it holds; writes nothing.

    Raises
    ------
    iqaction.errors.EvidenceError
        Where there is no readable evidence folder.
    """
    from pathlib import Path  # noqa: PLC0415

    from iqaction.session import judge as judge_folder  # noqa: PLC0415

    return judge_folder(Path(evidence_dir), write=False).report


def __getattr__(name):
    if name == "Report":
        from iqaction.report import Report  # noqa: PLC0415

        return Report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
