"""What each operation of the stand-in does. The names are the operationIds of GitHub's contract.

A LookupError anywhere here is GitHub's 404.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fake_github.contract import contract
from fake_github.state import BASE_SHA, SHA, State, blob_sha


@dataclass(frozen=True)
class Asked:
    """A request that fits the contract. ``url`` is the API's own base, ``path`` what follows."""

    parameters: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    url: str
    path: str
    accept: str
    blobs: str  # where artifacts lie: another host


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any = None  # JSON; bytes are sent as they are
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[State, Asked], Reply]
OPERATIONS: dict[str, Handler] = {}


def operation(name: str) -> Callable[[Handler], Handler]:
    """Register a handler under its operationId."""

    def keep(handler: Handler) -> Handler:
        OPERATIONS[name] = handler
        return handler

    return keep


def paged(asked: Asked, items: Sequence[Any], key: str = "") -> Reply:
    """One page of a list, with the Link header that leads to the next."""
    size = min(max(int(asked.query.get("per_page", 30)), 1), 100)  # GitHub clamps it
    page = max(int(asked.query.get("page", 1)), 1)
    last = max(1, -(-len(items) // size))
    headers = {}
    if page < last:
        others = "".join(
            f"&{k}={v}" for k, v in asked.query.items() if k not in ("page", "per_page")
        )
        base = f"{asked.url}{asked.path}?per_page={size}{others}".replace(" ", "%20")
        headers["Link"] = f'<{base}&page={page + 1}>; rel="next", <{base}&page={last}>; rel="last"'
    part = list(items[(page - 1) * size : page * size])
    return Reply(200, {"total_count": len(items), key: part} if key else part, headers)


# --- checks ---------------------------------------------------------------------------------


@operation("checks/create")
def _(state: State, asked: Asked) -> Reply:
    return Reply(201, state.add_check(**asked.body))


@operation("checks/update")
def _(state: State, asked: Asked) -> Reply:
    number = int(asked.parameters["check_run_id"])
    state.change_check(number, asked.body)
    return Reply(200, state.checks[number])


@operation("checks/get")
def _(state: State, asked: Asked) -> Reply:
    return Reply(200, state.checks[int(asked.parameters["check_run_id"])])


@operation("checks/list-annotations")
def _(state: State, asked: Asked) -> Reply:
    absent = dict.fromkeys(("start_column", "end_column", "title", "raw_details"))
    found = state.annotations[int(asked.parameters["check_run_id"])]
    return paged(asked, [{**absent, "blob_href": "https://github.com/x", **a} for a in found])


@operation("checks/list-for-ref")
def _(state: State, asked: Asked) -> Reply:
    def wanted(check: Mapping[str, Any]) -> bool:
        return (
            check["head_sha"] == asked.parameters["ref"]
            and asked.query.get("check_name", check["name"]) == check["name"]
            and asked.query.get("status", check["status"]) == check["status"]
        )

    found = [c for c in state.checks.values() if wanted(c)]
    if asked.query.get("filter", "latest") == "latest":
        found = list({c["name"]: c for c in found}.values())
    return paged(asked, found, "check_runs")


# --- comments -------------------------------------------------------------------------------


@operation("issues/create-comment")
def _(state: State, asked: Asked) -> Reply:
    made = state.add_comment(asked.body["body"], int(asked.parameters["issue_number"]))
    return Reply(201, made, {"Location": made["url"]})


@operation("issues/list-comments")
def _(state: State, asked: Asked) -> Reply:
    end = f"/issues/{asked.parameters['issue_number']}"
    return paged(asked, [c for c in state.comments.values() if c["issue_url"].endswith(end)])


@operation("issues/get-comment")
def _(state: State, asked: Asked) -> Reply:
    return Reply(200, state.comments[int(asked.parameters["comment_id"])])


@operation("issues/update-comment")
def _(state: State, asked: Asked) -> Reply:
    comment = state.comments[int(asked.parameters["comment_id"])]
    comment["body"] = asked.body["body"]
    return Reply(200, comment)


@operation("issues/delete-comment")
def _(state: State, asked: Asked) -> Reply:
    del state.comments[int(asked.parameters["comment_id"])]
    return Reply(204)


# --- pull requests and commits --------------------------------------------------------------


def _pull(state: State, number: int, operation_id: str) -> dict[str, Any]:
    given = state.pulls[number]
    made: dict[str, Any] = contract().example(operation_id)
    made.update(number=number, state=given.get("state", "open"), requested_teams=[])
    made["head"]["sha"] = given.get("head_sha", SHA)
    made["base"]["sha"] = given.get("base_sha", BASE_SHA)
    made["base"]["repo"]["full_name"] = state.repository
    home = given.get("head_repository", state.repository)
    if home:
        made["head"]["repo"]["full_name"] = home
    else:
        made["head"]["repo"] = None  # the fork was deleted
    if "changed_files" in made:
        made["changed_files"] = given.get("changed_files", len(state.files.get(number, [])))
    return made


@operation("pulls/get")
def _(state: State, asked: Asked) -> Reply:
    return Reply(200, _pull(state, int(asked.parameters["pull_number"]), "pulls/get"))


@operation("pulls/list")
def _(state: State, asked: Asked) -> Reply:
    every = [_pull(state, number, "pulls/list") for number in state.pulls]
    wanted = asked.query.get("state", "open")
    return paged(asked, [p for p in every if wanted in ("all", p["state"])])


@operation("repos/list-pull-requests-associated-with-commit")
def _(state: State, asked: Asked) -> Reply:
    sha = asked.parameters["commit_sha"]
    every = [_pull(state, number, "pulls/list") for number in state.pulls]
    if state.commit_pulls is not None:
        numbers = state.commit_pulls.get(sha, [])
        return paged(asked, [p for p in every if p["number"] in numbers])
    return paged(asked, [p for p in every if p["head"]["sha"] == sha])


def _file(given: Mapping[str, Any]) -> dict[str, Any]:
    made = {**contract().example("pulls/list-files"), "status": "modified"}
    made.pop("patch", None)
    return {**made, **given}


@operation("pulls/list-files")
def _(state: State, asked: Asked) -> Reply:
    number = int(asked.parameters["pull_number"])
    state.pulls[number]  # or there is no such pull request
    return paged(asked, [_file(f) for f in state.files.get(number, [])[:3000]])


@operation("repos/compare-commits-with-basehead")
def _(state: State, asked: Asked) -> Reply:
    given = state.compares[asked.parameters["basehead"]]
    made: dict[str, Any] = contract().example("repos/compare-commits-with-basehead")
    base, _, head = asked.parameters["basehead"].partition("...")
    made.update(status=given.get("status", "ahead"), files=[])
    made["base_commit"]["sha"] = base
    made["merge_base_commit"]["sha"] = given.get("merge_base", base)
    made["commits"] = [{**made["commits"][0], "sha": head}]
    if int(asked.query.get("page", 1)) == 1:
        made["files"] = [_file(f) for f in given.get("files", [])[:300]]
    return Reply(200, made)


# --- files ----------------------------------------------------------------------------------


def _kind(mode: str) -> str:
    return {"120000": "symlink", "160000": "submodule"}.get(mode, "file")


@operation("repos/get-content")
def _(state: State, asked: Asked) -> Reply:
    entries = state.entries(asked.query.get("ref", "main"))
    path = asked.parameters["path"]
    made: dict[str, Any] = contract().example("repos/get-content")
    if path in entries:
        mode, data = entries[path]
        small = len(data) <= 1024 * 1024  # above it the content is left out
        made.update(
            name=path.rpartition("/")[2],
            path=path,
            sha=blob_sha(data),
            size=len(data),
            type=_kind(mode),
            encoding="base64" if small else "none",
            content=base64.encodebytes(data).decode() if small else "",
        )
        if mode == "120000":
            made["target"] = data.decode()
        if mode == "160000":
            made["submodule_git_url"] = "git://example.com/x.git"
        return Reply(200, made)
    inside = [p for p in entries if p.startswith(f"{path}/")]
    if not inside:
        raise KeyError(path)
    del made["content"], made["encoding"]
    names = {p.removeprefix(f"{path}/").partition("/")[0] for p in inside}
    return Reply(200, [{**made, "name": n, "path": f"{path}/{n}"} for n in sorted(names)])


def _tree_sha(ref: str, folder: str) -> str:
    named = f"{ref}:{folder}".encode()
    return hashlib.sha1(named, usedforsecurity=False).hexdigest() if folder else ref


@operation("git/get-tree")
def _(state: State, asked: Asked) -> Reply:
    wanted = asked.parameters["tree_sha"]
    for ref in state.contents:
        entries = state.entries(ref)
        for folder in {"", *(p[:i] for p in entries for i, c in enumerate(p) if c == "/")}:
            if _tree_sha(ref, folder) == wanted:
                found = _listed(ref, folder, entries, recursive="recursive" in asked.query)
                made: dict[str, Any] = contract().example("git/get-tree")
                made.update(sha=wanted, tree=found, truncated=False)
                return Reply(200, made)
    raise KeyError(wanted)


def _listed(
    ref: str, folder: str, entries: Mapping[str, tuple[str, bytes]], *, recursive: bool
) -> list[dict[str, Any]]:
    start = f"{folder}/" if folder else ""
    found: dict[str, dict[str, Any]] = {}
    for path, (mode, data) in entries.items():
        if not path.startswith(start):
            continue
        inner = path.removeprefix(start)
        cuts = [i for i, c in enumerate(inner) if c == "/"]
        for cut in cuts if recursive else cuts[:1]:
            name = inner[:cut]
            sha = _tree_sha(ref, start + name)
            found[name] = {"path": name, "mode": "040000", "type": "tree", "sha": sha}
        if recursive or not cuts:
            kind = "commit" if mode == "160000" else "blob"
            found[inner] = {"path": inner, "mode": mode, "type": kind, "sha": blob_sha(data)}
            if kind == "blob":
                found[inner]["size"] = len(data)
    return list(found.values())


@operation("git/get-blob")
def _(state: State, asked: Asked) -> Reply:
    wanted = asked.parameters["file_sha"]
    for ref in state.contents:
        for _, data in state.entries(ref).values():
            if blob_sha(data) == wanted:
                if "raw" in asked.accept:
                    return Reply(200, data)
                made: dict[str, Any] = contract().example("git/get-blob")
                made.update(content=base64.encodebytes(data).decode(), sha=wanted, size=len(data))
                return Reply(200, made)
    raise KeyError(wanted)


# --- runs and artifacts ---------------------------------------------------------------------


def _run(state: State, number: int) -> dict[str, Any]:
    made: dict[str, Any] = contract().example("actions/get-workflow-run")
    made.update(id=number, status="completed", conclusion="success", run_attempt=1)
    made["repository"]["full_name"] = state.repository
    made["head_repository"]["full_name"] = state.repository
    given = dict(state.runs[number])
    if "head_repository" in given:
        made["head_repository"]["full_name"] = given.pop("head_repository")
    return {**made, **given}


@operation("actions/get-workflow-run")
def _(state: State, asked: Asked) -> Reply:
    return Reply(200, _run(state, int(asked.parameters["run_id"])))


@operation("actions/list-workflow-runs-for-repo")
def _(state: State, asked: Asked) -> Reply:
    every = [_run(state, number) for number in sorted(state.runs, reverse=True)]
    for key, at in (("head_sha", "head_sha"), ("event", "event"), ("branch", "head_branch")):
        every = [r for r in every if asked.query.get(key, r[at]) == r[at]]
    status = asked.query.get("status", "")
    every = [r for r in every if not status or status in (r["status"], r["conclusion"])]
    return paged(asked, every, "workflow_runs")


def _artifact(state: State, given: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    data = base64.b64decode(given.get("zip", ""))
    made: dict[str, Any] = contract().example("actions/list-artifacts-for-repo", part="artifacts")
    url = f"{asked.url}/repos/{state.repository}/actions/artifacts/{given['id']}"
    made.update(
        id=given["id"],
        name=given["name"],
        size_in_bytes=len(data),
        url=url,
        archive_download_url=f"{url}/zip",
        digest=f"sha256:{hashlib.sha256(data).hexdigest()}",
    )
    made["workflow_run"].update(id=given.get("run_id", 1), **given.get("workflow_run", {}))
    own = ("id", "name", "zip", "run_id", "workflow_run")
    return {**made, **{k: v for k, v in given.items() if k not in own}}


@operation("actions/list-artifacts-for-repo")
def _(state: State, asked: Asked) -> Reply:
    every = [_artifact(state, a, asked) for a in reversed(state.artifacts)]
    wanted = asked.query.get("name")
    return paged(asked, [a for a in every if wanted in (None, a["name"])], "artifacts")


@operation("actions/list-workflow-run-artifacts")
def _(state: State, asked: Asked) -> Reply:
    every = [_artifact(state, a, asked) for a in state.artifacts]
    run = int(asked.parameters["run_id"])
    wanted = asked.query.get("name")
    found = [a for a in every if a["workflow_run"]["id"] == run and wanted in (None, a["name"])]
    return paged(asked, found, "artifacts")


@operation("actions/get-artifact")
def _(state: State, asked: Asked) -> Reply:
    return Reply(200, _artifact(state, _given(state, asked), asked))


@operation("actions/download-artifact")
def _(state: State, asked: Asked) -> Reply:
    given = _given(state, asked)
    if given.get("expired"):
        return Reply(410, {"message": "Artifact has expired"})
    return Reply(302, None, {"Location": f"{asked.blobs}/artifact/{given['id']}?sig=secret"})


def _given(state: State, asked: Asked) -> Mapping[str, Any]:
    number = int(asked.parameters["artifact_id"])
    for given in state.artifacts:
        if given["id"] == number:
            return given
    raise KeyError(number)


# --- who asks -------------------------------------------------------------------------------


@operation("users/get-authenticated")
def _(state: State, asked: Asked) -> Reply:
    return Reply(403, {"message": "Resource not accessible by integration"})


@operation("apps/get-authenticated")
def _(state: State, asked: Asked) -> Reply:
    return Reply(401, {"message": "'Issuer' claim ('iss') must be an Integer"})
