import json

import time_to_accuracy

from gssc.data import load_dataset


def step(seconds, test, chosen):
    return {"seconds": seconds, "test_score": test, "chosen": chosen}


def test_only_the_chosen_model_stops_the_clock():
    course = [step(1, 0.80, True), step(2, 0.86, False), step(3, 0.847, True), step(4, 0.84, True)]
    assert time_to_accuracy.time_to(course, 0.847, "seconds") == (3, True)
    assert time_to_accuracy.time_to(course, 0.85, "seconds") == (4, False)
    assert time_to_accuracy.final(course, "test_score") == 0.84


def test_a_finished_run_is_not_run_again_and_a_cut_off_line_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        time_to_accuracy, "load_dataset", lambda name: load_dataset(name, nodes=60, degree=4.0, per_class=4)
    )
    store = tmp_path / "runs.jsonl"
    arguments = ["--store", str(store), "--dataset", "csbm", "--warmup", "1", "--epochs", "1", "--target", "101"]
    arguments += ["--sides", "recipe", "transcription"]
    time_to_accuracy.main([*arguments, "--seeds", "0"])
    lines = store.read_text().splitlines()
    assert [json.loads(line)["side"] for line in lines] == ["recipe", "transcription"]
    store.write_text(lines[0] + "\n" + lines[1][:40])
    time_to_accuracy.main([*arguments, "--seeds", "0"])
    runs = time_to_accuracy.read_store(store)
    assert [run["side"] for run in runs] == ["recipe", "transcription"]
    assert runs[0] == json.loads(lines[0])
    assert "reached by 0 of 1 seeds" in capsys.readouterr().out


def test_without_seeds_and_store_it_says_what_to_do(tmp_path, capsys):
    time_to_accuracy.main(["--store", str(tmp_path / "none.jsonl")])
    assert "--seeds" in capsys.readouterr().out
