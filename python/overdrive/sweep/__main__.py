"""The command ``python -m overdrive.sweep``, which ``overdrive sweep`` starts."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from types import FrameType

from .errors import ManifestError, SweepError
from .manifest import load
from .progress import Progress, duration
from .run import Summary, Sweep
from .storage import CSV, RESULTS
from .table import json_lines

OK, NEGATIVE, USAGE = 0, 1, 2
#: Reasons that are printed; the results have all.
_SHOWN = 5


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m overdrive.sweep", description=__doc__)
    parser.add_argument("manifest", metavar="MANIFEST")
    parser.add_argument("--on", metavar="dask://HOST:PORT", help="run the jobs on this cluster")
    parser.add_argument("--workers", metavar="N", type=int, help="processes of this machine")
    parser.add_argument("--check", action="store_true", help="check the manifest; run nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    # For the command `overdrive`, which makes the page of them.
    parser.add_argument("--rows-to", metavar="FILE", help=argparse.SUPPRESS)
    return parser


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end_with(parent: int) -> None:
    """Interrupts this process once its parent has ended, also if that was killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def main(words: list[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    options = _arguments().parse_args(words)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    if words is not None:
        # Called by the command `overdrive`, which may be killed.
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    progress = Progress()
    try:
        if options.workers is not None and options.workers < 1:
            raise SweepError(f"--workers {options.workers}: write 1 or more")
        manifest = load(options.manifest)
        sweep = Sweep(manifest, progress)
        if options.check:
            print(f"{manifest.path}: {len(sweep.traces)} traces; the manifest is valid")
            return OK
        summary, table = sweep.run(options.on, options.workers)
    except (ManifestError, SweepError) as error:
        progress.message(f"overdrive: {error}")
        return USAGE
    except KeyboardInterrupt:
        what = "run the same command again to go on"
        progress.message(f"overdrive: interrupted before the results were written; {what}")
        return NEGATIVE
    except OSError as error:
        progress.message(f"overdrive: {error}")
        return NEGATIVE
    if options.rows_to:
        with open(options.rows_to, "w") as file:
            file.write(json.dumps(summary.json()) + "\n" + json_lines(table))
    if options.json:
        print(json.dumps(summary.json()))
    else:
        _print(summary)
    return _end(summary, progress)


def _print(summary: Summary) -> None:
    place = os.path.join(summary.output, RESULTS)
    print(f"jobs       {summary.ran} run, {summary.resumed} from before, {summary.jobs} in all")
    print(f"time       {duration(summary.elapsed_seconds)}, {summary.workers} workers")
    # Without any, the files of an earlier run stay as they are.
    if summary.rows:
        print(f"results    {summary.rows} rows in {place} and {CSV}")


def _end(summary: Summary, progress: Progress) -> int:
    """Prints what is missing. Returns the exit status."""
    for reason in summary.marked[:_SHOWN]:
        progress.message(f"overdrive: {reason}")
    if len(summary.marked) > _SHOWN:
        progress.message(f"overdrive: and {len(summary.marked) - _SHOWN} other reasons")
    if summary.marked_rows:
        progress.message(
            f"overdrive: {summary.marked_rows} of {summary.rows} rows have no figures; "
            "their columns status and error have the reason"
        )
    if summary.noted_traces:
        progress.message(
            f"overdrive: {summary.noted_traces} traces are not complete; the column notes has the facts"
        )
    if not summary.complete:
        done = summary.ran + summary.resumed
        progress.message(
            f"overdrive: {summary.stopped} after {done} of {summary.jobs} jobs; "
            "run the same command again to go on"
        )
    return OK if summary.complete and not summary.marked_rows else NEGATIVE


if __name__ == "__main__":
    sys.exit(main())
