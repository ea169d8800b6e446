"""Read the text files of DBLP's four areas into a PyG HeteroData.

    python examples/dblp_four_area.py FOLDER hetero.pt
    graphgym-srnc data make hetero.pt --node author --metapath author-paper-author \
        --bag author-paper --out authors

Cells are separated by tabs: an id and a name in author.txt, paper.txt, term.txt and conf.txt, two
ids in paper_author.txt, paper_term.txt and paper_conf.txt, an id and a class in author_label.txt,
paper_label.txt and conf_label.txt. Only paper.txt is required.
"""

import csv
import sys
from pathlib import Path

import pandas
import torch
from torch_geometric.data import HeteroData


def main(folder: Path, out: Path) -> None:
    data, index = HeteroData(), {}
    for kind in ("paper", "author", "term", "conf"):
        if not (folder / f"{kind}.txt").exists() and kind != "paper":
            continue
        nodes = read(folder / f"{kind}.txt", ("id", "name"))
        index[kind] = pandas.Index(nodes["id"])
        if not index[kind].is_unique:
            sys.exit(f"{kind}.txt: an id occurs several times")
        data[kind].ids, data[kind].num_nodes = nodes["id"].tolist(), len(nodes)
        data[kind]["text" if kind == "paper" else "name"] = nodes["name"].tolist()
        if (file := folder / f"{kind}_label.txt").exists():
            labels = known(read(file, ("id", "label")).drop_duplicates(), {"id": index[kind]}, file)
            if labels["id"].duplicated().any():
                sys.exit(f"{file.name}: an id has two labels")
            data[kind].y = torch.full((len(nodes),), -1)
            data[kind].y[labels["id"].tolist()] = torch.tensor(labels["label"].astype(int).tolist())
        if (file := folder / f"paper_{kind}.txt").exists() and kind != "paper":
            columns = {"paper": index["paper"], kind: index[kind]}
            links = known(read(file, tuple(columns)), columns, file)
            pairs = torch.tensor(links.to_numpy(dtype=int)).T.contiguous()
            data["paper", "has", kind].edge_index = pairs
    torch.save(data, out)
    print(data)


def read(file: Path, columns: tuple[str, ...]) -> pandas.DataFrame:
    for encoding in ("utf-8-sig", "cp1252", "latin-1"):  # the files differ
        try:
            rows = pandas.read_csv(
                file,
                sep="\t",
                header=None,
                dtype=str,
                keep_default_na=False,
                quoting=csv.QUOTE_NONE,
                encoding=encoding,
                usecols=(0, 1),
            )
            return rows.set_axis(columns, axis=1).map(str.strip)
        except UnicodeDecodeError:
            continue


def known(rows: pandas.DataFrame, columns: dict[str, pandas.Index], file: Path) -> pandas.DataFrame:
    """Rows with node numbers in the place of ids; rows with an unknown id are left out."""
    rows = rows.assign(**{name: ids.get_indexer(rows[name]) for name, ids in columns.items()})
    kept = (rows[[*columns]] >= 0).all(axis=1)
    if not kept.all():
        print(f"{file.name}: {(~kept).sum()} lines with unknown ids left out")
    return rows[kept]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
