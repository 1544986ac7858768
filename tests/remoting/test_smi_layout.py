"""Output of `busbar smi`: lines as wide as nvidia-smi's, and the values of --query-gpu."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from remoting.cli.api import ApiError
from remoting.cli.smi_layout import FIELDS, csv_lines, listing, table
from remoting.cli.smi_readings import Gpu, Process, Readings

GPU = Gpu(
    index=0,
    name="NVIDIA H100, 80GB",
    uuid="GPU-3b0a",
    bus_id="00000000:41:00.0",
    performance_state=0,
    persistence_mode=True,
    fan_percent=None,
    temperature_celsius=41,
    power_milliwatts=71_500,
    power_limit_milliwatts=350_000,
    memory_total_bytes=20 << 30,
    memory_used_bytes=3 << 30,
    gpu_percent=17,
    memory_percent=None,
    processes=(Process(4711, "/usr/bin/python3.11", 3 << 30), Process(4712, "x" * 200, None)),
)
READINGS = Readings(driver_version="570.1", cuda_version="12.8", gpus=(GPU,))


def test_all_lines_of_the_table_have_one_width() -> None:
    long = replace(GPU, index=11, name="N" * 200, bus_id="-" * 40, memory_total_bytes=1 << 60)
    lines = table(replace(READINGS, gpus=(GPU, long))).splitlines()[1:]
    assert {len(line) for line in lines if line} == {91}


def test_table_has_use_and_processes() -> None:
    text = table(READINGS)
    for part in ("3072MiB / 20480MiB", "71W / 350W", "41C", "P0", "17%", "4711", "3072MiB", "12.8"):
        assert part in text, part
    assert "No running processes found" in table(
        replace(READINGS, gpus=(replace(GPU, processes=()),))
    )


def test_query_has_units_in_header_and_values() -> None:
    text = csv_lines(READINGS, "name,memory.used,power.draw,utilization.memory", "csv")
    header, row = csv.reader(text.splitlines(), skipinitialspace=True)
    assert header == ["name", "memory.used [MiB]", "power.draw [W]", "utilization.memory [%]"]
    assert row == ["NVIDIA H100, 80GB", "3072 MiB", "71.50 W", "[N/A]"]


def test_query_without_header_and_units_is_for_scripts() -> None:
    text = csv_lines(READINGS, "index, memory.free,utilization.gpu", "csv,noheader,nounits")
    assert text == "0, 17408, 17\n"


def test_every_field_can_be_queried_alone() -> None:
    for name in FIELDS:
        assert csv_lines(READINGS, name, "csv,noheader").strip(), name


@pytest.mark.parametrize(
    ("query", "output_format"),
    [("memory", "csv"), ("", "csv"), ("name", "json"), ("name", "csv,x")],
)
def test_unknown_field_or_format_is_rejected(query: str, output_format: str) -> None:
    with pytest.raises(ApiError):
        csv_lines(READINGS, query, output_format)


def test_listing_has_the_form_of_nvidia_smi() -> None:
    assert listing(READINGS) == "GPU 0: NVIDIA H100, 80GB (UUID: GPU-3b0a)\n"
