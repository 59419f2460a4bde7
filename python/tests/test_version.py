"""The versions of the package and of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

import overdrive


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_program_has_the_version_of_the_package(program_path: Path) -> None:
    assert overdrive.binary_version(str(program_path)) == overdrive.__version__
    overdrive.check_version(str(program_path))


def test_another_version_is_reported_with_both(tmp_path: Path) -> None:
    other = script(tmp_path / "other", "echo overdrive 9.8.7")
    assert overdrive.binary_version(other) == "9.8.7"
    with pytest.raises(overdrive.VersionError) as error:
        overdrive.check_version(other)
    assert "9.8.7" in str(error.value) and overdrive.__version__ in str(error.value)


def test_other_programs_are_refused(tmp_path: Path) -> None:
    for name, text in [
        ("silent", "exit 0"),
        ("failing", "echo overdrive 1.0; exit 1"),
        ("another", "echo nbdkit 1.2"),
        ("binary", "printf '\\377\\376'"),
    ]:
        with pytest.raises(overdrive.VersionError, match=name):
            overdrive.check_version(script(tmp_path / name, text))
    with pytest.raises(overdrive.NotFoundError, match="absent"):
        overdrive.check_version(str(tmp_path / "absent"))
