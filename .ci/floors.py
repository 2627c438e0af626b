"""The oldest versions that pyproject.toml allows, one `name==version` a line: constraints for `pip install -c`."""

import re
import sys
import tomllib
from itertools import chain
from pathlib import Path


def floors(project: dict) -> dict[str, str]:
    """{name: version} of all that is required anywhere, `maxmargin[...]` itself left out."""
    found: dict[str, str] = {}
    for requirement in chain(project["dependencies"], *project["optional-dependencies"].values()):
        if requirement.startswith(project["name"] + "["):
            continue
        match = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement)
        if match is None:
            sys.exit(f"pyproject.toml: {requirement!r} has no oldest version; write it as name>=version.")
        name, version = match.groups()
        if found.setdefault(name, version) != version:
            sys.exit(f"pyproject.toml: {name} has two oldest versions, {found[name]} and {version}.")
    return found


if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    print("\n".join(f"{name}=={version}" for name, version in floors(project).items()))
