"""`check_loss`: every loss of the package passes it, and each mistake in a loss of a user's own has its sentence."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from plugins.each_against_the_rest import EachAgainstTheRest
from plugins.matching import Matching
from plugins.smoothed_hinge import SmoothedHinge
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin import losses

PLUGINS = Path(__file__).parent / "plugins"
OTHERS = [SmoothedHinge(), SmoothedHinge(1e-6), EachAgainstTheRest(), losses.TopKAlphaLoss(2, 0.5), losses.TopKBetaLoss(7, 1.0)]


@pytest.mark.parametrize("loss", [*(kind() for kind in losses.ALL), *OTHERS], ids=repr)
def test_right_losses_pass(loss):
    before = repr(loss)
    mm.check_loss(loss)
    assert repr(loss) == before


def mutant(plugin: str, name: str, right: str, wrong: str):
    """A loss of this plug-in with a mistake in it."""
    text = (PLUGINS / f"{plugin}.py").read_text()
    assert right in text
    module: dict = {"__name__": "mutant"}
    exec(compile(text.replace(right, wrong), plugin, "exec"), module)
    return module[name]()


CLIPPED = "min(max(loss.sign[i] * dual, 0.0), loss.cap[i])"
STEPPED = "    return loss.sign[i] * min(max(a, 0.0), loss.cap[i])"
UNWEIGHTED = "    if loss.cap[i] == 0.0:\n        return 0.0\n"
VALUED = "return loss.cap[i] * (t * t"
SLOPE = "^slope of .*minus the slope of the value"
SCALAR = [
    (CLIPPED, "max(loss.sign[i] * dual, 0.0)", "^clip of .* that is not feasible"),
    (CLIPPED, "min(max(loss.sign[i] * dual, 0.0), 0.5 * loss.cap[i])", "^clip of .*minus the slope"),
    (f"loss.sign[i] * {CLIPPED}", CLIPPED, "^clip of .*minus the slope"),
    (CLIPPED, f"({CLIPPED} if loss.sign[i] * dual <= loss.cap[i] + 0.1 else 0.0)", "^clip of .* is feasible and nearer"),
    ("a = loss.sign[i] * dual\n", "a = dual\n", "^reward of .* min_z value"),
    ("0.5 * loss.width * a * a", "0.4 * loss.width * a * a", "^reward of .* min_z value"),
    ("0.5 * loss.width * a * a", "0.6 * loss.width * a * a", "^reward of .* min_z value"),
    ("return loss.margin[i] * a -", "return 0.1 + loss.margin[i] * a -", "^reward of .* it is 0.1 for the dual 0"),
    ("(curvature + loss.width / loss.cap[i])", "(2.0 * curvature + loss.width / loss.cap[i])", "^step of .* the best dual is"),
    ("(t + curvature *", "(t + curvature**0.5 *", "^step of .* the best dual is"),
    (f"{UNWEIGHTED}    t = loss.margin[i] - ", "    t = loss.margin[i] + ", "^step of .* the best dual is"),
    (UNWEIGHTED, "    if loss.cap[i] == 0.0:\n        return 1.0\n", "^step of .*which is not feasible"),
    (STEPPED, "    return loss.sign[i] * max(a, 0.0)", "^step of .*which is not feasible"),
    (STEPPED, "    return a / np.float64(0.0)", "^step of .* returns -?(inf|nan) .* a finite number"),
    ("t = max(loss.margin[i] - ", "t = max(loss.margin[i] + ", "^value of .* which is right"),
    ("t - 0.5 * loss.width)", "t**0.5)", "^value of .* it is not convex"),
    (VALUED, "return (t * t", "^value of .* proportional to the cap"),
    (VALUED, "return (np.nan if t > 0.0 else 0.0) + loss.cap[i] * (t * t", "^value of .* returns nan .* a finite number"),
    ("min(max(t / loss.width, 0.0), 1.0)", "min(max(t / loss.width, 0.0), 0.9)", SLOPE),
    ("@step.register(Encoded)\n", "", "^step is missing for the class Encoded that SmoothedHinge.of makes"),
]
ROWS = [
    ("max(s * np.float64(duals.flat[i, j]), 0.0) if", "s * np.float64(duals.flat[i, j]) if", "^row_repair of .*not feasible"),
    ("0.25 * a * a / loss.cap[i] if", "0.2 * a * a / loss.cap[i] if", r"^row_repair \(the reward it returns\) of .* min_z value"),
    ("(curvature + 0.5 / cap)", "(curvature + 0.25 / cap)", "^row_step of .* after which the share of the gap"),
    ("rise += gain(loss, i, best) - gain(loss, i, a)", "rise += 1.0", "^row_step of .* for the change of the reward"),
    ("change.flat[0, j] = s * (best - a)", "change.flat[0, j] = best - a", "^row_step of .* into change"),
    ("- a * t + (0.25", "+ a * t + (0.25", "^row_step of .* returns the share"),
    ("if share <= calm or cap == 0.0", "if cap == 0.0", "^row_step of .* not above calm"),
    ("new = s * max(s * wanted, 0.0)", "new = wanted", "^row_extrapolate of .*not feasible"),
    ("before.flat[i, j] = now", "before.flat[i, j] = old", "^row_extrapolate of .* in place of those before"),
    ("change.flat[0, j] = new - wanted", "change.flat[0, j] = wanted - new", "^row_extrapolate of .* into change"),
    ("a = 2.0 * loss.cap[i] * t", "a = loss.cap[i] * t", f"^row_{SLOPE[1:]}"),
    ("total += loss.cap[i] * t * t", "total += t * t", "^row_slope of .* for the loss"),
]


@pytest.mark.parametrize(("right", "wrong", "sentence"), SCALAR)
def test_mistakes_in_a_loss_of_one_score(right, wrong, sentence):
    loss = mutant("smoothed_hinge", "SmoothedHinge", right, wrong)
    with pytest.raises(mm.LossError, match=sentence) as found:
        mm.check_loss(loss)
    assert str(found.value).count(". ") == 0 and len(str(found.value)) < 320


@pytest.mark.parametrize(("right", "wrong", "sentence"), ROWS)
def test_mistakes_in_a_loss_of_rows(right, wrong, sentence):
    with pytest.raises(mm.LossError, match=sentence):
        mm.check_loss(mutant("each_against_the_rest", "EachAgainstTheRest", right, wrong))


def test_check_loss_takes_losses_only():
    for given in ("hinge", losses.HingeLoss, None):
        with pytest.raises(TypeError, match="must be an object of a subclass of BinaryLoss"):
            mm.check_loss(given)


def test_message_tells_sample_and_numbers():
    loss = mutant("smoothed_hinge", "SmoothedHinge", *SCALAR[8][:2])
    with pytest.raises(mm.LossError) as found:
        mm.check_loss(loss, random_state=np.random.RandomState(3))
    for part in ("sign=", "margin=", "cap=", "at score", "dual", "curvature", "it returns", "the best dual is"):
        assert part in str(found.value)


# ---- what a fit says ---------------------------------------------------------------------------------------------------

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
Y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)


@pytest.mark.compiled
def test_fit_names_a_wrong_loss_and_takes_the_corrected_one():
    """Both losses have a named tuple `Encoded`, as where a cell of a notebook is run again."""
    found = {}
    for reward in ("- 0.5 * loss.width", "0.5 * loss.width"):
        loss = mutant("smoothed_hinge", "SmoothedHinge", "0.5 * loss.width * a * a", f"{reward} * a * a")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found[reward] = mm.SVMClassifier(loss=loss, max_iter=200, random_state=0).fit(X, Y).certificate_
    wrong, right = found.values()
    assert not wrong.converged and not wrong.verified
    assert "value, reward, step or clip of SmoothedHinge may be wrong; maxmargin.check_loss(loss) tells" in wrong.message
    assert right.converged


def test_fit_names_a_wrong_structure():
    class ForgetsTheLoss(Matching):
        def loss_augmented_decode(self, w, x, y_true):
            return self.decode(w, x)

    pairs = [rng.normal(size=(n, n, 3)) for n in (2, 3, 4) * 5]
    truth = [Matching().decode(np.array([1.0, -0.5, 2.0]) + rng.normal(size=3), x) for x in pairs]
    said = "loss_augmented_decode, joint_feature or loss of ForgetsTheLoss may be wrong; maxmargin.check_structure"
    with pytest.warns(ConvergenceWarning) as caught:
        mm.StructuredSVM(ForgetsTheLoss(), max_iter=100, random_state=0).fit(pairs, truth)
    assert said in str(caught[0].message)
    with pytest.raises(ValueError, match="not convex") as raised:
        mm.StructuredSVM(ForgetsTheLoss(), solver="bundle", random_state=0).fit(pairs, truth)
    assert said in str(raised.value)
    with pytest.raises(mm.StructureError, match=r"^loss_augmented_decode"):
        mm.check_structure(ForgetsTheLoss(), pairs, truth)
