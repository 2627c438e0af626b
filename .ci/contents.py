"""`contents.py FOLDER`: what the wheel and the sdist in this folder hold, and nothing that does not belong there."""

import sys
import tarfile
import zipfile
from pathlib import Path


def check(archive: Path, names: list[str], needed: set[str]) -> None:
    wrong = [name for name in names if name.endswith((".png", "RESULTS.md", ".pyc", ".nbi", ".nbc"))]
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
    patterns = "docs/*.md", "tests/**/*.py", "examples/*.py", "benchmarks/*.py"
    texts = {path.as_posix() for pattern in patterns for path in Path().glob(pattern)}
    check(sdist, names, {f"src/{name}" for name in modules} | texts | {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml"})
