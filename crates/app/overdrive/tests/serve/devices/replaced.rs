//! The program's file is replaced while a device of it is attached.

use super::{Disk, have_devices, text};
use crate::common::{Ended, run};
use crate::programs::{install_overdrive, install_script};
use rustix::process::Pid;
use std::fs;
use std::path::{Path, PathBuf};

/// An installed program, which can be replaced.
struct Installed {
    path: PathBuf,
}

impl Installed {
    fn new(disk: &Disk) -> Installed {
        let installed = Installed { path: disk.home.path().join("overdrive") };
        installed.replace();
        installed
    }

    /// Replaces the file by another one with the same program, as package managers do.
    fn replace(&self) {
        install_overdrive(&self.path);
    }

    /// Replaces the file by a script that does not serve.
    fn replace_by_script(&self, text: &str) {
        install_script(&self.path, text);
    }

    fn run(&self, disk: &Disk, arguments: &[&str]) -> Ended {
        let variable = format!("XDG_RUNTIME_DIR={}", disk.home.runtime().display());
        run("env", &[&[variable.as_str(), text(&self.path)], arguments].concat())
    }

    /// Whether this process runs the file that is installed now.
    fn is_program_of(&self, process: Pid) -> bool {
        let program = fs::read_link(format!("/proc/{}/exe", process.as_raw_nonzero()));
        program.expect("it runs") == self.path
    }
}

/// Kills the daemon; returns the next one.
fn next_daemon(disk: &Disk) -> Pid {
    disk.kill_daemon();
    disk.daemon()
}

#[test]
fn a_daemon_is_started_again_after_its_program_was_replaced() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(16);
    let installed = Installed::new(&disk);
    let attach = ["attach", text(&disk.image), "--name", &disk.name, "--memory", "8M"];
    installed.run(&disk, &attach).well();
    let open = super::lost::Direct::open(&Path::new("/dev/overdrive").join(&disk.name));
    let works = |byte| {
        open.write(0, byte).and_then(|()| open.sync()).expect("no error");
        assert_eq!(open.read(0).expect("no error"), byte);
    };
    installed.replace();
    assert!(installed.is_program_of(next_daemon(&disk)), "the new program: {}", disk.log());
    works(b'1');
    installed.run(&disk, &["upgrade"]).well();
    works(b'2');
    // Also after an upgrade.
    installed.replace();
    installed.run(&disk, &["upgrade"]).well();
    assert!(installed.is_program_of(disk.daemon()), "the new program");
    installed.replace();
    assert!(installed.is_program_of(next_daemon(&disk)), "the new program: {}", disk.log());
    works(b'3');
    // A program that does not serve, or a missing one.
    installed.replace_by_script("#!/bin/sh\nexit 3\n");
    assert!(!installed.is_program_of(next_daemon(&disk)), "the former program");
    works(b'4');
    disk.home.overdrive(&["upgrade"]).refused(2, &["does not run", "not upgraded"]);
    fs::remove_file(&installed.path).expect("ours");
    next_daemon(&disk);
    works(b'5');
    installed.replace();
    installed.run(&disk, &["upgrade"]).well();
    assert!(installed.is_program_of(disk.daemon()), "{}", disk.log());
    works(b'6');
    drop(open);
    installed.run(&disk, &["detach", &disk.name]).well();
}
