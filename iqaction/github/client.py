"""GitHub's REST API over one session of requests. I/O: knows HTTP and GitHub's manners, no report.

The token goes to the API's own host and nowhere else: redirects are not followed with it, links
to further pages must lead there, and what GitHub says is searched for it before it is shown.
Proxies and certificates of the environment are honoured, its netrc is not. Nothing of an exception
of requests is kept, for it carries the request and with it the token.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode, urljoin, urlsplit

import requests
import urllib3

from iqaction import __version__
from iqaction.errors import GithubError
from iqaction.github import _advice, _reading
from iqaction.github._waiting import Outcome, is_failure, is_limit, seconds_before_retry
from iqaction.json_value import JSON

Params = Mapping[str, str | int]
Look = Callable[[], JSON]  # what an earlier try made, or None

MOST_PAGES = 100
_PER_PAGE = 100
_MOST_JSON = 64 << 20
_CHUNK = 1 << 16
_CONNECT_S, _READ_S = 10.0, 30.0
_JSON_TYPE, _RAW_TYPE = "application/vnd.github+json", "application/vnd.github.raw+json"
_KEPT = ("retry-after", "date", "x-ratelimit-remaining", "x-ratelimit-reset", "location", "link")
_TOKEN = re.compile(r"[!-~]{1,4096}\Z")


@dataclass(frozen=True)
class _Asked:
    """One request. ``doing`` completes the sentence "GitHub refused to ..."."""

    method: str
    url: str
    doing: str
    body: bytes | None = None
    accept: str = _JSON_TYPE
    most: int = _MOST_JSON
    bare: bool = False  # without the token


@dataclass(frozen=True)
class _Answer:
    """A whole answer, or why there is none (``outcome.status`` 0)."""

    outcome: Outcome
    body: bytes = field(default=b"", repr=False)


class _Session(requests.Session):
    """Takes no answer for a redirect: requests would read its body whole, and prepare the next
    request, even where it is told not to follow."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


def open_session() -> requests.Session:
    """A session as :class:`Client` wants it."""
    return _Session()


class Client:
    """One conversation with GitHub, over before its deadline.

    Parameters
    ----------
    api_url
        Base of the REST API, as GITHUB_API_URL has it.
    token
        Sent as a bearer token; never shown.
    deadline_s
        Seconds from now on within which all of it must be done, waits included.
    graphql_url
        As GITHUB_GRAPHQL_URL has it; "" derives it from ``api_url``.

    Raises
    ------
    GithubError
        When there is no token, or no URL to send it to.
    """

    def __init__(  # noqa: PLR0913 - one place wires it, every test varies one of them
        self,
        api_url: str,
        token: str,
        *,
        session: requests.Session,
        clock: Callable[[], float],
        sleep: Callable[[float], object],
        deadline_s: float = 120.0,
        graphql_url: str = "",
    ) -> None:
        self._base = _reading.address(api_url.rstrip("/"))
        if not self._base:
            raise GithubError(
                "the address of GitHub's API cannot be used",
                expected="an https URL, as the runner sets it in GITHUB_API_URL",
            )
        if not _TOKEN.match(token):
            raise GithubError(
                "there is no token for GitHub" if not token else "the token is no token",
                expected="the job's own token",
                next_step="leave `github_token` at its default",
            )
        self._graphql = _reading.address(graphql_url) or f"{self._base.removesuffix('/v3')}/graphql"
        self._token = token
        self._session = session
        self._clock = clock
        self._sleep = sleep
        self._end = clock() + deadline_s

    def __repr__(self) -> str:
        return f"Client({self._base!r})"

    # --- asking ---

    def get(self, path: str, params: Params | None = None, *, doing: str) -> JSON:
        """What is at ``path``."""
        return self._json(_Asked("GET", self._url(path, params), doing))

    def post(self, path: str, body: JSON, *, doing: str, look: Look) -> JSON:
        """Create something. Where an answer was lost, ``look`` says whether it was created, so
        that it is not created twice."""
        asked = _Asked("POST", self._url(path), doing, _bytes(body))
        return self._json(asked, look)

    def patch(self, path: str, body: JSON, *, doing: str, look: Look | None = None) -> JSON:
        """Change something. ``look`` is needed only where a change adds to what is there."""
        asked = _Asked("PATCH", self._url(path), doing, _bytes(body))
        return self._json(asked, look)

    def graphql(self, query: str, variables: Mapping[str, JSON], *, doing: str) -> JSON:
        """Run a mutation that may be repeated, for what REST lacks."""
        body = _bytes({"query": query, "variables": dict(variables)})
        found = self._json(_Asked("POST", self._graphql, doing, body), lambda: None)
        errors = _reading.items(found, "errors")
        if errors:
            said = self._shown(_reading.text(errors[0], "message"))
            raise GithubError(f"GitHub refused to {doing}: {said}", status=200)
        return found

    def pages(
        self,
        path: str,
        params: Params | None = None,
        *,
        doing: str,
        key: str = "",
        most: int = MOST_PAGES,
    ) -> Iterator[JSON]:
        """Every item of a list, page after page; ``key`` names the list where an object holds it.

        Raises
        ------
        GithubError
            Also where there are more than ``most`` pages, or a page is no list: a part of a list
            is never taken for the whole.
        """
        url = self._url(path, {"per_page": _PER_PAGE, **(params or {})})
        for _ in range(most):
            answer = self._done(_Asked("GET", url, doing))
            body = self._parsed(answer, doing)
            page = _reading.field(body, key) if key else body
            if not isinstance(page, list):
                raise GithubError(f"GitHub's answer to {doing} is no list")
            yield from page
            url = self._next(answer.outcome.headers.get("link", ""), doing)
            if not url:
                return
        raise GithubError(
            f"there are more than {most} pages to {doing}",
            expected=f"at most {most * _PER_PAGE:,} items",
        )

    def raw(self, path: str, *, doing: str, most: int) -> bytes:
        """A file's content as it is, of at most ``most`` bytes."""
        asked = _Asked("GET", self._url(path), doing, accept=_RAW_TYPE, most=most)
        return self._done(asked).body

    def download(self, path: str, *, doing: str, most: int) -> bytes:
        """What ``path`` redirects to, of at most ``most`` bytes: asked for without the token."""
        asked = _Asked("GET", self._url(path), doing, most=most)
        answer = self._exchange(asked, None)
        if answer.outcome.status == 200:
            return answer.body
        place = answer.outcome.headers.get("location", "")
        url = _reading.address(urljoin(asked.url, place)) if place else ""
        if answer.outcome.status not in (302, 303, 307) or not url:
            raise self._refusal(asked, answer.outcome)
        return self._done(replace(asked, url=url, bare=True)).body

    # --- one request, and again where that is of use ---

    def _json(self, asked: _Asked, look: Look | None = None) -> JSON:
        return self._parsed(self._done(asked, look), asked.doing)

    def _done(self, asked: _Asked, look: Look | None = None) -> _Answer:
        answer = self._exchange(asked, look)
        if not 200 <= answer.outcome.status < 300:
            raise self._refusal(asked, answer.outcome)
        return answer

    def _exchange(self, asked: _Asked, look: Look | None) -> _Answer:
        for tried in itertools.count(1):
            answer = self._once(asked)
            wait = seconds_before_retry(answer.outcome, tried)
            if wait is None:
                return answer
            if self._clock() + wait >= self._end:
                raise self._too_late(asked, answer.outcome, wait)
            self._sleep(wait)
            if look is not None and is_failure(answer.outcome):
                made = look()
                if made is not None:
                    return _Answer(Outcome(200, ""), _bytes(made))
        raise AssertionError("unreachable: the number of tries is bounded")

    def _once(self, asked: _Asked) -> _Answer:
        """One answer, read within its bounds. Nothing raised in here leaves with its request."""
        left = self._end - self._clock()
        if left <= 0:
            return _Answer(Outcome(0, "no time was left"))
        why = ""
        try:
            answer = self._session.request(
                asked.method,
                asked.url,
                data=asked.body,
                headers=_headers(asked),
                auth=_bare if asked.bare else self._signed,
                timeout=(min(_CONNECT_S, left), min(_READ_S, left)),
                allow_redirects=False,
                stream=True,
            )
            with answer:
                return self._read(asked, answer)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as exc:
            why = type(exc).__name__
        return _Answer(Outcome(0, f"no whole answer: {why}"))

    def _read(self, asked: _Asked, answer: requests.Response) -> _Answer:
        headers = {k: answer.headers.get(k, "") for k in _KEPT if k in answer.headers}
        body = bytearray()
        for piece in answer.iter_content(_CHUNK):
            body += piece
            if len(body) > asked.most:
                raise GithubError(
                    f"GitHub's answer to {asked.doing} has more than {asked.most:,} bytes",
                    expected="an answer within that bound",
                )
            if self._clock() > self._end:
                return _Answer(Outcome(0, "it was still answering when the time was over"))
        said = _said(bytes(body)) if answer.status_code >= 300 else ""
        outcome = Outcome(answer.status_code, self._shown(said), headers)
        return _Answer(outcome, bytes(body))

    def _signed(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    # --- URLs ---

    def _url(self, path: str, params: Params | None = None) -> str:
        return self._base + path + (f"?{urlencode(params)}" if params else "")

    def _next(self, link: str, doing: str) -> str:
        """The next page that a Link header names, which must be of the same API."""
        links = requests.utils.parse_header_links(link) if link else []
        url = next((x.get("url", "") for x in links if x.get("rel") == "next"), "")
        if not url:
            return ""
        ours, theirs = urlsplit(self._base), urlsplit(_reading.address(url))
        same = (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc)
        if not same or not theirs.path.startswith(f"{ours.path}/"):
            raise GithubError(
                f"the next page to {doing} is said to be at another host",
                expected=f"a link below {self._base}",
                next_step="nothing was sent there; check GITHUB_API_URL",
            )
        return url

    # --- saying what went wrong ---

    def _parsed(self, answer: _Answer, doing: str) -> JSON:
        if not answer.body:
            return None
        try:
            return _reading.parsed(answer.body)
        except ValueError:
            problem = GithubError(f"GitHub's answer to {doing} is no JSON")
        raise problem

    def _shown(self, said: str) -> str:
        return _advice.message(said.replace(self._token, "***"))

    def _refusal(self, asked: _Asked, outcome: Outcome) -> GithubError:
        status, said = outcome.status, outcome.said
        limit = is_limit(outcome)
        found = _advice.advice(asked.method, asked.url, 429 if limit else status, said)
        what = f"({status}): {said}" if said else f"({status})"
        if status == 0:
            happened = f"GitHub did not answer the request to {asked.doing}: {said}"
        elif status >= 500:
            happened = f"GitHub failed to {asked.doing} {what}"
        else:
            happened = f"GitHub refused to {asked.doing} {what}"
        return GithubError(
            happened,
            expected=found.expected,
            next_step=found.next_step,
            status=429 if limit else status,
        )

    def _too_late(self, asked: _Asked, outcome: Outcome, wait: float) -> GithubError:
        found = self._refusal(asked, outcome)
        return GithubError(
            f"{found.happened}; another try in {wait:.0f} s would come too late",
            expected=found.expected,
            next_step=found.next_step,
            status=found.status,
        )


def _bare(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """No credentials. Without this, requests would look for some in ~/.netrc."""
    return request


def _headers(asked: _Asked) -> dict[str, str]:
    shared = {
        "Accept-Encoding": "identity",  # a bound on bytes is one on memory
        "User-Agent": f"iqaction/{__version__}",
    }
    if asked.bare:
        return shared
    github = {**shared, "Accept": asked.accept, "X-GitHub-Api-Version": "2022-11-28"}
    return {**github, "Content-Type": "application/json"} if asked.body is not None else github


def _bytes(body: JSON) -> bytes:
    return json.dumps(body, ensure_ascii=True).encode()


def _said(body: bytes) -> str:
    """The message of a refusal, with those of its single errors; "" where it is no JSON."""
    try:
        found = _reading.parsed(body[:_CHUNK])
    except ValueError:
        return ""
    parts = [_reading.text(found, "message")]
    for error in _reading.items(found, "errors")[:3]:
        parts.append(error if isinstance(error, str) else _reading.text(error, "message"))
    return "; ".join(p for p in parts if p)
