"""Files of models and checkpoints with something changed."""

import json

from maxmargin.persistence import container


def taken(raw):
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def put(head, data):
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + data


def mutated(raw, rng):
    """A file with something changed: bits, bytes, pieces cut out, doubled or moved, the end cut off."""
    found, kind = bytearray(raw), rng.integers(6)
    at, other = (int(place) for place in rng.integers(0, len(raw) if rng.random() < 0.5 else min(len(raw), 4000), 2))
    size = int(rng.integers(1, 40))
    if kind == 0:
        found[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        found[at : at + size] = rng.bytes(size)
    elif kind == 2:
        del found[at : at + size]
    elif kind == 3:
        found[at:at] = found[other : other + size]
    elif kind == 4:
        found = found[:at]
    else:
        found[:8] = int(rng.integers(0, 2**63)).to_bytes(8, "little")
    return bytes(found)


def rewritten(raw, rng):
    """A manifest with something changed and a checksum that fits: what an attacker would do."""
    head, data = taken(raw)
    manifest = json.loads(head["__metadata__"]["maxmargin"])
    places = list(nodes(manifest["model"]))
    holder, key = places[int(rng.integers(len(places)))]
    other, its = places[int(rng.integers(len(places)))]
    values = [None, -1, 2**70, "", "os.system", [], {}, {"is": "object"}, 0.5, True, other[its]]
    if isinstance(holder, dict) and rng.random() < 0.2:
        holder[str(rng.choice(["__class__", "fit", "__reduce__", "x"]))] = holder.pop(key)
    else:
        holder[key] = values[int(rng.integers(len(values)))]
    try:
        text = json.dumps(manifest)
    except ValueError:  # a node within itself
        return raw
    meta = head["__metadata__"]
    meta["maxmargin"], meta["checksum"] = text, container.manifest_checksum("1", text)
    return put(head, data)


def nodes(node):
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield node, key
        if isinstance(value, dict | list):
            yield from nodes(value)
