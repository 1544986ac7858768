"""Sizes and durations in command lines."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from remoting.cli.amounts import parse_duration, parse_size, parse_whole_seconds
from remoting.cli.main import app


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("8GiB", 8 << 30),
        ("1.5 GiB", 3 << 29),
        ("512MB", 512_000_000),
        ("2tb", 2 * 10**12),
        ("4096B", 4096),
        ("1kB", 1000),
        ("0", 0),
        ("0B", 0),
        ("1024TiB", 1 << 50),
    ],
)
def test_size_in_si_and_iec_units(text: str, bytes_: int) -> None:
    assert parse_size(text) == bytes_


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("8", "8GiB"),
        ("255", "255GiB"),
        ("2000", "2000MiB"),
        ("8589934592", "8GiB"),
        ("1073741825", "1073741825B"),
        ("8G", "8GiB"),
        ("512Mi", "512MiB"),
        ("0G", "0GiB"),
    ],
)
def test_size_without_unit_is_refused_with_a_proposal(text: str, meant: str) -> None:
    with pytest.raises(typer.BadParameter, match=f'Did you mean "{meant}"'):
        parse_size(text)


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1GiB", "8 gulps", "0 gulps", "1025TiB", "1e3MB", "٨GiB", "9" * 1000]
)
def test_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("8h", 28_800), ("1h30m", 5400), ("0.5s", 0.5), ("0", 0)]
)
def test_duration_is_converted_to_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["30", "3600.5", "", "h", "-5s", "5 weeks", "1h 30m"])
def test_duration_without_unit_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_duration(text)


def test_lifetime_is_a_whole_number_of_seconds() -> None:
    assert parse_whole_seconds("1.5m") == 90
    with pytest.raises(typer.BadParameter):
        parse_whole_seconds("0.5s")


@pytest.mark.parametrize("option", [("-m", "8"), ("--lifetime", "60"), ("--timeout", "5")])
def test_command_refuses_amount_without_unit(option: tuple[str, str]) -> None:
    done = CliRunner().invoke(app, ["run", *option, "--", "true"])
    assert done.exit_code == 2 and "Did you mean" in done.output
