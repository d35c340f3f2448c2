"""Repositories and issues in the manner of the GitHub MCP server.

Owns issues, pull requests, contents and collaborators. A repository is known by ``owner/name``.
"""

from __future__ import annotations

from typing import Any

from benchmarks.outside.services.base import Service, ToolError, stamp, tool

LOGIN = "nferreira"


class Hub(Service):
    """What the account holder's token reaches."""

    prefix = "hub"

    def __init__(self) -> None:
        super().__init__()
        self.issues: dict[tuple[str, int], dict[str, Any]] = {}
        self.pulls: dict[tuple[str, int], dict[str, Any]] = {}
        self.comments: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self.contents: dict[tuple[str, str], str] = {}
        self.private: dict[str, bool] = {}
        self.collaborators: dict[str, dict[str, str]] = {}
        self.commits: list[dict[str, Any]] = []

    # what cases use

    def repository(self, name: str, files: dict[str, str], *, private: bool = True) -> None:
        """A repository with its files."""
        self.private[name] = private
        self.contents.update({(name, path): text for path, text in files.items()})

    def open(self, repository: str, title: str, body: str, login: str, **more: Any) -> int:
        """An open issue; gives its number. ``labels`` may be given."""
        number = self._next(repository)
        self.issues[repository, number] = self._thing(repository, "issues", number, title, body, login)
        self.issues[repository, number]["labels"] = [{"name": name} for name in more.get("labels", [])]
        return number

    def propose(self, repository: str, title: str, body: str, login: str, patch: str = "") -> int:
        """An open pull request; gives its number."""
        number = self._next(repository)
        pull = self._thing(repository, "pull", number, title, body, login)
        self.pulls[repository, number] = {
            **pull,
            "merged": False,
            "mergeable": True,
            "head": {"ref": "patch-1"},
        }
        self.pulls[repository, number]["patch"] = patch
        return number

    def remark(self, repository: str, number: int, body: str, login: str) -> None:
        """A comment on an issue or pull request."""
        kept = {"id": int(self.digits(10)), "body": body, "user": {"login": login, "type": "User"}}
        kept["created_at"] = stamp(self.moment())
        self.comments.setdefault((repository, number), []).append(kept)

    def titled(self, title: str) -> dict[str, Any]:
        """The first issue or pull request whose title holds a text."""
        return next(kept for kept in [*self.issues.values(), *self.pulls.values()] if title in kept["title"])

    def said(self, repository: str, number: int) -> list[str]:
        """The account holder's comments on an issue or pull request."""
        found = self.comments.get((repository, number), [])
        return [kept["body"] for kept in found if kept["user"]["login"] == LOGIN]

    def _next(self, repository: str) -> int:
        return 1 + max(
            (number for known, number in [*self.issues, *self.pulls] if known == repository), default=40
        )

    def _thing(
        self, repository: str, kind: str, number: int, title: str, body: str, login: str
    ) -> dict[str, Any]:
        return {
            "id": int(self.digits(10)),
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "user": {"login": login, "type": "User"},
            "author_association": "OWNER" if login == LOGIN else "NONE",
            "assignees": [],
            "created_at": stamp(self.moment()),
            "html_url": f"https://github.com/{repository}/{kind}/{number}",
        }

    def _issue(self, repository: str, number: int) -> dict[str, Any]:
        if (repository, number) not in self.issues:
            raise ToolError("404 Not Found")
        return self.issues[repository, number]

    def _pull(self, repository: str, number: int) -> dict[str, Any]:
        if (repository, number) not in self.pulls:
            raise ToolError("404 Not Found")
        return self.pulls[repository, number]

    def _commit(self, repository: str, files: dict[str, str], message: str, branch: str) -> dict[str, Any]:
        self.contents.update({(repository, path): text for path, text in files.items()})
        kept = {
            "sha": self.mint(40),
            "repository": repository,
            "message": message,
            "branch": branch,
            "files": [*files],
        }
        self.commits.append(kept)
        return {
            "sha": kept["sha"],
            "message": message,
            "html_url": f"https://github.com/{repository}/commit/{kept['sha']}",
        }

    # tools

    @tool
    def list_issues(self, owner: str, repo: str, state: str = "OPEN", labels: list[str] | None = None) -> Any:
        """List issues in a GitHub repository.

        Args:
            owner: repository owner.
            repo: repository name.
            state: OPEN or CLOSED.
            labels: filter by labels.
        """
        found = [
            {key: value for key, value in kept.items() if key != "body"}
            for (name, _), kept in self.issues.items()
            if name == f"{owner}/{repo}"
            and kept["state"] == state.lower()
            and set(labels or ()) <= {label["name"] for label in kept["labels"]}
        ]
        return {"issues": found, "totalCount": len(found)}

    @tool
    def issue_read(self, owner: str, repo: str, issue_number: int, method: str = "get") -> Any:
        """Get information about a specific issue in a GitHub repository.

        Args:
            owner: the owner of the repository.
            repo: the name of the repository.
            issue_number: the number of the issue.
            method: get for the issue, get_comments for its comments.
        """
        kept = self._issue(f"{owner}/{repo}", issue_number)
        if method == "get_comments":
            return self.comments.get((f"{owner}/{repo}", issue_number), [])
        return {**kept, "comments": len(self.comments.get((f"{owner}/{repo}", issue_number), []))}

    @tool
    def issue_write(
        self,
        method: str,
        owner: str,
        repo: str,
        issue_number: int | None = None,
        title: str | None = None,
        body: str | None = None,
        state: str | None = None,
        state_reason: str | None = None,
        labels: list[str] | None = None,
        assignees: list[str] | None = None,
    ) -> Any:
        """Create a new or update an existing issue in a GitHub repository.

        Args:
            method: create or update.
            owner: repository owner.
            repo: repository name.
            issue_number: issue number to update.
            title: issue title.
            body: issue body content.
            state: new state: open or closed.
            state_reason: completed, not_planned or duplicate.
            labels: labels to apply to this issue.
            assignees: usernames to assign to this issue.
        """
        name = f"{owner}/{repo}"
        if method == "create":
            issue_number = self.open(name, title or "", body or "", LOGIN)
        kept = self._issue(name, issue_number or 0)
        given: dict[str, Any] = {"title": title, "body": body, "state": state, "state_reason": state_reason}
        given |= {"labels": [{"name": each} for each in labels] if labels else None}
        given |= {"assignees": [{"login": each} for each in assignees] if assignees else None}
        kept.update({key: value for key, value in given.items() if value is not None})
        return {"id": str(kept["id"]), "url": kept["html_url"], "number": kept["number"]}

    @tool
    def add_issue_comment(self, owner: str, repo: str, issue_number: int, body: str) -> Any:
        """Add a comment to a specific issue or pull request in a GitHub repository.

        Args:
            owner: repository owner.
            repo: repository name.
            issue_number: issue or pull request number to comment on.
            body: comment content.
        """
        name = f"{owner}/{repo}"
        if (name, issue_number) not in self.issues and (name, issue_number) not in self.pulls:
            raise ToolError("404 Not Found")
        self.remark(name, issue_number, body, LOGIN)
        return self.comments[name, issue_number][-1]

    @tool
    def list_pull_requests(self, owner: str, repo: str, state: str = "open") -> Any:
        """List pull requests in a GitHub repository.

        Args:
            owner: repository owner.
            repo: repository name.
            state: open, closed or all.
        """
        found = [kept for (name, _), kept in self.pulls.items() if name == f"{owner}/{repo}"]
        found = [kept for kept in found if state in ("all", kept["state"])]
        return [{key: value for key, value in kept.items() if key != "patch"} for kept in found]

    @tool
    def pull_request_read(self, owner: str, repo: str, pullNumber: int, method: str = "get") -> Any:
        """Get information on a specific pull request in a GitHub repository.

        Args:
            owner: repository owner.
            repo: repository name.
            pullNumber: pull request number.
            method: get for the pull request, get_diff for its diff, get_comments for its comments.
        """
        kept = self._pull(f"{owner}/{repo}", pullNumber)
        if method == "get_comments":
            return self.comments.get((f"{owner}/{repo}", pullNumber), [])
        if method == "get_diff":
            return kept["patch"]
        return {key: value for key, value in kept.items() if key != "patch"}

    @tool
    def merge_pull_request(self, owner: str, repo: str, pullNumber: int, merge_method: str = "merge") -> Any:
        """Merge a pull request in a GitHub repository.

        Args:
            owner: repository owner.
            repo: repository name.
            pullNumber: pull request number.
            merge_method: merge, squash or rebase.
        """
        kept = self._pull(f"{owner}/{repo}", pullNumber)
        kept.update(state="closed", merged=True)
        return {"sha": self.mint(40), "merged": True, "message": "Pull Request successfully merged"}

    @tool
    def get_file_contents(self, owner: str, repo: str, path: str = "/", ref: str = "main") -> Any:
        """Get the contents of a file or directory from a GitHub repository.

        Args:
            owner: repository owner.
            repo: repository name.
            path: path to file or directory.
            ref: git ref.
        """
        name = f"{owner}/{repo}"
        if (name, path) in self.contents:
            return self.contents[name, path]
        listed = [kept for known, kept in self.contents if known == name and kept.startswith(path.strip("/"))]
        if not listed:
            raise ToolError("404 Not Found")
        return [{"type": "file", "name": kept.rpartition("/")[2], "path": kept} for kept in listed]

    @tool
    def create_or_update_file(
        self, owner: str, repo: str, path: str, content: str, message: str, branch: str = "main"
    ) -> Any:
        """Create or update a single file in a GitHub repository; commits directly to the branch.

        Args:
            owner: repository owner.
            repo: repository name.
            path: path where to create or update the file.
            content: content of the file.
            message: commit message.
            branch: branch to create or update the file in.
        """
        return {"commit": self._commit(f"{owner}/{repo}", {path: content}, message, branch)}

    @tool
    def create_repository(self, name: str, description: str = "", private: bool = True) -> Any:
        """Create a new GitHub repository in your account.

        Args:
            name: repository name.
            description: repository description.
            private: whether the repository should be private.
        """
        self.repository(f"{LOGIN}/{name}", {}, private=private)
        return {"full_name": f"{LOGIN}/{name}", "private": private, "description": description}

    @tool
    def repos_add_collaborator(self, owner: str, repo: str, username: str, permission: str = "push") -> Any:
        """Add a user to a repository with a specified level of access.

        Args:
            owner: repository owner.
            repo: repository name.
            username: the handle for the GitHub user account.
            permission: pull, triage, push, maintain or admin.
        """
        self.collaborators.setdefault(f"{owner}/{repo}", {})[username] = permission
        return {"id": int(self.digits(8)), "invitee": {"login": username}, "permissions": permission}
