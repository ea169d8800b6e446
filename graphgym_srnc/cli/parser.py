"""The parser of all commands. Each command is a module here with ``main(args)``."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from graphgym_srnc import __version__
from graphgym_srnc.cli.arguments import OVERWRITE, TRUST, add_options
from graphgym_srnc.errors import did_you_mean

FOLDERS = """\
folders DIR+  read this folder of an experiment, or all experiments at any depth in this folder"""

LIMITS = """\
where to run:
--jobs N=0  run N processes on this machine; 0 = one per core
--time-limit S=0.0  stop an attempt of a run after S seconds; 0 = no limit
--retries K=1  retry a run K times if its process died or hit the time limit"""

COMMANDS = {
    "run": f"""
Train and evaluate a config over several seeds.

--cfg FILE|NAME  read this yaml file or shipped config (default: the package's default config)
--repeat R=1  run R seeds, counted from `seed` of the config
--resume  run the seeds without a finished result; an interrupted one continues where it was
--overwrite  run all seeds again and replace their results
{TRUST}

results:
--out-dir DIR  write results below DIR (default: out_dir of the config)
--name NAME  name the folder of this experiment (default: config, data, shift and method)
--[no-]figures  draw all figures for every seed, or none (default: the confusion matrix and the
    embedding of the selected episode, for the first seed only)
--pdf  also write the figures as PDF
--no-tensorboard  write no TensorBoard event files

Give config keys and their values last:
    graphgym-srnc run --cfg paper/open_set/cora-srnc --repeat 10 gnn.dim_inner 64 train.patience 1
Results are written to <out-dir>/<name>/. Finished runs are kept unless you give
--overwrite. After Ctrl-C or a crash, repeat the command with --resume: an
interrupted run continues from its checkpoint. `graphgym-srnc options` lists
every config key.
""",
    "grid": f"""
Run all combinations of settings in a grid file, in parallel.

--cfg FILE|NAME  set the base config, as for `run`
--grid FILE|NAME!  read this grid file, or a shipped one such as grids/open_set
--repeat R=1  run R seeds of each setting
--dry-run  list the runs and what each changes in the base config, then stop
--resume  run only the runs without a finished result
--overwrite  run all runs again and replace their results
{TRUST}

results:
--out-dir DIR  write results below DIR (default: out_dir of the config)
--name NAME  name the folder of this grid (default: <base>_grid_<grid>)
--figures  draw the confusion matrix and the embeddings for the first seed of each setting
--no-tensorboard  write no TensorBoard event files

Each line of the grid file holds a config key, a short alias and a list of
values. An empty line starts a second search space:
    gnn.layer_type  l  ['gcnconv','sageconv']
    srnc.rounds     T  [2,3]
The key `cfg` varies the base config itself. Results are written to
<out-dir>/<base>_grid_<grid>/, one folder per experiment. Give settings for all
runs last, as config keys and their values. Ctrl-C keeps finished runs; repeat
the command with --resume to run the others.

{LIMITS}
--executor local|ray=local  run on this machine, or on a Ray cluster
--ray-address ADDRESS=auto  connect to the Ray cluster at ADDRESS; auto = that of this machine
--ray-cpus C=1.0  reserve C CPUs of the cluster for each run
--ray-gpus G=0.0  reserve G GPUs of the cluster for each run
""",
    "tune": f"""
Search hyperparameters with the same budget for every method. Validation scores alone
choose the settings. Needs Optuna: pip install 'graphgym-srnc[tune]'.

--cfg FILE|NAME  set the base config, as for `run`
--methods A,B  tune these methods (default: the method of the config)
--block TASK&  describe a task by config keys and values in quotation marks; repeat it to average
    scores over several tasks (default: the task of --cfg)
--dry-run  list the search space of each method, then stop
--overwrite  run all trials again and replace their results
{TRUST}

search:
--trials N=20  try N settings per method, including the config as it is
--seeds A-B=100-102  run each trial on these seeds; do not report results on them
--selection RULE  select episodes and settings by this rule (default: train.selection of --cfg)
--no-pruning  run all seeds of every trial (default: stop a trial that begins below the median)

results:
--out-dir DIR  write results below DIR (default: out_dir of the config)
--name NAME  name the folder of this study (default: <base>_tune)

Each method starts from its own config if one lies beside --cfg:
paper/close_set/citation/cmd lies beside .../erm. Trial 0 is that config,
unchanged. Keys that you set at the end of the command are not searched. After
Ctrl-C or a crash, repeat the command to continue; raise --trials to add trials:
    graphgym-srnc tune --cfg paper/close_set/citation/erm --methods erm,cmd,a2gnn --trials 20
    graphgym-srnc grid --grid results/citation-erm_tune/tuned.txt --repeat 10

{LIMITS}
""",
    "compare": f"""
Compare finished runs in one table with tests, ranks and the paper's numbers.

{FOLDERS}
--metric NAME+  show these scores; seconds, peak_memory_mib and params are possible too. The first
    one chooses the settings (default: micro_f1, or the scores of the paper's table)
--split SPLIT=test  show scores on these nodes: train, val or test

rows and columns:
--by KEY+  make one row for each value of these keys (default: method and backbone)
--columns KEY+  make one column for each value of these keys (default: the task)
--select KEY*=all  choose the best setting of each cell over these keys by validation score; all =
    all keys that vary, except those of the data. Without a KEY, pool the runs of all settings

tests:
--against ROW  test every row against ROW (default: no such test)
--test TEST=wilcoxon  use this paired test: wilcoxon or t
--alpha A=0.05  set the significance level of tests and intervals
--intervals  show a bootstrap confidence interval for each mean

output:
--paper TABLE  show the paper's numbers beside yours: open_set, close_set or clustering (default:
    no such numbers)
--format text|markdown|csv|latex  print this format (default: by the suffix of --out, else text)
--out FILE  write the table to FILE, such as table.md, table.csv or table.tex (default: print it)
--figure FILE  draw the critical-difference diagram of the first score to a .png, .pdf or .svg file;
    each of several columns gets its own file, named FILE-COLUMN (default: no diagram)
{OVERWRITE}

KEY is a config key, or one of method, backbone and task; with --paper also
`paper`, the matching row of the paper's table.
    graphgym-srnc compare results --metric micro_f1 macro_recall --against erm
    graphgym-srnc compare results/open_set/report --paper open_set --out table.tex
    graphgym-srnc compare results/my_grid --by gnn.layer_type --columns dataset.name \\
        --figure ranks.pdf
Validation scores alone choose the setting that a cell shows. Two runs form a
pair if they have the same split and the same seed.
""",
    "report": f"""
Write results as one HTML page with tables, tests and figures. It needs no
network.

{FOLDERS}
--out FILE  write the page to FILE (default: the name of the first DIR with .html)
--metric NAME+  compare these scores; the first one chooses the settings (default: Micro-F1, macro
    recall and scores of the unknown class)
--against ROW  test every row against ROW (default: the row with the best mean rank)
--paper TABLE  show the paper's numbers beside yours: open_set, close_set or clustering (default:
    no such numbers)
{OVERWRITE}
""",
    "check": """
Verify the checksums of stored results. The command reads every file that a SHA256SUMS
lists, every record, checkpoint and graph folder of `data make`, in DIR and below. It
changes nothing. The exit status is 1 if a file is damaged.

folder DIR  check this folder of an experiment, of experiments or of a graph
""",
    "predict": f"""
Predict the class of every node with a trained run.

run RUN  use the model in this folder of a run or an experiment, or this model file
--graph FILE  predict another graph, without its labels (default: the target graph of the run)
--out FILE!  write the predictions to FILE, .csv or .parquet
--disagreements FILE  also write the nodes on which the model disagrees with the given label
    (default: no such file)
--probabilities  add a column with the probability of each class
{OVERWRITE}
{TRUST}

RUN is the folder of a run, <out-dir>/<name>/<seed>; the folder of an
experiment, of which the finished run with the lowest seed is read; or a model
file of a run or of an estimator's save(). Give --graph the whole graph, old and
new nodes together: a GNN needs the neighbours of a node.
""",
    "discover": f"""
Cluster the nodes that a trained run predicts as unknown, and describe each
cluster.

run RUN  use the model in this folder of an open-set run, or of an experiment (its lowest seed)
--graph FILE  read another graph, in a format of the shift `file` (default: the target graph of the
    run)
--clusters K=0  set the number of clusters, known classes included; 0 = the smallest number with
    about the highest modularity
{TRUST}

output:
--out PAGE.html  also write an HTML page with a map (default: no page)
--csv FILE  also write the table of clusters (default: no such file)
--nodes FILE  also write a table of all nodes, .csv or .parquet (default: no such file)
{OVERWRITE}

clusters as classes:
--name CLUSTER&  name a cluster, as in 1=biology; repeat it to name several (default: no names)
--labels-out FOLDER  write the graph with the named clusters as classes (default: no graph)
--nodes-per-class N=20  take N training nodes from each named cluster

Name the clusters that you recognise and train on them: --name 1="graph theory" --name 2=biology
--labels-out FOLDER writes the graph with the most certain nodes of each named cluster as training
nodes of a new class. `graphgym-srnc run --cfg own dataset.name FOLDER` reads that folder.
""",
    "options": """
List methods, shifts, backbones and all config keys with their defaults, which a run
without a config uses.

block BLOCK?  list one block only: a method, a shift, train, dataset, gnn or optim (default: all)
""",
}
"""What each command does, its arguments, examples, and groups of arguments with their titles."""

DATA_COMMANDS = {
    "list": """
List data sets and whether their files are present.

--root FOLDER  look in this data folder (default: $GRAPHGYM_SRNC_DATA or ./datasets)
""",
    "show": f"""
Show graphs, splits, label distributions and warnings before training.

--cfg FILE|NAME  read this yaml file or shipped config (default: the package's default config)
--out FILE  also write the same as an .html page with bars (default: no page)
{OVERWRITE}
{TRUST}

Give config keys and their values last, such as open_set.num_unseen 2.
""",
    "make": """
Make a graph folder from your own tables.

inputs FILE+  read a node table and a list of links, or one .graphml, .gexf, .gml or .json
    file with both
--out FOLDER!  write the graph folder to FOLDER
--overwrite  replace a graph folder that this program made

columns:
--id COLUMN  read node ids from this column (default: id, or one whose cells links have)
--label COLUMN  read classes from this column, or `none` (default: label, class, ...)
--split COLUMN  read train, val, test or nothing from this column (default: split)
--ends COLUMN#  read node ids of links from these columns (default: source and target, ...)
--skip-missing  leave out links to unknown ids (default: they are an error)

features:
--text COLUMN&  turn this text column into TF-IDF features (default: none, as for other columns)
--max-words N=2000  keep the N most frequent words
--min-nodes N=2  drop words in fewer than N nodes
--numbers COLUMN&  use this column of numbers as a feature; '*' = all others (default: none)
--categories COLUMN&  make one feature for each value of this column (default: none)
--embeddings FILE  add your own features, an .npy array [V, D] in the order of the nodes (default:
    none)
--spectral N=0  add N spectral features of the links
--like FOLDER  make the same features as in this graph folder, so that its model fits (default:
    new features)

  data make nodes.csv edges.csv --text title --out FOLDER
  data make graph.graphml --text title --out FOLDER
Repeat an option to name several columns, or separate them by commas.
""",
    "example": """
Write an example node table and list of links, with two unlabelled topics.

out FOLDER  write the tables to FOLDER
--nodes N=20000  write N nodes
--labelled SHARE=0.05  label this share of the nodes of the other topics
--seed N=0  seed the random graph
--overwrite  replace an example that this program wrote
""",
}
"""The actions of the command ``data``."""


class Parser(argparse.ArgumentParser):
    """A parser that proposes a command or an option for one that does not exist."""

    def error(self, message: str) -> NoReturn:
        """Print a message and the most similar name, and exit with status 2."""
        known = [*self._option_string_actions]
        known += [name for action in self._actions for name in action.choices or ()]
        if wrong := re.search(r"(?:invalid choice: '|unrecognized arguments: )([\w-]+)", message):
            message = f"{message}. {did_you_mean(wrong[1], known)}".rstrip()
        super().error(message)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = Parser(
        prog="graphgym-srnc",
        allow_abbrev=False,
        description="Train graph neural networks for node classification under distribution shift,"
        " on PyTorch Geometric's GraphGym.",
    )
    parser.add_argument("--version", action="version", version=f"graphgym-srnc {__version__}")
    add_options(parser, "--debug  show the traceback of internal errors")
    commands = _add_commands(parser, "command", COMMANDS)
    what = "list data sets, show a shift before training, or make a graph from your own files"
    data = commands.add_parser("data", help=what, description=f"{what.capitalize()}.")
    _add_commands(data, "action", DATA_COMMANDS)
    return parser


def _add_commands(
    parser: argparse.ArgumentParser, dest: str, texts: dict[str, str]
) -> argparse._SubParsersAction:
    commands = parser.add_subparsers(dest=dest, required=True)
    for name, text in texts.items():
        description, options, *blocks = text.strip("\n").split("\n\n")
        # The first sentence is the line in the list of commands.
        summary = description.partition(". ")[0].rstrip(".").replace("\n", " ")
        own = commands.add_parser(
            name,
            help=summary[0].lower() + summary[1:],
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_options(own, options)
        for block in blocks:
            title, _, below = block.partition(":\n")
            if below.startswith("--"):
                add_options(own.add_argument_group(title), below)
            else:
                own.epilog = block
        own.set_defaults(parser=own)
        if "--cfg" in options:
            own.usage = f"{own.prog} [options] [key value ...]"
            own.set_defaults(overrides=[])
    return commands
