"""The program under test, by its command line alone, and the processes that it leaves behind."""

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import time


class Program:
    """One volume in a runtime directory of its own. Its environment marks all of its processes."""

    def __init__(self, executable, directory, backing):
        self.executable = executable
        self.backing = backing
        self.mark = f"CHECKER_RUN={os.getpid()}-{time.time_ns()}"
        self.name = f"checker-{os.getpid()}"
        self.runtime = os.path.join(directory, "run")
        self.socket = os.path.join(directory, "nbd")
        self.log_path = os.path.join(directory, "log")
        self.options = []
        self.daemon = None
        key, value = self.mark.split("=")
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=self.runtime, **{key: value})
        self.environment["XDG_STATE_HOME"] = os.path.join(directory, "state")
        os.makedirs(self.runtime, mode=0o700)

    def serve(self):
        """Starts `overdrive serve`; does not wait for it."""
        place = ["--name", self.name, "--nbd", f"unix:{self.socket}"]
        self.daemon = self.start("serve", self.backing, *place, *self.options)

    def start(self, *arguments):
        """Starts a command of the program; returns its process."""
        with open(self.log_path, "ab") as log:
            log.write(f"--- {' '.join(arguments)}\n".encode())
            log.flush()
            return subprocess.Popen(
                [self.executable, *arguments],
                env=self.environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def run(self, *arguments, seconds=60):
        """Runs a command of the program; returns its exit status, that of a kill if it hangs."""
        command = self.start(*arguments)
        try:
            return command.wait(seconds)
        except subprocess.TimeoutExpired:
            command.kill()
            return command.wait()

    def kill_daemon(self):
        """Kills the daemon that `serve` has started. It dies once the disk has answered it."""
        self.daemon.send_signal(signal.SIGKILL)

    def stop(self, seconds=60):
        """Stops the daemon by SIGTERM; returns its exit status."""
        self.daemon.terminate()
        try:
            return self.daemon.wait(seconds)
        except subprocess.TimeoutExpired:
            return "none: it hangs"

    def processes(self):
        """Returns the ids and command lines of all processes of this volume that live."""
        found = {}
        for entry in os.listdir("/proc"):
            if not (entry.isdigit() and self._is_ours(entry)):
                continue
            # It may have ended since.
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    found[int(entry)] = file.read().replace(b"\0", b" ").decode(errors="replace")
        return found

    def _is_ours(self, entry):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                return self.mark.encode() in file.read().split(b"\0")
        except OSError:
            return False

    def supervisors_and_daemons(self):
        """Returns the ids of the supervisors of an attached device, and those of its daemons."""
        processes = self.processes()
        supervisors = [process for process, line in processes.items() if " supervise " in line]
        daemons = [process for process, line in processes.items() if "--foreground" in line]
        return supervisors, [process for process in daemons if process not in supervisors]

    def holders(self):
        """Returns the ids of the processes that keep a device or its memory for the next daemon."""
        return [process for process, line in self.processes().items() if "od-holder" in line]

    def kill(self, processes):
        """Kills processes. None of them acts between the first kill and the last."""
        for sign in (signal.SIGSTOP, signal.SIGKILL):
            for process in processes:
                _send(process, sign)

    def kill_all(self):
        """Kills daemon, supervisor and holders at one moment."""
        self.kill(self.processes())

    def wait_for_end(self, seconds=30):
        """Waits until no process of this volume lives; kills those that have appeared."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.daemon and self.daemon.poll() is not None:
                self.daemon = None
            if self.daemon is None and not self.processes():
                return
            self.kill_all()
            time.sleep(0.005)
        raise RuntimeError(f"processes do not end: {self.processes()}")

    def loop_devices(self):
        """Returns the loop devices over this volume, also those whose file system is gone."""
        found = []
        for path in glob.glob("/sys/block/loop*/loop/backing_file"):
            with contextlib.suppress(OSError), open(path) as file:
                if file.read().rstrip("\n").endswith(f"/{self.name}"):
                    found.append(f"/dev/{path.split('/')[3]}")
        return found

    def forget_device(self):
        """Takes away the kernel's part of an attached device whose processes have ended."""
        for device in self.loop_devices():
            subprocess.run(["losetup", "--detach", device], stderr=subprocess.DEVNULL)
        link = f"/dev/overdrive/{self.name}"
        if os.path.islink(link):
            os.unlink(link)
        directory = os.path.join(self.runtime, "overdrive", "devices", self.name)
        subprocess.run(["umount", "--lazy", directory], stderr=subprocess.DEVNULL)

    def forget_runtime(self):
        """Empties the runtime directory, as a start of the machine does."""
        shutil.rmtree(self.runtime, ignore_errors=True)
        os.makedirs(self.runtime, mode=0o700, exist_ok=True)
        if os.path.exists(self.socket):
            os.unlink(self.socket)

    def log_tail(self, lines=15):
        """Returns the last lines that the program and a device's daemon have printed."""
        found = []
        logs = os.path.join(self.runtime, "overdrive", "logs", "*")
        for path in [self.log_path, *glob.glob(logs)]:
            with contextlib.suppress(OSError), open(path, errors="replace") as file:
                found += _without_repeats(file.read().splitlines())[-lines:]
        return found


def _without_repeats(lines):
    """Returns the lines, and each of those that follow themselves or the second before only once."""
    found = []
    for line in lines:
        if line not in found[-2:]:
            found.append(line)
    return found


def _send(process, sign):
    try:
        os.kill(process, sign)
    except ProcessLookupError:
        pass
