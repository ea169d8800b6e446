"""``graphgym-srnc run``: one config over several seeds, from the yaml to the table."""
from __future__ import annotations

import argparse
import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yacs.config import CfgNode

    from graphgym_srnc.cli.progress import Progress
    from graphgym_srnc.methods.base import Method
    from graphgym_srnc.store import Experiment, Result
    from graphgym_srnc.task import ShiftTask
    from graphgym_srnc.trainer import Episode

EPILOG = """\
Settings come last, as words by turns: graphgym-srnc run --cfg paper/open_set/cora-srnc --repeat 10 gnn.dim_inner 64 train.patience 1
Results go to <out-dir>/<name>/; a finished run is kept unless --overwrite is given, and Ctrl-C keeps the runs that are done.
`graphgym-srnc options` lists every key."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("run", help="train and score a config over several seeds", epilog=EPILOG, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter,
                                   usage="graphgym-srnc run [options] [key value ...]")
    parser.add_argument("--cfg", metavar="FILE|NAME", help="a yaml file, or the name of a shipped one such as paper/open_set/cora-srnc;"
                        " without it the embedded default runs")
    parser.add_argument("--repeat", type=int, default=1, metavar="R",
                        help="number of runs, with seeds cfg.seed, cfg.seed + 1, ... (default: 1)")
    present = parser.add_mutually_exclusive_group()
    present.add_argument("--resume", action="store_true", help="run only the seeds that have no finished result, then renew the table")
    present.add_argument("--overwrite", action="store_true", help="run all seeds and replace what is there")
    parser.add_argument("--out-dir", metavar="DIR", help="directory of all results (default: cfg.out_dir)")
    parser.add_argument("--name", help="directory of this experiment in it (default: the name of the yaml file)")
    parser.add_argument("--figures", action=argparse.BooleanOptionalAction, default=None,
                        help="draw confusion matrix and embeddings for every seed, or for none (default: for the first seed)")
    parser.add_argument("--figure-every", type=int, default=0, metavar="K",
                        help="draw every K-th episode too, not only the first and the selected one")
    parser.add_argument("--map", choices=("pca", "tsne"), default="pca", help="how embeddings are drawn in two dimensions (default: pca)")
    parser.add_argument("--no-tensorboard", action="store_true", help="write no TensorBoard events")
    parser.set_defaults(overrides=[])


def main(args: argparse.Namespace) -> int:
    """Run what is missing, store it, print the table.

    Raises:
        InputError: the config, the data or the place for results is not as it must be; nothing was written then.
        KeyboardInterrupt: Ctrl-C; the finished runs and their table are kept.
    """
    from graphgym_srnc import store
    from graphgym_srnc.cli.progress import Progress
    from graphgym_srnc.errors import InputError
    from graphgym_srnc.gym import load_config, schema
    cfg = load_config(args.cfg, args.overrides)
    if args.repeat < 1:
        raise InputError("--repeat", args.repeat, "1 or more")
    if args.figure_every < 0:
        raise InputError("--figure-every", args.figure_every, "0 or more")
    cfg.out_dir = args.out_dir or cfg.out_dir
    # Blocks of other methods and shifts have no say; were they kept, a new method would make old results another config's.
    unused = set(schema()) - {"train", "dataset", cfg.train.mode, cfg.dataset.format}
    config = {key: value for key, value in cfg.items() if key not in unused}
    experiment = store.Experiment(cfg.out_dir, args.name or _name(args.cfg), config, cfg.dump())
    seeds = range(cfg.seed, cfg.seed + args.repeat)
    todo = experiment.plan(seeds, args.resume, args.overwrite)
    print(f"{experiment.path}: {cfg.train.mode} on {cfg.dataset.format}/{cfg.dataset.name}, {cfg.gnn.layer_type}, seeds "
          f"{seeds[0]} to {seeds[-1]}" + (f", of which {len(seeds) - len(todo)} are done" if len(todo) < len(seeds) else ""), flush=True)
    try:
        with Progress(len(todo)) if todo else contextlib.nullcontext() as progress:
            for seed in todo:
                figures = seed == seeds[0] if args.figures is None else args.figures
                _run(cfg, seed, experiment, progress, args, figures)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt("finished runs are kept, --resume runs the others") from error
    finally:
        _table(experiment, cfg)
    return 0


def _name(cfg_file: str | None) -> str:
    last = (cfg_file or "default").replace("\\", "/").rsplit("/", 1)[-1]
    return last.removesuffix(".yaml").removesuffix(".yml")


def _run(base: CfgNode, seed: int, experiment: Experiment, progress: Progress, args: argparse.Namespace, figures: bool) -> None:
    import torch
    from torch_geometric import seed_everything

    from graphgym_srnc import gym, store
    cfg = base.clone()
    cfg.seed = seed
    cfg.run_dir = str(experiment.path / str(seed))
    gym.activate(cfg)
    torch.set_num_threads(cfg.num_threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling fresh memory guards against reads of it, which is not what makes runs equal, and it costs time.
    torch.utils.deterministic.fill_uninitialized_memory = False
    seed_everything(seed)
    begin = time.perf_counter()
    task = gym.build_task(cfg)
    progress.start(f"seed {seed}")
    train = _standard if cfg.train.mode == "standard" else _method
    result = train(cfg, task, experiment, progress, args, figures)
    result = experiment.finish(seed, {
        "method": cfg.train.mode, "backbone": cfg.gnn.layer_type, "task": task.name, "split": task.fingerprint(), "info": dict(task.info),
        "lr": cfg.optim.base_lr, "threads": cfg.num_threads, "seconds": time.perf_counter() - begin, "peak_memory_mib": store.peak_memory(),
        **result})
    progress.finish(_line(result))
    for warning in result["warnings"]:
        progress.say(f"warning: seed {seed}: {warning}")


def _method(cfg: CfgNode, task: ShiftTask, experiment: Experiment, progress: Progress, args: argparse.Namespace, figures: bool) -> Result:
    from graphgym_srnc import gym
    from graphgym_srnc.report.tensorboard import TensorBoard, blind, untouched
    board: TensorBoard | None = None
    on_train: list[float] = []

    def after_episode(episode: Episode, method: Method, task: ShiftTask) -> None:
        nonlocal board
        if board is None:
            # Only now, since a method may still refuse its task when it starts.
            board = TensorBoard(experiment.begin(cfg.seed), not args.no_tensorboard, figures, args.figure_every, args.map)
        with untouched(method):
            prediction = method.decide(method.predict(blind(method, task).source)[task.train])
        on_train.append(float((prediction == task.source.y[task.train]).float().mean()))
        board(episode, method, task)
        most = method.episodes if cfg.train.max_episodes < 0 else min(method.episodes, cfg.train.max_episodes)
        progress.episode(episode.number, most, f"val {100 * episode.val['micro_f1']:.1f}")

    try:
        method, record = gym.fit(cfg, task, [after_episode])
        board.finish(record, method, task.oracle if method.oracle else task, _settings(cfg))
    finally:
        if board is not None:
            board.close()
    history = [{"number": episode.number, "losses": episode.losses, "train": {"micro_f1": score}, "val": episode.val, "test": episode.test,
                "seconds": episode.seconds} for episode, score in zip(record.history, on_train)]
    return {"fingerprint": record.fingerprint, "selection": record.selection, "selected": record.best, "stopped": record.stopped,
            "warnings": record.warnings, "val": record.val, "test": record.test, "history": history,
            "params": sum(parameter.numel() for parameter in method.parameters())}


def _standard(cfg: CfgNode, task: ShiftTask, experiment: Experiment, progress: Progress, args: argparse.Namespace, figures: bool) -> Result:
    """GraphGym's own training. It scores the test nodes once, with the last weights, so the last epoch is the selected one."""
    from graphgym_srnc import gym, store
    from graphgym_srnc.errors import InputError
    if cfg.custom_metrics and "micro_f1" not in cfg.custom_metrics:
        raise InputError("custom_metrics", list(cfg.custom_metrics), "a list with micro_f1, or an empty one")
    run = experiment.begin(cfg.seed)
    # Lightning keeps its own logs there.
    cfg.out_dir = str(run)
    model = gym.train_standard(cfg, run)
    lines = {split: {line["epoch"]: line for line in store.read_lines(run / split / "stats.json")} for split in store.SPLITS}
    history = []
    for epoch, line in sorted(lines["train"].items()):
        row = {"number": epoch, "losses": {"loss": line["loss"]}, "train": _scores(line), "seconds": line["time_iter"]}
        history.append(row | {split: _scores(lines[split].get(epoch, {})) for split in ("val", "test")})
    last = history[-1]
    last["test"] = _scores(lines["test"][max(lines["test"])])
    return {"fingerprint": task.fingerprint(), "selection": "last", "selected": len(history) - 1, "warnings": [],
            "stopped": f"all {len(history)} epochs done", "val": last["val"], "test": last["test"], "history": history,
            "params": sum(parameter.numel() for parameter in model.parameters())}


def _scores(line: dict[str, float]) -> dict[str, float]:
    scores = {key: value for key, value in line.items() if key not in ("epoch", "eta", "loss", "lr", "params", "time_iter", "gpu_memory")}
    return scores | {"micro_f1": scores["accuracy"]} if "accuracy" in scores else scores


def _settings(cfg: CfgNode) -> dict[str, Any]:
    from graphgym_srnc.store import flatten
    blocks = ("dataset", cfg.dataset.format, "train", cfg.train.mode, "gnn", "optim")
    return {"seed": cfg.seed} | flatten({block: cfg[block] for block in blocks if block in cfg})


def _line(result: Result) -> str:
    test = {key: f"{100 * value:.1f}" for key, value in result["test"].items()}
    line = (f"seed {result['seed']}: episode {result['selected']} of {len(result['history']) - 1}, "
            f"val {100 * result['val']['micro_f1']:.1f}, test micro-F1 {test['micro_f1']}, macro recall {test['macro_recall']}")
    if "unknown_recall" in test:
        line += f", unknown recall {test['unknown_recall']}, precision {test['unknown_precision']}"
    return f"{line}, {result['seconds']:.1f} s"


def _table(experiment: Experiment, cfg: CfgNode) -> None:
    from graphgym_srnc.report import table
    results = experiment.aggregate(cfg.round)
    if results:
        rows = [table.summarise(experiment.name, results, experiment.out_dir)]
        table.write(experiment.path, rows)
        table.show(rows, sys.stdout)
