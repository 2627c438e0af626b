"""`contents.py FOLDER`: what the wheel and the sdist in this folder hold, and nothing that does not belong there."""

import sys
import tarfile
import zipfile
from pathlib import Path

# What the commands of Makefile need.
TOP = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "Makefile", "pyproject.toml", ".gitignore"}
FOLDERS = ".ci", "benchmarks", "docs", "examples", "tests"
LEFT_OUT = {"figures", "__pycache__"}


def check(archive: Path, names: list[str], needed: set[str]) -> None:
    wrong = [name for name in names if name.endswith((".pyc", ".nbi", ".nbc")) or name.startswith("benchmarks/figures/")]
    missing = needed - set(names)
    if wrong or missing:
        sys.exit(f"{archive.name}: {wrong} should not be there, {sorted(missing)} should.")
    print(f"{archive.name}: {len(names)} files, {archive.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    folder, package = Path(sys.argv[1]), Path("src/maxmargin")
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    modules = {path.relative_to(package.parent).as_posix() for path in [*package.rglob("*.py"), package / "py.typed"]}
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    check(wheel, names, modules)
    extra = [name for name in names if name not in modules and ".dist-info/" not in name]
    if extra:
        sys.exit(f"{wheel.name}: {extra} should not be there.")
    with tarfile.open(sdist) as file:
        names = [name.partition("/")[2] for name in file.getnames()]
    files = [path for folder in FOLDERS for path in Path(folder).rglob("*") if path.is_file()]
    needed = {path.as_posix() for path in files if not LEFT_OUT & {*path.parts}}
    check(sdist, names, {f"src/{name}" for name in modules} | needed | TOP)
