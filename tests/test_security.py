"""What docs/security.md says: each sentence has a test, here or in the file that is named."""

from __future__ import annotations

import ast
import inspect
import re
import socket
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch_geometric.data.download
from stored import finish_run, new_experiment

from graphgym_srnc.cli.main import main
from graphgym_srnc.data import datasets, files, networks
from graphgym_srnc.io import records
from graphgym_srnc.io.settings import plain_yaml

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "security.md"

CLAIMS = {
    "Every statement below": "security::test_each_sentence_has_a_test",
    "Python code is trusted": "api::test_a_method_of_ones_own_needs_no_other_line "
    "model::test_a_layer_of_ones_own",
    "The network is used only": "security::test_no_socket_is_opened",
    "`ogb` itself may ask": "security::test_ogb_may_ask_for_its_newest_version",
    "`--trust` lets the files": "trust::test_trust_is_said_on_the_command_line "
    "trust::test_a_worker_trusts_what_its_parent_trusts",
    "Planetoid's files are pickles": "trust::test_trusted_pickles_of_planetoid "
    "trust::test_a_config_cannot_loosen_trust",
    "Ray authenticates nobody": "ray::test_a_cluster_that_is_not_there",
    "on a fixed list run": "trust::test_other_readers_of_pyg_need_trust",
    "They get text, plain": "trust::test_arrays_of_a_careless_reader_are_checked "
    "trust::test_a_text_file_that_is_a_pickle "
    "trust::test_processed_files_in_the_data_folder_are_not_read",
    "can switch this protection off": "trust::test_a_config_cannot_loosen_trust "
    "trust::test_a_stored_run_cannot_loosen_trust",
    "are read as tensors, arrays": "bad_input_data::test_pickled_code_is_never_run",
    "are safetensors files": "foreign::test_a_model_file_with_impossible_values_is_refused "
    "model::test_a_pickle_is_refused "
    "checkpoint::test_damaged_files_are_not_used",
    "YAML is read as strings": "security::test_yaml_is_text",
    "YAML with tags": "fuzz::test_yaml_bombs_and_tags_are_refused "
    "gym::test_bad_yaml_is_refused_and_runs_no_code",
    "`metric_agg`": "gym::test_bad_value_names_its_key",
    "Index arrays of sparse": "fuzz::test_indices_outside_their_matrix_are_refused",
    "if its header matches": "bad_input_data::test_a_header_that_promises_more_than_there_is "
    "bad_input_data::test_a_header_that_promises_less_than_there_is",
    "does not fit into memory": "limits::test_a_small_file_is_refused",
    "Impossible values": "gym::test_bad_value_names_its_key "
    "gym::test_bad_yaml_is_refused_and_runs_no_code",
    "An experiment's name": "store::test_names_that_would_leave_the_directory_are_refused "
    "outputs::test_a_run_writes_through_no_link "
    "outputs::test_grids_and_studies_write_through_no_link",
    "A Ray worker may return": "ray::test_too_many_bytes_are_not_sent "
    "ray::test_an_archive_that_leads_elsewhere_is_refused "
    "ray::test_only_a_finished_run_of_the_config_is_stored",
    "has a `SHA256SUMS`": "store::test_sha256sum_reads_our_checksums "
    "check::test_what_is_wrong_is_told_by_name",
    "contain a SHA-256 of their own": "check::test_a_changed_bit_is_refused_or_changes_nothing",
    "A damaged file is never": "check::test_a_changed_bit_is_refused_or_changes_nothing "
    "benchmarks_faults::test_nothing_is_wrong_in_silence "
    "store::test_a_damaged_record_is_told_and_run_again",
    "an edit causes": "tables::test_what_was_edited_by_hand_stays_and_is_told "
    "check::test_an_edited_config_is_told",
    "Worker processes of `grid`": "current_folder::test_workers_of_a_grid_import_nothing_of_it "
    "ray::test_nodes_import_nothing_of_the_current_folder",
    "A file `matplotlibrc`": "figures::test_settings_of_figures_do_not_change_them "
    "current_folder::test_a_matplotlibrc_that_cannot_be_read_does_not_end_a_command",
    "more than 10,000 classes": "foreign::test_more_columns_and_classes_than_can_be_handled",
    "A pipe or a device": "foreign::test_a_pipe_that_takes_the_place_of_a_file_is_refused_at_once",
    "A model file is refused": "foreign::test_a_model_file_with_impossible_values_is_refused "
    "foreign::test_a_model_file_with_weights_that_are_no_numbers_is_refused",
    "A record is refused": "foreign::test_a_record_beyond_its_range_is_refused",
    "steers the terminal": "foreign::test_names_of_classes_do_not_steer_the_terminal",
    "refuse a damaged seed": "predict::test_a_damaged_seed_is_not_replaced_by_the_next",
    "`check` verifies": "check::test_what_is_wrong_is_told_by_name "
    "check::test_a_folder_as_it_was_written",
    "A checkpoint is used only": "checkpoint::test_files_of_other_runs_are_not_used "
    "checkpoint::test_damaged_files_are_not_used",
    "Runs on different data": "cli::test_runs_of_other_data_are_not_pooled "
    "grid_cli::test_runs_of_other_data_under_the_same_name_are_refused",
    "detect damage, not forgery": "security::test_a_forged_record_is_read",
    "from elsewhere have no checksum": "security::test_a_table_of_others_is_taken_as_it_is",
    "do not verify TLS": "security::test_what_downloads_check",
    "from one fixed commit": "security::test_what_downloads_check "
    "shifts_cross::test_download_is_kept_only_if_whole",
    "`run` has no time": "security::test_run_has_no_limits "
    "grid::test_a_failure_is_told_and_the_others_go_on",
    "After a crash a file": "faults::test_the_store_keeps_what_is_finished "
    "store::test_a_failed_write_leaves_the_old_file_and_no_litter "
    "benchmarks_faults::test_nothing_is_wrong_in_silence",
    "An interrupted replacement": "tables::"
    "test_a_killed_replacement_leaves_the_old_folder_or_the_new_one",
    "the file system has locks": "cli::test_two_commands_at_one_name "
    "grid::test_killed_at_any_moment_and_resumed_all_runs_are_there_once "
    "store::test_what_has_come_since_the_plan_stays",
    "Even then": "outputs::test_no_output_replaces_results_or_other_files",
    "Finished results are deleted": "store::test_finished_results_need_a_flag "
    "cli::test_results_are_kept_resumed_and_overwritten",
    "`run --overwrite` replaces": "security::test_overwrite_replaces_whole_folders_of_runs",
    "`data make --overwrite` replaces": "tables::test_what_somebody_else_wrote_is_never_replaced "
    "tables::test_what_was_edited_by_hand_stays_and_is_told",
    "replace files only with": "outputs::test_no_output_replaces_results_or_other_files "
    "report_html::test_the_command_writes_the_page",
    "gives a one-line error": "cli::test_bad_input_is_one_line_and_nothing_is_written "
    "cli::test_other_errors_take_one_line_and_finished_runs_stay",
    "Ctrl-C and SIGTERM": "cli::test_ctrl_c_keeps_finished_runs",
    "Foreign text is escaped": "outputs::test_formulas_are_disarmed "
    "outputs::test_a_join_on_id_finds_all_rows fuzz::test_names_of_strangers_steer_nothing "
    "compare::test_names_are_escaped_everywhere compare::test_no_name_becomes_a_link_or_html",
    "The page of `report`": "report_html::test_a_page_loads_nothing "
    "map::test_a_page_runs_its_own_script_and_nothing_else",
    "Both pages load nothing": "report_html::test_a_page_loads_nothing "
    "map::test_a_page_runs_its_own_script_and_nothing_else",
    "injects faults and kills": "benchmarks_faults::test_nothing_is_wrong_in_silence "
    "benchmarks_faults::test_an_operation_fails",
    '"Wrong" means': "benchmarks_faults::test_ends_that_must_not_be "
    "benchmarks_faults::test_a_flipped_bit_must_be_told "
    "benchmarks_faults::test_a_lost_file_is_wrong "
    "benchmarks_faults::test_another_graph_without_a_note_is_wrong",
    "Of 23,300 trials": "benchmarks_faults::test_nothing_is_wrong_in_silence",
}
"""A marker of each sentence, and the tests of it, as the end of a file's name and the function."""


def sentences(page: str) -> list[str]:
    """What a page states: its paragraphs and the points of its lists, sentence by sentence."""
    page = page.split("## Reporting a vulnerability")[0]
    page = re.sub(r"^(\||#|    ).*$", "\n", page, flags=re.M)
    parts = re.split(r"\n\s*\n|^- ", page, flags=re.M)
    return [
        " ".join(sentence.split())
        for part in parts
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`])", part.strip())
        if sentence.strip()
    ]


def functions(file: str) -> set[str]:
    tree = ast.parse((HERE / f"test_{file}.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_sentence_has_a_test():
    found = sentences(PAGE.read_text(encoding="utf-8"))
    introduction = found.pop(0)
    assert introduction.endswith("with your rights.") and len(found) > 40
    for sentence in found:
        assert [marker for marker in CLAIMS if marker in sentence], f"no test of: {sentence}"
    for marker, tests in CLAIMS.items():
        assert sum(marker in sentence for sentence in found) == 1, marker
        for test in tests.split():
            file, _, name = test.partition("::")
            assert name in functions(file), test


@pytest.fixture
def offline(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("a socket")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "bind", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


def test_no_socket_is_opened(tmp_path, offline, unchanged_globals):
    words = (
        "train.mode erm erm.steps 1 synthetic.num_nodes 90 synthetic.num_val 20 "
        "synthetic.num_test 30 synthetic.labels_per_class 3 gnn.dim_inner 4"
    ).split()
    assert main(["run", "--no-figures", "--out-dir", str(tmp_path), *words]) == 0
    assert main(["compare", str(tmp_path), "--out", str(tmp_path / "a.md")]) == 0
    assert main(["check", str(tmp_path)]) == 0


def test_ogb_may_ask_for_its_newest_version():
    source = Path(find_spec("ogb").origin).with_name("version.py").read_text(encoding="utf-8")
    assert "check_outdated('ogb'" in source


def test_yaml_is_text():
    assert plain_yaml("a: [1, yes, 2020-01-01]\nb: {c: ~}") == {
        "a": ["1", "yes", "2020-01-01"],
        "b": {"c": "~"},
    }


def test_a_forged_record_is_read(tmp_path):
    finish_run(new_experiment(tmp_path), 0, [0.5, 0.7])
    place = tmp_path / "toy" / "0"
    record = records.read_result(place)
    record["test"]["micro_f1"] = 0.9
    records.write_record(place, record)
    assert records.read_result(place)["test"]["micro_f1"] == 0.9


def test_overwrite_replaces_whole_folders_of_runs(tmp_path):
    finish_run(new_experiment(tmp_path), 0, [0.5])
    within = tmp_path / "toy" / "0" / "notes.txt"
    beside = tmp_path / "toy" / "notes.txt"
    for notes in (within, beside):
        notes.write_text("mine")
    again = new_experiment(tmp_path)
    again.plan([0], overwrite=True)
    finish_run(again, 0, [0.7])
    assert not within.exists() and beside.exists()


def test_a_table_of_others_is_taken_as_it_is(tmp_path, capsys):
    for name, text in (
        ("edges.csv", "from,to\n0,1\n1,2\n"),
        ("labels.csv", "node,label\n0,0\n1,1\n2,0\n"),
    ):
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "features.npy", np.eye(3))
    first = files.load(tmp_path)[0]["edge_index"].tolist()
    (tmp_path / "edges.csv").write_text("from,to\n0,1\n0,2\n")
    assert files.load(tmp_path)[0]["edge_index"].tolist() != first
    assert "is no longer as" not in capsys.readouterr().err


def test_what_downloads_check():
    assert "_create_unverified_context" in inspect.getsource(torch_geometric.data.download)
    for family in (networks.CITATION, networks.OCNNC):
        assert re.match(r"https://.*[0-9a-f]{40}", family.url)
    names = {line.split()[1] for line in datasets.PLANETOID.read_text().splitlines()}
    assert all(name.startswith("ind.") for name in names)


def test_run_has_no_limits(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--time-limit", "1"])
    assert "unrecognized arguments" in capsys.readouterr().err
