"""Actor, and the filtered Squirrel and Chameleon (Platonov et al., 2023), each with ten published splits.

Actor has two protocols that must never share a table: "authors" (20 labels per class, Tables 7 and 8 of the
GSSC paper) and "fixed-0" to "fixed-9" (48/32/20, Table 2).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gssc.data.coauthor import authors_split_files, read_authors_split
from gssc.data.entry import SEEDED_SPLITS, Dataset, File, FilePaths, RawGraph
from gssc.data.splits import from_masks

_ADDRESS = "https://github.com/yandex-research/heterophilous-graphs"
_RAW = (
    "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/"
    "a431395582e929d88271309716bea4fe24ce6318/data/"
)
_CITATION = (
    "Platonov et al.: A critical look at the evaluation of GNNs under heterophily: Are we really making progress?, "
    "ICLR 2023"
)


def load(files: FilePaths, seed: int = 0) -> RawGraph:
    """Read one .npz, and the authors' index files if the dataset has them."""
    path = next(path for name, path in files.items() if name.endswith(".npz"))
    with np.load(path, allow_pickle=False) as archive:
        masks = [archive[f"{part}_masks"] for part in ("train", "val", "test")]
        words = sp.csr_matrix(archive["node_features"])  # fewer than one value in a hundred is non-zero
        raw = RawGraph(words, archive["edges"].T, archive["node_labels"].astype(np.int64))
    raw.splits = {f"fixed-{k}": from_masks(*(mask[k] for mask in masks)) for k in range(len(masks[0]))}
    if "train_index.npy" in files:
        raw.splits["authors"] = read_authors_split(files)
    return raw


def _entry(
    name: str, description: str, sizes: tuple[int, int, int, int], file: str, digest: str, *authors: File
) -> Dataset:
    return Dataset(
        name=name,
        description=description,
        load=load,
        default_split="authors" if authors else "fixed-0",
        splits=(*(["authors"] if authors else []), "fixed-0 to fixed-9", *SEEDED_SPLITS),
        files=(File(file, _RAW + file, digest), *authors),
        address=_ADDRESS + (" and https://github.com/LirongWu/GSSC" if authors else ""),
        licence="MIT",
        citation=_CITATION,
        sizes=sizes,
    )


ENTRIES = (
    _entry(
        "actor",
        "film actors, words of their Wikipedia pages, co-occurrence; 5 kinds; heterophilous",
        (7600, 26659, 932, 5),
        "actor.npz",
        "c350eef06b2c2a9bf8218be2b57cac6d4003d0922eb597a039e9123f75817816",
        *authors_split_files(
            "film",
            train="141abcbdece5487a57df87fb622d0e2d3463da487e0055dfbf6858dd114c3a97",
            val="32114e78cfcd75868a00bf1426ac45fd52c2ceee9406a235cf952790bd022c47",
            test="d6838b0cb13114342a8990312086c49b3b80e09bce251fb0e57854c294a4f9d4",
        ),
    ),
    _entry(
        "squirrel",
        "Wikipedia pages on squirrels without duplicates, links; 5 traffic levels; heterophilous",
        (2223, 46998, 2089, 5),
        "squirrel_filtered.npz",
        "f06370ffb3116c5de8b7a600005400b2293c025e0ce2f6916d8201a825505ac7",
    ),
    _entry(
        "chameleon",
        "Wikipedia pages on chameleons without duplicates, links; 5 traffic levels; heterophilous",
        (890, 8854, 2325, 5),
        "chameleon_filtered.npz",
        "bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5",
    ),
)
