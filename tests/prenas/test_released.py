"""The choices that PreNAS's authors released."""

from autoprox.prenas.saliency import measure_saliency
from autoprox.prenas.selection import Selector
from autoprox.searchspaces import get_space


def test_two_of_the_released_choices_come_out() -> None:
    """Below 6 M and 8 M; the authors' draws of weights and noise can't be had, and others differ.

    With seeds 0 to 4 the second comes out each time; groups of the first's size differ by 0.2 % in
    SNIP, and it comes out with seed 3.
    """
    space = get_space("autoformer-supernet-ti")
    selector = Selector(measure_saliency(space, seed=3), "released")
    found = []
    for one in selector.choose([6_000_000, 8_000_000]):
        arch = one.architecture
        sums = sum(arch["mlp_ratio"]), sum(arch["num_heads"])
        found.append((arch["hidden_dim"], arch["depth"], *sums, round(one.params / 1e6, 3)))
    assert found == [(192, 12, 46.5, 42, 5.995), (240, 12, 45, 36, 7.997)]
