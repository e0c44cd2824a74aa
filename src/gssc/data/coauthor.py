"""Coauthor-CS and Coauthor-Physics (Shchur et al., 2018), with the split released by the GSSC authors, 20 per class.

Features are keyword counts, as published; they are not made binary.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gssc.data.entry import SEEDED_SPLITS, Dataset, File, FilePaths, RawGraph
from gssc.data.pickles import read_object_member
from gssc.data.splits import Split

_ADDRESS = "https://github.com/shchur/gnn-benchmark and https://github.com/LirongWu/GSSC"
_GRAPHS = "https://raw.githubusercontent.com/shchur/gnn-benchmark/master/data/npz/"
_SPLITS = "https://raw.githubusercontent.com/LirongWu/GSSC/5c052e71c60463ebba94ad21e3bba042800f04d3/dataset/"


def load(files: FilePaths, seed: int = 0) -> RawGraph:
    """Read the graph's .npz and the three index files."""
    path = next(path for name, path in files.items() if name.endswith(".npz"))
    with np.load(path, allow_pickle=False) as archive:
        adjacency, features = (
            sp.csr_matrix(
                (archive[f"{what}_data"], archive[f"{what}_indices"], archive[f"{what}_indptr"]),
                shape=tuple(archive[f"{what}_shape"]),
            )
            for what in ("adj", "attr")
        )
        labels = archive["labels"].astype(np.int64)
        node_ids, words = archive["node_names"], tuple(archive["attr_names"].tolist())
    source, target = adjacency.nonzero()
    names = tuple(str(name) for name in read_object_member(path, "class_names"))
    return RawGraph(
        features,
        np.stack([source, target]),
        labels,
        {"authors": read_authors_split(files)},
        class_names=names,
        node_ids=node_ids,
        feature_names=words,
    )


def read_authors_split(files: FilePaths) -> Split:
    """Read the released index files (published as *_mask.npy, though they hold node numbers)."""
    train, val, test = (
        np.load(files[f"{part}_index.npy"], allow_pickle=False).astype(np.int64) for part in ("train", "val", "test")
    )
    return train, val, test


def authors_split_files(folder: str, train: str, val: str, test: str) -> tuple[File, ...]:
    """Describe the three index files in one folder of the authors' repository."""
    digests = {"train": train, "val": val, "test": test}
    return tuple(
        File(f"{part}_index.npy", f"{_SPLITS}{folder}/{part}_mask.npy", digest) for part, digest in digests.items()
    )


def _entry(name: str, description: str, sizes: tuple[int, int, int, int], files: tuple[File, ...]) -> Dataset:
    return Dataset(
        name=name,
        description=description,
        load=load,
        default_split="authors",
        splits=("authors", *SEEDED_SPLITS),
        files=files,
        address=_ADDRESS,
        licence="MIT",
        citation="Shchur et al.: Pitfalls of Graph Neural Network Evaluation, 2018",
        sizes=sizes,
    )


ENTRIES = (
    _entry(
        "coauthor-cs",
        "computer scientists, keywords of their papers, co-authorship; 15 fields",
        (18333, 81894, 6805, 15),
        (
            File(
                "ms_academic_cs.npz",
                _GRAPHS + "ms_academic_cs.npz",
                "933c745734e78908c7eb77172a673fee0503f30e26e5a99b36814d88534c42e3",
            ),
            *authors_split_files(
                "coauthor-cs",
                train="ad877ee6184cea680a7f17806eaa7b0e51c97130f50bd436979d93f29feaaa56",
                val="42dc21ff06339eea2cc94fdd8a9546d4f81a4126e61b44b506df516175710066",
                test="d06d461ba866484160e5854fceb9070a301aa4a499ad79da7864d97b6c20ee28",
            ),
        ),
    ),
    _entry(
        "coauthor-physics",
        "physicists, keywords of their papers, co-authorship; 5 fields",
        (34493, 247962, 8415, 5),
        (
            File(
                "ms_academic_phy.npz",
                _GRAPHS + "ms_academic_phy.npz",
                "e4d68468eba5fb8f6b280ffd406bd53e6e4295ba1dd2967d6fe99b978e4b3375",
            ),
            *authors_split_files(
                "coauthor-phy",
                train="aa3e2e6c744148b647e665845099307fd6ae42d26d69a9cf6adaf7b2fc3c1ad0",
                val="6e9d4731095503117c9c6bb81ac329021ac2937e6c9e602e0856e6a060624ed2",
                test="4986a40011927799008a087cd0547c5ce527bc7982f29af34ed8c0ce227ba8b1",
            ),
        ),
    ),
)
