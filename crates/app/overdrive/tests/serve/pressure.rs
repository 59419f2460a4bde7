//! Memory pressure: everything that writeback requires stays in memory, even if others take all
//! memory (C5).

use crate::common::{Server, have_libnbd, image, is_root, place, python, wait_until};
use crate::dice::{is_soak, scaled};
use std::process::{Child, Command};

/// Arguments: bytes. Allocates and touches this much memory repeatedly, until it is ended.
const HOG: &str = r#"
import sys
size = int(sys.argv[1])
print("begins", flush=True)
while True:
    taken = bytearray(size)
    taken[::4096] = b"h" * len(taken[::4096])
    del taken
"#;

/// Arguments: URI, round. Makes 8 MiB dirty: less than the quarter at which writeback starts, in
/// pieces that are too short to be written while the device is idle.
const FILL: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
for n in range(144): h.pwrite(bytes([n, int(sys.argv[2]) % 256]) * 30720, n * 262144)
"#;

struct Hog(Child);

impl Hog {
    /// Starts it with the most memory that leaves others a good part of the free memory.
    fn start() -> Hog {
        let text = std::fs::read_to_string("/proc/meminfo").expect("Linux");
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"));
        let kibibytes = line.and_then(|line| line.split_ascii_whitespace().nth(1));
        let available: u64 = kibibytes.and_then(|number| number.parse().ok()).expect("a number");
        // In an ordinary run other tests run at the same time.
        let part = if is_soak() { 10 } else { 5 };
        let bytes = (available * 1024 * part / 16).to_string();
        let mut command = Command::new("timeout");
        command.args(["600", "/usr/bin/python3", "-c", HOG, &bytes]);
        // If memory runs out anyway, the hog is killed first.
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo 1000 > /proc/self/oom_score_adj; exec \"$@\"", "sh"]);
        shell.arg(command.get_program()).args(command.get_args());
        Hog(shell.stdout(std::process::Stdio::null()).spawn().expect("a shell"))
    }

    fn resident_kib(&self) -> u64 {
        // `timeout` is the parent of the process that takes the memory.
        let children = format!("/proc/{0}/task/{0}/children", self.0.id());
        let child = std::fs::read_to_string(children).unwrap_or_default();
        let path = format!("/proc/{}/status", child.trim());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_ascii_whitespace().nth(1));
        kibibytes.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // `timeout` forwards this to its child.
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

#[test]
fn writing_out_takes_no_page_faults_while_others_take_the_memory() {
    if !have_libnbd() {
        return;
    }
    if !is_root() {
        println!("skipped: locking so much memory needs root");
        return;
    }
    let place = place();
    let image = image(&place, 128);
    let options = ["--memory", "64M", "--write", "back-now", "--dirty-age", "1000s"];
    // The thread that records samples has memory of its own, and writeback does not wait for it.
    let more = ["--dirty-bytes", "40M", "--flush-target", "0", "--history", "off"];
    let server = Server::start(&image, &[&options[..], &more].concat());
    assert!(!server.stderr().contains("cannot be locked"), "{}", server.stderr());
    let hog = Hog::start();
    wait_until("the hog has taken much", || hog.resident_kib() > 512 << 10);
    let counted = || {
        let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        let number = |value: &serde_json::Value| value.as_u64().expect("a number");
        (
            number(&stats["process"]["page_faults_major"]),
            number(&stats["process"]["page_faults_minor"]),
            number(&stats["counters"]["blocks_dirty"]),
        )
    };
    // Threads that write out for the first time touch memory of their own.
    python(FILL, &[&server.uri, "0"]).well();
    server.volume(&["pause"]).well();
    server.volume(&["resume"]).well();
    for round in 0..scaled(4) {
        python(FILL, &[&server.uri, &round.to_string()]).well();
        // The memory of the control socket is resident after the first requests.
        counted();
        let (major, minor, dirty) = counted();
        assert!(dirty > 2000, "only {dirty} blocks are dirty: this proves little");
        server.volume(&["pause"]).well();
        let (major_after, minor_after, dirty_after) = counted();
        assert_eq!(dirty_after, 0);
        assert_eq!(major_after, major, "something was read from a disk");
        assert!(minor_after < minor + 32, "{minor} minor faults, then {minor_after}");
        server.volume(&["resume"]).well();
    }
    drop(hog);
    server.end().well();
}
