"""Names of columns, compared."""

from ..mistakes import shown


def check_same_names(source, found: list[str], where: str, known: list[str]) -> None:
    """Refuse columns that are not those that are known already, in their order."""
    if found == known:
        return
    have, want = set(found), set(known)
    missing, unexpected = [name for name in known if name not in have], [name for name in found if name not in want]
    k = next((k for k, (one, other) in enumerate(zip(found, known)) if one != other), min(len(found), len(known)))
    one, other = (repr(names[k]) if k < len(names) else "none" for names in (found, known))
    sentence = f"Column {k} of {source} is {one}; {where} {other}"
    for word, names in (("missing", missing), ("unexpected", unexpected)):
        sentence += f"; {word}: {shown(names)}" if names else ""
    raise ValueError(f"{sentence}. Bring the columns into one order, that of a file with features=[...].")
