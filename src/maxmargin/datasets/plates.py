"""Number plates: lines of characters of known widths, as a camera sees them."""

import numpy as np
from sklearn.utils import check_random_state

from .arguments import amount, whole

GAP = " "
# Seven rows of each character, 1 for ink.
GLYPHS = {
    "0": "01110 10001 10011 10101 11001 10001 01110",
    "1": "010 110 010 010 010 010 111",
    "2": "01110 10001 00001 00110 01000 10000 11111",
    "3": "11110 00001 00001 01110 00001 00001 11110",
    "4": "00010 00110 01010 10010 11111 00010 00010",
    "5": "11111 10000 11110 00001 00001 10001 01110",
    "6": "00110 01000 10000 11110 10001 10001 01110",
    "7": "11111 00001 00010 00100 00100 01000 01000",
    "8": "01110 10001 10001 01110 10001 10001 01110",
    "9": "01110 10001 10001 01111 00001 00010 01100",
    "A": "01110 10001 10001 11111 10001 10001 10001",
    "B": "11110 10001 10001 11110 10001 10001 11110",
    "C": "01111 10000 10000 10000 10000 10000 01111",
    "D": "11110 10001 10001 10001 10001 10001 11110",
    "E": "1111 1000 1000 1110 1000 1000 1111",
    "F": "1111 1000 1000 1110 1000 1000 1000",
    "G": "01111 10000 10000 10011 10001 10001 01111",
    "H": "10001 10001 10001 11111 10001 10001 10001",
    "I": "111 010 010 010 010 010 111",
    "J": "0011 0001 0001 0001 0001 1001 0110",
    "K": "10001 10010 10100 11000 10100 10010 10001",
    "L": "1000 1000 1000 1000 1000 1000 1111",
    "M": "1000001 1100011 1010101 1001001 1000001 1000001 1000001",
    "N": "10001 11001 11101 10101 10111 10011 10001",
    "O": "01110 10001 10001 10001 10001 10001 01110",
    "P": "11110 10001 10001 11110 10000 10000 10000",
    "Q": "01110 10001 10001 10001 10101 10010 01101",
    "R": "11110 10001 10001 11110 10100 10010 10001",
    "S": "01111 10000 10000 01110 00001 00001 11110",
    "T": "11111 00100 00100 00100 00100 00100 00100",
    "U": "10001 10001 10001 10001 10001 10001 01110",
    "V": "10001 10001 10001 10001 01010 01010 00100",
    "W": "1000001 1000001 1000001 1001001 1010101 1100011 1000001",
    "X": "10001 10001 01010 00100 01010 10001 10001",
    "Y": "10001 10001 01010 00100 00100 00100 00100",
    "Z": "11111 00001 00010 00100 01000 10000 11111",
}
BORDER = 1  # rows above and below the characters, which move by so much up or down


def make_plates(n_samples=100, *, n_characters=7, alphabet=None, scale=1, noise=0.2, random_state=None):
    """Number plates for `structures.Segmentation`: columns of pixels, and the characters they belong to.

    A plate is a line of characters of their own widths with gaps of one unit in between and one to three at the ends. It
    is lit unevenly, blurred, shifted up or down and noisy, from plate to plate in another degree. `make_plates(6788, scale=2)` is
    about as large as the paper's set (Uřičář and Franc 2012: 6,788 plates for training, 4,059 weights; here 6,372).

    Parameters
    ----------
    n_samples : int, default=100
    n_characters : int, default=7
        Characters on a plate.
    alphabet : str, optional
        Which characters there are: digits and capital letters, all of them by default.
    scale : int, default=1
        Pixels to a unit: characters are 7 units high and 3 to 7 wide, images 9 high.
    noise : float, default=0.2
        Mean standard deviation of the noise, relative to the contrast of the characters.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    X : list of arrays (width, height)
        The columns of each image, from left to right; each image has mean 0 and variance 1.
    y : list of lists of (character, width)
        The segments; gaps are " ".
    widths : dict
        The width of each character, as `Segmentation` wants it.

    Examples
    --------
    >>> from maxmargin.datasets import make_plates
    >>> X, y, widths = make_plates(1, n_characters=2, random_state=0)
    >>> sum(width for _, width in y[0]) == len(X[0])
    True
    """
    count, length, scale = whole("n_samples", n_samples), whole("n_characters", n_characters), whole("scale", scale)
    noise, characters = amount("noise", noise), _characters(alphabet)
    random = check_random_state(random_state)
    glyphs = {character: _glyph(GLYPHS[character], scale) for character in characters}
    glyphs[GAP] = np.zeros(((7 + 2 * BORDER) * scale, scale))
    widths = {character: glyph.shape[1] for character, glyph in glyphs.items()}
    X, y = [], []
    for _ in range(count):
        text = _spaced(random.choice(characters, size=length), random)
        X.append(_seen(np.hstack([glyphs[character] for character in text]), scale, noise, random).T.copy())
        y.append([(character, widths[character]) for character in text])
    return X, y, widths


def _characters(alphabet) -> list[str]:
    characters = sorted(set(GLYPHS if alphabet is None else alphabet))
    for character in characters:
        if character not in GLYPHS:
            raise ValueError(f"alphabet must be made of digits and capital letters; {character!r} is neither.")
    if len(characters) < 2:
        raise ValueError(f"alphabet must name at least two characters; got {alphabet!r}.")
    return characters


def _glyph(text: str, scale: int) -> np.ndarray:
    pixels = np.array([[float(bit) for bit in row] for row in text.split()])
    return np.pad(np.kron(pixels, np.ones((scale, scale))), ((BORDER * scale, BORDER * scale), (0, 0)))


def _spaced(characters, random) -> list[str]:
    """Gaps between the characters and at the ends."""
    text = [GAP] * random.randint(1, 4)
    for k, character in enumerate(characters):
        text += [GAP] * (k > 0) + [str(character)]
    return text + [GAP] * random.randint(1, 4)


def _seen(plate: np.ndarray, scale: int, noise: float, random) -> np.ndarray:
    """The plate as a camera sees it."""
    image = np.roll(plate, random.randint(-BORDER * scale, BORDER * scale + 1), axis=0)
    blur = random.uniform(0.0, 0.25)
    image = (1.0 - 2.0 * blur) * image + blur * (_moved(image, 1) + _moved(image, -1))
    ends = random.uniform(0.6, 1.0, size=2)
    light = np.linspace(ends[0], ends[1], image.shape[1])
    image = random.uniform(0.5, 1.0) * image * light + random.uniform(-0.2, 0.2) * light
    contrast = image.max() - image.min()
    image = image + contrast * noise * random.uniform(0.5, 1.5) * random.normal(size=image.shape)
    return (image - image.mean()) / image.std()


def _moved(image: np.ndarray, step: int) -> np.ndarray:
    """The image moved sideways, its border repeated."""
    columns = np.clip(np.arange(image.shape[1]) + step, 0, image.shape[1] - 1)
    return image[:, columns]
