import epoch
import pytest


@pytest.mark.slow
def test_quick_measures_both_sides_and_writes_markdown(tmp_path, capsys):
    (outcome,) = epoch.main(["--quick", "--batch-size", "32", "--markdown", str(tmp_path / "new" / "epoch.md")])
    assert set(outcome.seconds) == {(side, phase) for side in epoch.SIDES for phase in epoch.PHASES}
    assert all(seconds > 0 for seconds in outcome.seconds.values())
    assert all(megabytes > 0 for megabytes in outcome.megabytes.values())
    text = (tmp_path / "new" / "epoch.md").read_text()
    assert text.count("| csbm | 32 |") == 3
    assert "How it is counted" in text
    assert "csbm" in capsys.readouterr().out


def test_an_epoch_worked_out_from_a_few_batches_is_close_to_the_epoch_itself():
    case = epoch.Case("csbm", 64, last_batches=5, options={"nodes": 200})
    graph = case.load()
    turns = iter([1.0, 3.0] * 100)  # a first batch of 1 s with everything else, and 0.5 s for each further one
    clock = FakeClock(turns)
    epoch.CLOCKS["fake"] = clock
    try:
        outcome = epoch.Outcome(case, graph)
        epoch.time_phase(case, graph, "warm-up", 8, 1, "fake", outcome)
    finally:
        del epoch.CLOCKS["fake"]
    batches = -(-2 * graph.num_edges // 64)
    assert outcome.seconds["gssc", "warm-up"] == pytest.approx(1.0 + 0.5 * (batches - 1))
    assert epoch.ratios([0.5, 2.0, 4.0]) == ["8.0", "2.0"]


class FakeClock:
    """A clock that advances by the next duration at every second call."""

    def __init__(self, turns):
        self.turns, self.now, self.calls = turns, 0.0, 0

    def __call__(self):
        self.calls += 1
        if self.calls % 2 == 0:
            self.now += next(self.turns)
        return self.now
