from os import PathLike

from iqaction.report import Report as Report

__version__: str
__all__ = ["Report", "__version__", "judge", "run"]

def run(
    plan: str | PathLike[str] | None,
    evidence_dir: str | PathLike[str],
    *,
    endpoint: str = "",
    model: str = "",
    dialect: str = "",
    baseline: str | PathLike[str] = "",
    api_key_env: str = "",
) -> Report: ...
def judge(evidence_dir: str | PathLike[str]) -> Report: ...
