"""The examples of docs/scheduling.md, read by the tools that would run them; a tool that is not installed skips its test by name."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from slotscope.pipelines.keys.options import KeyOptions
from slotscope.pipelines.rebalance.options import PlanningOptions

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PAGE = (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8")
SCRIPT = EXAMPLES / "slotscope-plan.sh"
UNITS = [path for path in EXAMPLES.iterdir() if path.suffix in (".service", ".timer")]
MANIFESTS = [path for path in EXAMPLES.glob("*.yaml") if "\napiVersion:" in "\n" + path.read_text(encoding="utf-8")]


def needs(tool: str) -> str:
    """Where *tool* is; else the test is skipped."""
    result = shutil.which(tool)
    if result is None:
        pytest.skip(f"{tool} is not installed")
    return result


# -- the script --------------------------------------------------------------------------------------------------------


def plan(tmp_path: Path, codes: dict[str, int], **environment: str) -> tuple[int, list[str], str]:
    """Run the script with a ``slotscope`` that only records its arguments and ends with the code of its job."""
    needs("flock")
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    cases = "".join(f"{job}) exit {code};; " for job, code in codes.items())
    stub = folder / "slotscope"
    stub.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/said"\ncase $1 in {cases} esac\n')
    stub.chmod(0o755)
    settings = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "SLOTSCOPE_ROOT": str(tmp_path / "tables"),
        "SLOTSCOPE_DUMPS": str(tmp_path / "du mps"),
        "SLOTSCOPE_LOCK": str(tmp_path / "lock"),
    }
    ended = subprocess.run(
        [str(SCRIPT)], env=settings | environment, capture_output=True, text=True, timeout=30, check=False
    )
    calls = tmp_path / "said"
    return ended.returncode, calls.read_text().splitlines() if calls.exists() else [], ended.stderr


@pytest.mark.parametrize(
    ("key_slots", "rebalance_plan", "code"), [(0, 0, 0), (0, 10, 10), (0, 2, 2), (2, 0, 2), (3, 10, 3)]
)
def test_the_script_exits_with_the_code_of_the_deciding_job(tmp_path, key_slots, rebalance_plan, code):
    """A snapshot that failed is not planned with; 10 comes through."""
    ended, calls, _ = plan(tmp_path, {"key-slots": key_slots, "rebalance-plan": rebalance_plan})

    assert ended == code
    assert len(calls) == (1 if key_slots else 2)
    assert calls[0].startswith("key-slots --root ")
    assert key_slots or calls[1].endswith("--if-needed")


def test_a_second_run_at_the_same_time_does_nothing(tmp_path):
    """It ends with 75 (EX_TEMPFAIL) while another process holds the lock."""
    flock = needs("flock")
    lock = tmp_path / "lock"
    with subprocess.Popen(
        [flock, str(lock), "sh", "-c", "echo held; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        ended, calls, output = plan(tmp_path, {})
        holder.communicate("\n", timeout=10)

    assert (ended, calls) == (75, [])
    assert "another run" in output


def test_polls_of_a_live_cluster_are_planned_with_and_removed(tmp_path):
    """The password is in the environment only: no command has it."""
    _, calls, _ = plan(
        tmp_path, {}, SLOTSCOPE_CLUSTER="10.0.0.1:6379", SLOTSCOPE_PASSWORD="s3cret", SLOTSCOPE_PLACEMENT="/p.toml"
    )
    polls = calls[2].split("--slot-stats ")[1].split()[0]

    assert calls[1].startswith("collect 10.0.0.1:6379 --slot-stats ")
    assert calls[2].endswith("--placement /p.toml")
    assert polls.endswith("/*/*/slot-stats/*")
    assert not Path(polls.removesuffix("/*/*/slot-stats/*")).exists()
    assert "s3cret" not in " ".join(calls)


def test_the_options_of_the_script_exist() -> None:
    texts = [re.sub(r"\\\n", " ", path.read_text(encoding="utf-8")) for path in EXAMPLES.iterdir()]
    for job in ("key-slots", "collect", "rebalance-plan"):
        known = options_of(job)
        lines = [line for text in texts for line in text.splitlines() if f"slotscope {job} " in line]
        given = {option for line in lines for option in re.findall(r" --([a-z][a-z-]+)", line)}
        assert lines
        assert given <= known, job
    assert {"if-needed", "slot-stats", "placement"} <= options_of("rebalance-plan")


def options_of(job: str) -> set[str]:
    request = import_module(f"jobs.{job.replace('-', '_')}").Request
    return {field.name.replace("_", "-") for field in fields(request)}


# -- cron --------------------------------------------------------------------------------------------------------------


def cron_line() -> tuple[str, str, str]:
    """Times, user and command of the one entry."""
    text = (EXAMPLES / "slotscope-plan.cron").read_text(encoding="utf-8")
    entries = [line for line in text.splitlines() if re.match(r"[\d*]", line)]
    assert len(entries) == 1
    *times, user, command = entries[0].split(None, 6)
    return " ".join(times), user, command


def test_the_times_of_the_crontab_are_times() -> None:
    croniter = pytest.importorskip("croniter", reason="croniter is not installed")
    times, user, _ = cron_line()

    assert croniter.croniter.is_valid(times)
    assert user == "slotscope"


@pytest.mark.parametrize(("code", "text"), [(0, ""), (10, "new plan"), (2, "failed with 2")])
def test_the_command_of_the_crontab_mails_only_important_lines(tmp_path, code, text):
    """cron mails the output of a command: nothing if there is nothing to do."""
    _, _, command = cron_line()
    assert "%" not in command
    (tmp_path / "plan.env").write_text(f"SLOTSCOPE_ROOT={tmp_path}/tables\n")
    stub = tmp_path / "slotscope-plan.sh"
    stub.write_text(f"#!/bin/sh\necho noise from $SLOTSCOPE_ROOT\nexit {code}\n")
    stub.chmod(0o755)
    command = command.replace("/etc/slotscope", str(tmp_path)).replace("/var/log/slotscope", str(tmp_path))
    path = f"{tmp_path}:{os.environ['PATH']}"

    ended = subprocess.run(["/bin/sh", "-c", command], env={"PATH": path}, capture_output=True, text=True, check=False)

    assert ended.stderr == ""
    assert text in ended.stdout
    assert bool(ended.stdout) == bool(code)
    assert f"noise from {tmp_path}/tables" in (tmp_path / "plan.log").read_text()


# -- systemd -----------------------------------------------------------------------------------------------------------


def test_systemd_takes_the_units(tmp_path):
    """systemd-analyze verify, with the paths of this checkout; it says nothing."""
    analyze = needs("systemd-analyze")
    program = tmp_path / "slotscope"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in UNITS:
        text = path.read_text(encoding="utf-8").replace("/opt/slotscope/docs/examples", str(EXAMPLES))
        (tmp_path / path.name).write_text(text.replace("/opt/slotscope/.venv/bin/slotscope", str(program)))
    ended = subprocess.run(
        [analyze, "verify", "--man=no", *(str(tmp_path / path.name) for path in UNITS)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Failed to" in ended.stderr and "manager" in ended.stderr:
        pytest.skip(f"systemd-analyze does not run here: {ended.stderr.strip()[:100]}")

    assert (ended.stdout + ended.stderr, ended.returncode) == ("", 0)
    assert len(UNITS) == 6


def test_the_timer_is_a_time() -> None:
    analyze = needs("systemd-analyze")
    (when,) = re.findall(
        r"^OnCalendar=(.*)$", (EXAMPLES / "slotscope-plan.timer").read_text(encoding="utf-8"), re.MULTILINE
    )

    assert subprocess.run([analyze, "calendar", when], capture_output=True, check=False).returncode == 0


# -- Kubernetes --------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_takes_the_manifests(path: Path) -> None:
    """The published schema of the newest version, no unknown field allowed."""
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    manifest = read_manifest(path)

    validate.validate(manifest, validate.latest_version(), strict=True)
    manifest["spec"]["unknownfield"] = "Forbid"
    with pytest.raises(validate.ValidationError):
        validate.validate(manifest, validate.latest_version(), strict=True)


def test_the_manifest_keeps_runs_apart_and_the_password_out_of_it() -> None:
    """Forbid, a secret, and the script that the container runs is the one beside it."""
    manifest = read_manifest()
    [container] = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    by_name = {entry["name"]: entry for entry in container["env"]}

    assert manifest["spec"]["concurrencyPolicy"] == "Forbid"
    assert set(by_name["SLOTSCOPE_PASSWORD"]) == {"name", "valueFrom"}
    assert "docs/examples/slotscope-plan.sh" in container["args"][0]


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (10, 0), (2, 2)])
def test_a_new_plan_is_no_failure_for_kubernetes(tmp_path, code, ends):
    """The command of the container with a script that ends with *code*."""
    [container] = read_manifest()["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    stub = tmp_path / "plan.sh"
    stub.write_text(f"#!/bin/sh\nexit {code}\n")
    stub.chmod(0o755)
    script = container["args"][0].replace("/opt/slotscope/docs/examples/slotscope-plan.sh", str(stub))
    script = script.replace("/dev/termination-log", str(tmp_path / "log"))

    ended = subprocess.run([*container["command"], script], capture_output=True, text=True, check=False)

    assert ended.returncode == ends
    assert (tmp_path / "log").exists() == (code == 10)


def read_manifest(path: Path = EXAMPLES / "slotscope-plan.yaml") -> Any:
    """A manifest, by default the CronJob; skipped without PyYAML."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


# -- Airflow, Dagster --------------------------------------------------------------------------------------------------


def example(name: str, monkeypatch, tmp_path: Path, code: int = 0) -> Any:
    """The module *name*, with a ``slotscope`` that prints its arguments and ends with *code*."""
    stub = tmp_path / "slotscope"
    stub.write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
    stub.chmod(0o755)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SLOTSCOPE", str(stub))
    return module


@pytest.mark.parametrize("name", ["airflow_slotscope_plan", "dagster_slotscope_plan"])
def test_examples_of_orchestrators_call_commands_with_options_that_exist(name):
    calls = [
        [word.value for word in node.args if isinstance(word, ast.Constant)]
        for node in ast.walk(ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "slotscope"
    ]

    assert calls == [["key-slots"], ["plan", "make", "--if-needed"]]
    for request in (KeyOptions, PlanningOptions):
        assert {"root", "manifest"} <= {field.name for field in fields(request)}


def test_airflow_parses_the_dag(monkeypatch, tmp_path):
    pytest.importorskip("airflow.sdk", reason="Airflow is not installed")
    module = example("airflow_slotscope_plan", monkeypatch, tmp_path)
    made = module.slotscope_plan()

    order = {name: sorted(made.get_task(name).downstream_task_ids) for name in ("snapshots", "plans", "is_needed")}

    assert order == {"snapshots": ["plans"], "plans": ["is_needed", "tell"], "is_needed": ["tell"]}


@pytest.mark.parametrize(("code", "error"), [(3, ""), (2, "bad input"), (75, "ended with 75")])
def test_an_airflow_task_fails_for_unexpected_exit_codes(monkeypatch, tmp_path, code, error):
    pytest.importorskip("airflow.sdk", reason="Airflow is not installed")
    module = example("airflow_slotscope_plan", monkeypatch, tmp_path, code)

    if error:
        with pytest.raises(Exception, match=error):
            module.slotscope("key-slots", allowed=(0, 3))
    else:
        assert module.slotscope("key-slots", allowed=(0, 3))[0] == code


@pytest.mark.parametrize(("code", "succeeds"), [(0, True), (2, False), (3, True)])
def test_dagster_materializes_the_assets_unless_a_command_fails(monkeypatch, tmp_path, code, succeeds):
    dagster = pytest.importorskip("dagster", reason="Dagster is not installed")
    module = example("dagster_slotscope_plan", monkeypatch, tmp_path, code)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))

    ended = dagster.materialize(
        [module.snapshots, module.plans], raise_on_error=False, instance=dagster.DagsterInstance.ephemeral()
    )

    assert ended.success is succeeds


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_page_names_every_example_and_only_those_that_exist() -> None:
    """A renamed file would be noticed; those for recording and following have pages of their own."""
    named = set(re.findall(r"examples/([\w.-]+\w)", PAGE))

    assert named == {
        path.name
        for path in EXAMPLES.iterdir()
        if path.is_file() and not path.name.startswith(("slotscope-record", "slotscope-follow", "slotscope-ship"))
    }
