"""The examples of the guide for services and batch jobs, run by systemd and Slurm."""

from __future__ import annotations

import os

import pytest

from deploy.supervisor import wait_for
from tests.packages.guide import assert_ran_on_quarter, example
from tests.packages.machines import Machine
from tests.ports import port
from tests.remoting.node import EVENT_SECONDS
from tests.system.conftest import Pool

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
SLURM = ("slurmctld", "slurmd", "slurm-client", "munge")
SLURM_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={second_port}
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4
PartitionName=all Nodes=ALL Default=YES
"""


@pytest.fixture(scope="module")
def slurm(server: Machine) -> Machine:
    """The machine with Slurm, whose only node it is."""
    server.run_well("apt-get", "install", "-y", "-q", "--no-install-recommends", *SLURM)
    host = server.run_well("hostname").strip()
    ports = {"port": port(450), "second_port": port(451)}
    configuration = server.path("/etc/slurm/slurm.conf")
    configuration.write_text(SLURM_CONFIGURATION.format(host=host, **ports))
    # slurmd reads it although no plugin uses control groups.
    server.path("/etc/slurm/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    server.run_well("systemctl", "restart", "munge", "slurmctld", "slurmd")

    def is_idle() -> bool:
        return "idle" in server.run("sinfo", "--noheader", "--format", "%t").stdout

    wait_for("Slurm's node", is_idle, configuration, EVENT_SECONDS)
    return server


def test_systemd_runs_unit_on_a_gpu(server: Machine, pool: Pool) -> None:
    server.path("/etc/systemd/system/training.service").write_text(example("systemd", "ini"))
    server.run_well("systemctl", "daemon-reload")
    server.run_well("systemctl", "start", "training.service")

    def has_ended() -> bool:
        return server.run("systemctl", "is-active", "training.service").returncode != 0

    wait_for("the unit", has_ended, pool.stack.logs / "appliance.log", EVENT_SECONDS)
    assert_ran_on_quarter(
        pool, server.run_well("journalctl", "--no-pager", "-u", "training.service")
    )


def job(server: Machine, program: str) -> None:
    script = example("Batch job", "sh")
    assert "python3 train.py" in script
    server.path("/root/job.sh").write_text(script.replace("python3 train.py", program))


def test_job_of_slurm_runs_on_a_gpu(slurm: Machine, pool: Pool) -> None:
    job(slurm, "./program memory")
    slurm.run_well("sbatch", "--wait", "--output", "job.log", "job.sh")
    assert_ran_on_quarter(pool, slurm.path("/root/job.log").read_text())


def test_cancelled_job_releases_its_gpu(slurm: Machine, pool: Pool) -> None:
    job(slurm, "./program work 1000")
    number = slurm.run_well("sbatch", "--parsable", "--output", "job.log", "job.sh").strip()
    log = slurm.path("/root/job.log")

    def is_working() -> bool:
        return log.exists() and "working" in log.read_text()

    wait_for("the program", is_working, pool.stack.logs / "appliance.log", EVENT_SECONDS)
    slurm.run_well("scancel", number)
    wait_for("the release", lambda: not pool.api.items("partitions"), log, EVENT_SECONDS)
