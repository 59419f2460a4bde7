"""The manifest of a sweep: a TOML file that is checked as a whole before any job starts."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import native
from .errors import ManifestError
from .sizes import share_percent, size_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NO_DRIVE = "none"
NO_COMPRESSION = "off"
#: Limits of a mean ratio, as of ``overdrive sim --compress``.
RATIO_MIN, RATIO_MAX = 1.0, 512.0
#: As of ``overdrive trace replay``.
DEPTH_MAX = 2048
MAPS = ("wrap", "scale", "clip")


@dataclass(frozen=True)
class Source:
    """An entry of ``[[traces]]``: paths, globs or URLs with common properties."""

    paths: tuple[str, ...]
    format: str | None
    workload: str


@dataclass(frozen=True)
class Replay:
    """How a trace is replayed on drives. ``depth`` None: at its recorded times."""

    depth: int | None = None
    map: str | None = None
    state: str = "filled"


@dataclass(frozen=True)
class Manifest:
    """A checked manifest. Paths are as written; ``folder`` is the one that they are relative to."""

    path: str
    folder: str
    sources: tuple[Source, ...]
    output: str
    policies: tuple[str, ...]
    sizes: tuple[str, ...]
    compression: tuple[str, ...]
    drives: tuple[str, ...]
    replay: Replay
    count: str
    memory_bytes: int | None
    workers: int | None

    def error(self, key: str, what: str) -> ManifestError:
        """Returns an error that names this file and a key of it."""
        return ManifestError(f"{self.path}: {key}: {what}")


def load(path: str | os.PathLike[str]) -> Manifest:
    """Reads and checks a manifest.

    Raises:
        ManifestError: it cannot be read, is not TOML, or a key is unknown, missing or wrong.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ManifestError(f"{name}: {reason}; name the manifest of a sweep") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ManifestError(f"{name}: is not TOML: {error}; mend this line") from None
    return _Checker(name).manifest(table)


class _Checker:
    """Checks the values of one file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def error(self, key: str, what: str) -> ManifestError:
        return ManifestError(f"{self.path}: {key}: {what}")

    def manifest(self, table: dict[str, Any]) -> Manifest:
        self.known(table, "", _KEYS)
        drives = self.texts(table, "drives", self.drive, [NO_DRIVE])
        compression = self.texts(table, "compression", self.ratio, [NO_COMPRESSION])
        replay = self.replay(table)
        self.replays(drives, replay)
        return Manifest(
            path=self.path,
            folder=os.path.dirname(os.path.abspath(self.path)),
            sources=self.sources(table),
            output=self.text(table, "output", "", "a folder, or a URL such as s3://bucket/folder"),
            policies=self.texts(table, "policies", self.policy, ["default"]),
            sizes=self.texts(table, "sizes", self.size, None),
            compression=compression,
            drives=drives,
            replay=replay,
            count=self.choice(table, "count", ("all", "reads")),
            memory_bytes=self.memory(table),
            workers=self.workers(table),
        )

    def known(self, table: dict[str, Any], prefix: str, known: Sequence[str]) -> None:
        """Refuses keys that have no meaning. TOML adds keys to the table that began last."""
        for key in table:
            if key in known:
                continue
            what = f"there is no such key; {_near(key, known)}"
            if prefix and key in _KEYS:
                what = "is in a table; write it above the first line in brackets"
            raise self.error(prefix + key, what)

    def text(self, table: dict[str, Any], key: str, prefix: str, what: str) -> str:
        value = table.get(key)
        if value is None:
            raise self.error(prefix + key, f"is missing; write {key} = ..., {what}")
        if not isinstance(value, str) or not value.strip():
            raise self.error(prefix + key, f"is no text; write {what} in quotes")
        return value

    def texts(
        self,
        table: dict[str, Any],
        key: str,
        check: Callable[[str, str], str],
        default: list[str] | None,
    ) -> tuple[str, ...]:
        """Returns a list of different texts, each as ``check`` returns it."""
        values = table.get(key, default)
        if values is None:
            raise self.error(key, f"is missing; write a list, such as {key} = {_EXAMPLES[key]}")
        if not isinstance(values, list) or not values:
            raise self.error(key, f"is no list of values; write {key} = {_EXAMPLES[key]}")
        found: list[str] = []
        for number, value in enumerate(values):
            place = f"{key}[{number}]"
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                value = repr(value)
            if not isinstance(value, str):
                raise self.error(place, f"is no text; write {key} = {_EXAMPLES[key]}")
            value = check(place, value)
            if value in found:
                raise self.error(place, f"'{value}' is in the list twice; remove one")
            found.append(value)
        return tuple(found)

    def choice(self, table: dict[str, Any], key: str, words: tuple[str, ...]) -> str:
        value = table.get(key, words[0])
        if value not in words:
            raise self.error(key, f"{value!r} is not known; write one of {', '.join(words)}")
        return str(value)

    def policy(self, place: str, value: str) -> str:
        known = native.policies()
        if value.lower() not in known:
            raise self.error(place, f"'{value}' is no policy; {_near(value, known)}")
        return value.lower()

    def size(self, place: str, value: str) -> str:
        text = value.strip()
        if text.endswith("%") and share_percent(text) is None:
            raise self.error(place, f"'{value}' is no share; write it like 10% or 0.5%, up to 1000%")
        if not text.endswith("%") and (size_bytes(text) or 0) < native.BLOCK_BYTES:
            message = f"'{value}' is no size of 4 KiB or more; write it like 64M, 1G or 10%"
            raise self.error(place, message)
        return text

    def ratio(self, place: str, value: str) -> str:
        if value.lower() == NO_COMPRESSION:
            return NO_COMPRESSION
        try:
            ratio = float(value)
        except ValueError:
            ratio = 0.0
        if not RATIO_MIN <= ratio <= RATIO_MAX:
            message = f"'{value}' is no ratio; write off, or a number from 1 to 512 such as 2.5"
            raise self.error(place, message)
        return f"{ratio:g}"

    def drive(self, place: str, value: str) -> str:
        name = value.removeprefix("model:")
        if name == NO_DRIVE:
            return name
        known = native.drives()
        if name.split("?")[0] not in known:
            raise self.error(place, f"'{value}' is no modelled drive; {_near(name, known)}")
        return name

    def memory(self, table: dict[str, Any]) -> int | None:
        if "memory" not in table:
            return None
        found = table["memory"]
        value = size_bytes(found) if isinstance(found, str) else None
        if not value:
            message = f"{found!r} is no size; write the memory of a job like memory = \"2G\""
            raise self.error("memory", message)
        return value

    def workers(self, table: dict[str, Any]) -> int | None:
        value = table.get("workers")
        if value is not None and (type(value) is not int or not 1 <= value <= 1024):
            raise self.error("workers", f"{value!r} is no number of processes; write 1 to 1024")
        return value

    def replay(self, table: dict[str, Any]) -> Replay:
        keys = table.get("replay", {})
        if not isinstance(keys, dict):
            raise self.error("replay", "is no table; write [replay] with depth, map or state")
        self.known(keys, "replay.", ("depth", "map", "state"))
        depth, mapping, state = keys.get("depth"), keys.get("map"), keys.get("state", "filled")
        if depth is not None and (type(depth) is not int or not 1 <= depth <= DEPTH_MAX):
            raise self.error("replay.depth", f"{depth!r} is no depth; write 1 to {DEPTH_MAX}")
        if mapping is not None and mapping not in MAPS:
            what = f"{mapping!r} is not known; write one of {', '.join(MAPS)}"
            raise self.error("replay.map", what)
        if not isinstance(state, str) or not state.strip():
            raise self.error("replay.state", "is no text; write \"fresh\" or \"filled\"")
        return Replay(depth, mapping, state)

    def replays(self, drives: tuple[str, ...], replay: Replay) -> None:
        """Refuses settings of drives, and states, that no replay could begin with."""
        for number, drive in enumerate(drives):
            fault = None if drive == NO_DRIVE else native.replay_fault(drive, replay.state)
            if fault is not None:
                key = "replay.state" if fault.startswith("state ") else f"drives[{number}]"
                raise self.error(key, fault)

    def sources(self, table: dict[str, Any]) -> tuple[Source, ...]:
        entries = table.get("traces")
        if isinstance(entries, str) or entries and all(isinstance(one, str) for one in entries):
            entries = [{"path": entries}]
        if not isinstance(entries, list) or not entries:
            what = "is missing; write traces = [\"traces/*.xz\"], or [[traces]] with path = ..."
            raise self.error("traces", what)
        return tuple(self.source(f"traces[{at}].", entry) for at, entry in enumerate(entries))

    def source(self, prefix: str, entry: Any) -> Source:
        if not isinstance(entry, dict):
            raise self.error(prefix[:-1], "is no table; write [[traces]] with path = ...")
        self.known(entry, prefix, ("path", "format", "class"))
        paths = entry.get("path")
        paths = [paths] if isinstance(paths, str) else paths
        if not isinstance(paths, list) or not paths or not all(_is_path(one) for one in paths):
            what = "is no path; write path = \"traces/*.xz\", a URL, or a list of them"
            raise self.error(prefix + "path", what)
        form = entry.get("format")
        known = native.formats()
        if form is not None and form not in known:
            raise self.error(prefix + "format", f"{form!r} is no format; {_near(str(form), known)}")
        workload = entry.get("class", "all")
        if not isinstance(workload, str) or not workload.strip():
            raise self.error(prefix + "class", "is no text; write a name such as \"database\"")
        return Source(tuple(paths), form, workload)


#: Keys of the file itself.
_KEYS = (
    "traces",
    "output",
    "policies",
    "sizes",
    "compression",
    "drives",
    "replay",
    "count",
    "memory",
    "workers",
)

_EXAMPLES = {
    "policies": '["default", "lru", "opt"]',
    "sizes": '["1%", "10%", "1G"]',
    "compression": '["off", "2.5"]',
    "drives": '["none", "samsung-840-evo-250"]',
}


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _near(word: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(word.lower(), known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"choose one of {', '.join(known)}"
