from __future__ import annotations


def test_list_names_every_model_sparsifier_data_set_and_noise(gssc):
    from gssc.data.noise import NOISE
    from gssc.data.registry import DATASETS
    from gssc.models.registry import MODELS
    from gssc.sparsify.registry import SPARSIFIERS

    done = gssc("bench", "--list")
    assert done.returncode == 0
    for name in (*MODELS, *SPARSIFIERS, *DATASETS, *(kind for kinds in NOISE.values() for kind in kinds)):
        assert name in done.stdout


def test_a_sweep_from_the_command_line(gssc, tmp_path):
    store = str(tmp_path / "r.sqlite")
    common = ["bench", "--models", "mlp,gcn", "--sparsifiers", "none,drop_edge", "--datasets", "digits", "--seeds", "2"]
    common += ["--max-epochs", "3", "--store", store]
    done = gssc(*common, "--jobs", "2", "--export", str(tmp_path / "t.md"))
    assert done.returncode == 0, done.stderr
    assert "mlp never looks at edges" in " ".join(done.stderr.split())
    assert "gcn+drop_edge" in done.stdout
    assert "| mlp |" in (tmp_path / "t.md").read_text()
    again = gssc(*common)
    assert "6 of them in" in " ".join(again.stderr.split())
    shown = gssc("bench", "--store", store, "--export", str(tmp_path / "t.csv"))
    assert shown.returncode == 0
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 7


def test_mistakes_are_one_line_and_leave_nothing(gssc, tmp_path):
    store = tmp_path / "r.sqlite"
    mistakes = {
        ("--models", "gcnn", "--datasets", "cora"): "did you mean 'gcn'",
        ("--models", "gcn"): "name both --models and --datasets",
        ("--models", "mlp", "--datasets", "cora", "--sparsifiers", "drop_edge"): "nothing is left to run",
        ("--models", "gcn", "--datasets", "cora", "--label-noise", "loud:0.1"): "unknown noise",
        ("--models", "gcn", "--datasets", "cora", "--export", "t.xlsx"): "must end in one of",
        (): "does not exist",
    }
    for options, message in mistakes.items():
        done = gssc("bench", *options, "--store", str(store))
        assert done.returncode == 2, options
        assert message in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
        assert not store.exists()
