//! Results of clients' requests when the backing fails (C8), by means of `--faults`.

use crate::common::{Ended, Server, captive, have_libnbd, image, place, python, serve};
use std::fs;

/// Common beginning of every client: `told` runs a command and returns the name of its error, or
/// None.
const TOLD: &str = r#"
import errno, nbd, sys
def error_of(command, *arguments):
    try: command(*arguments)
    except nbd.Error as error: return error.errno
h = nbd.NBD(); h.connect_uri(sys.argv[1])
A, B = b"A" * 4096, b"B" * 4096
"#;

fn client(options: &[&str], backing: &str, program: &str) -> Ended {
    let server = Server::start(backing, options);
    python(&format!("{TOLD}{program}"), &[&server.uri]).well();
    server.end()
}

const HELD: [&str; 6] = ["--memory", "4M", "--write", "back-now", "--dirty-age", "1000s"];

fn held(more: &[&'static str]) -> Vec<&'static str> {
    [&HELD[..], more].concat()
}

#[test]
fn a_backing_that_never_flushes_fails_the_flush_and_keeps_the_data_readable() {
    if !have_libnbd() {
        return;
    }
    let options = held(&["--faults", "flush=1", "--retry-time", "300ms"]);
    // In order, they would be written and flushed before the client sends its flush.
    let program = r#"
for n in range(64): h.pwrite(A, n * 8192)
assert error_of(h.flush) == "EIO", "a flush that failed was answered well"
assert error_of(h.flush) == "EIO", "and the next one"
for n in range(64): assert h.pread(4096, n * 8192) == A
assert error_of(h.pwrite, B, 0) == "EIO", "new writes are refused"
assert error_of(h.pwrite, B, 1 << 20) == "EIO"
assert error_of(h.zero, 4096, 0) == "EIO"
assert h.pread(4096, 0) == A
"#;
    let place = place();
    let image = image(&place, 4);
    let ended = client(&options, image.to_str().expect("plain"), program);
    assert_eq!(ended.status, 6, "{}", ended.stderr);
    assert!(ended.stderr.contains("the volume has failed"), "{}", ended.stderr);
    // The holder's own line may come before or after the daemon's last one.
    let lines = ended.stderr.lines().map(host::without_stamp);
    let mut daemons = lines.filter(|line| !line.starts_with("od-holder"));
    let last = daemons.next_back().unwrap_or_default();
    assert!(last.contains("cannot flush"), "{last}");
    assert!(last.contains("256 KiB of acknowledged writes"), "{last}");
}

#[test]
fn an_ordered_flush_does_not_wait_for_the_backing_and_a_stop_writes_all_of_it_out() {
    if !have_libnbd() {
        return;
    }
    let options = held(&["--durability", "ordered", "--delay", "write=0us,flush=500ms"]);
    let program = r#"
import time
began = time.monotonic()
for n in range(8):
    h.pwrite(A, n * 4096)
    h.flush()
h.pwrite(B, 0, nbd.CMD_FLAG_FUA)
assert time.monotonic() - began < 2, "nine flushes have waited for the backing's"
assert h.pread(4096, 0) == B
"#;
    let place = place();
    let image = image(&place, 4);
    let ended = client(&options, image.to_str().expect("plain"), program);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let bytes = fs::read(&image).expect("ours");
    assert!(bytes[..4096].iter().all(|byte| *byte == b'B'));
    assert!(bytes[4096..8 * 4096].iter().all(|byte| *byte == b'A'));
}

#[test]
fn scratch_is_said_at_every_start() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 4);
    let options = held(&["--durability", "scratch"]);
    let ended = client(&options, image.to_str().expect("plain"), "h.pwrite(A, 0); h.flush()");
    assert!(ended.stderr.contains("flushes are ignored"), "{}", ended.stderr);
}

#[test]
fn errors_that_pass_within_the_retry_time_are_healed() {
    if !have_libnbd() {
        return;
    }
    // The first flush of a volume must not fail: data written before it was opened cannot be
    // written again.
    let program = r#"
h.pwrite(B, 0)
assert error_of(h.flush) is None
for n in range(100): h.pwrite(A, n * 4096)
assert error_of(h.flush) is None
h.pwrite(B, 0)
assert error_of(h.flush) is None
"#;
    for faults in ["write=1,count=5", "flush=2,count=3", "write=3,flush=2,count=2,errno=28"] {
        let place = place();
        let image = image(&place, 4);
        let options = [&held(&["--retry-time", "10s", "--faults"])[..], &[faults]].concat();
        let ended = client(&options, image.to_str().expect("plain"), program).well();
        assert!(
            ended.stderr.contains("data in memory stays there and is written again"),
            "{}",
            ended.stderr
        );
        let bytes = fs::read(&image).expect("served");
        assert!(bytes[..4096].iter().all(|&byte| byte == b'B'), "{faults}");
        assert!(bytes[4096..100 * 4096].iter().all(|&byte| byte == b'A'), "{faults}");
    }
}

/// Copies of write-throughs are not kept: if the flush fails, nothing can restore them, and a
/// second flush that succeeds must not hide that.
#[test]
fn a_failed_flush_over_data_that_went_through_is_never_called_good_again() {
    if !have_libnbd() {
        return;
    }
    let program = r#"
h.pwrite(A, 0)
assert error_of(h.flush) == "EIO"
assert error_of(h.flush) == "EIO"
assert h.pread(4096, 0) == A
"#;
    for mode in ["through", "none"] {
        let options = [
            "--memory",
            "4M",
            "--write",
            mode,
            "--faults",
            "flush=1,count=1",
            "--retry-time",
            "5s",
        ];
        let place = place();
        let image = image(&place, 4);
        let ended = client(&options, image.to_str().expect("plain"), program);
        assert_eq!(ended.status, 6, "{mode}: {}", ended.stderr);
        assert!(ended.stderr.contains("since the last flush"), "{}", ended.stderr);
    }
}

#[test]
fn errors_of_single_requests_reach_their_own_client_and_pass() {
    if !have_libnbd() {
        return;
    }
    let program = r#"
assert error_of(h.pwrite, A, 0) == "EIO"
assert error_of(h.pwrite, A, 0) is None
assert error_of(h.pwrite, A, 8192, nbd.CMD_FLAG_FUA) is None
assert error_of(h.pread, 4096, 1 << 20) == "EIO"
assert error_of(h.pread, 4096, 1 << 20) is None
assert h.pread(4096, 0) == A
"#;
    for memory in ["0", "4M"] {
        let faults = "write=1,read=1,count=1";
        let options = ["--memory", memory, "--write", "none", "--faults", faults];
        client(&options, "ram:4M", program).well();
    }
}

#[test]
fn no_space_is_called_by_its_name() {
    if !have_libnbd() {
        return;
    }
    let program = r#"
assert error_of(h.pwrite, A, 0) == "ENOSPC"
assert error_of(h.pwrite, A, 0) is None
"#;
    let options = ["--memory", "0", "--faults", "write=1,count=1,errno=28"];
    client(&options, "ram:4M", program).well();
}

#[test]
fn a_stop_that_cannot_drain_says_so_and_ends() {
    if !have_libnbd() {
        return;
    }
    let options = held(&["--faults", "write=1", "--retry-time", "300ms"]);
    let place = place();
    let image = image(&place, 4);
    let program = "for n in range(16): h.pwrite(A, n * 4096)";
    let ended = client(&options, image.to_str().expect("plain"), program);
    assert_eq!(ended.status, 6, "{}", ended.stderr);
    assert!(ended.stderr.contains("64 KiB of acknowledged writes"), "{}", ended.stderr);
}

#[test]
fn a_captive_commands_status_does_not_hide_a_drain_that_failed() {
    let ended = captive("ram:1M", &["--memory", "1M", "--faults", "flush=1"], "true");
    ended.well();
    let place = place();
    let image = image(&place, 4);
    let options = ["--faults", "flush=1", "--retry-time", "100ms", "-q", "--run", "exit 3"];
    serve(&image, &options).refused(6, &["cannot flush"]);
}

/// C11: until a client has flushed, a write is on the backing when it is answered.
#[test]
fn writes_go_through_until_a_client_has_flushed() {
    if !have_libnbd() {
        return;
    }
    let program = r#"
import os
image = sys.argv[2]
def on_disk(offset):
    file = os.open(image, os.O_RDONLY)
    data = os.pread(file, 4096, offset)
    os.close(file)
    return data
h.pwrite(A, 0)
assert on_disk(0) == A, "absorbed before a flush was seen"
h.flush()
h.pwrite(B, 0)
assert on_disk(0) == A, "a client that flushes is still not trusted"
other = nbd.NBD(); other.connect_uri(sys.argv[1])
h.shutdown()
import time
for attempt in range(100):
    other.pwrite(A, 8192)
    if on_disk(8192) == A: break
    time.sleep(0.05)
    other.pwrite(B, 8192)
else: sys.exit("trusted after the last client that flushes has gone")
assert other.pread(4096, 0) == B
"#;
    let place = place();
    let image = image(&place, 4);
    let options = ["--memory", "4M", "--dirty-age", "1000s"];
    let server = Server::start(&image, &options);
    let arguments = [&server.uri, image.to_str().expect("plain")];
    python(&format!("{TOLD}{program}"), &arguments).well();
    server.end().well();
    assert_eq!(fs::read(&image).expect("served")[..4096], [b'B'; 4096]);
}
