//! Limits of the process that serves: they cause errors, not its end.

use crate::common::{
    Ended, OVERDRIVE, Server, captive, have, have_libnbd, image, place, python, run,
};
use crate::mounted::plain;
use std::process::Command;

/// Serves an image of 64 MiB by a process that may write no file beyond 32 MiB, for a client's
/// program.
fn limited(options: &[&str], program: &str) -> Ended {
    let place = place();
    let image = image(&place, 64);
    let mut command = Command::new("prlimit");
    command.args(["--fsize=33554432", OVERDRIVE, "serve", plain(&image)]).args(options);
    let server = Server::spawn(command);
    const BEGIN: &str = r#"
import nbd, sys
def error_of(command, *arguments):
    try: command(*arguments)
    except nbd.Error as error: return error.errno
h = nbd.NBD(); h.connect_uri(sys.argv[1])
A, LOW, HIGH = b"A" * 4096, 1 << 20, 40 << 20
"#;
    python(&format!("{BEGIN}{program}"), &[&server.uri]).well();
    server.end()
}

#[test]
fn a_limit_of_file_sizes_is_no_space_for_the_client_and_not_the_end() {
    if !have(&["prlimit"]) || !have_libnbd() {
        return;
    }
    for options in [&["--memory", "0"][..], &["--memory", "4M", "--write", "through"]] {
        let program = r#"
assert error_of(h.pwrite, A, HIGH) == "ENOSPC"
assert error_of(h.pwrite, A, LOW) is None
assert error_of(h.flush) is None
assert h.pread(4096, LOW) == A and h.pread(4096, HIGH) == bytes(4096)
"#;
        limited(options, program).well();
    }
    // The error of data absorbed before is reported at the flush (C8).
    let options = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];
    let program = r#"
assert error_of(h.pwrite, A, HIGH) is None
assert error_of(h.flush) == "ENOSPC"
assert error_of(h.pwrite, A, LOW) is not None, "the volume has failed"
assert h.pread(4096, HIGH) == A
"#;
    let ended = limited(&[&options[..], &["--retry-time", "300ms"]].concat(), program);
    assert_eq!(ended.status, 6, "{}", ended.stderr);
    assert!(ended.stderr.contains("4 KiB of acknowledged writes"), "{}", ended.stderr);
}

#[test]
fn a_limit_of_file_sizes_below_the_memory_is_named() {
    if !have(&["prlimit"]) {
        return;
    }
    let limited = ["--fsize=1048576", OVERDRIVE, "serve", "ram:8M", "--memory", "8M"];
    let refused = run("prlimit", &[&limited[..], &["--run", "exit 99"]].concat());
    refused.refused(2, &["memory for the volume", "ulimit -f"]);
}

#[test]
fn a_captive_command_has_the_signals_that_it_would_have_had() {
    // SIGXFSZ is number 25.
    let script = r#"
ignored=$(grep SigIgn /proc/$$/status | cut -f 2)
test $((0x$ignored >> 24 & 1)) = 0
"#;
    captive("ram:1M", &["--memory", "1M"], script).well();
}
