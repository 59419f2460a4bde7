//! A backing that does not answer (C8): nothing hangs with it.

use crate::common::{Server, have_libnbd, image, place, python, wait_until};
use crate::mounted::plain;
use std::fs;

/// Arguments: URI. The fifth write of the backing hangs. Prints the duration of each step.
const HANG: &str = r#"
import nbd, sys, time
def error_of(command, *arguments):
    try: command(*arguments)
    except nbd.Error as error: return error.errno
def timed(most, command, *arguments):
    start = time.monotonic()
    result = error_of(command, *arguments)
    took = time.monotonic() - start
    assert took < most, f"{command.__name__} took {took:.1f} s"
    return result
h = nbd.NBD(); h.connect_uri(sys.argv[1])
def block(n): return bytes([n % 250 + 1]) * 4096
# The backing takes the first, is flushed, and hangs soon after.
h.pwrite(block(0), 0)
assert error_of(h.flush) is None
for n in range(200): h.pwrite(block(n), n * 8192)
assert timed(15, h.flush) == "EIO", "a flush that hangs is not answered"
for n in range(200): assert h.pread(4096, n * 8192) == block(n), f"block {n} is not read from memory"
assert timed(2, h.pwrite, block(7), 0) == "EIO", "a new write is taken"
assert timed(2, h.flush) == "EIO"
assert timed(2, h.pread, 4096, 0) is None
"#;

#[test]
fn a_backing_that_hangs_gives_errors_in_time_and_is_tried_again_when_it_answers() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let options = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];
    let more = ["--retry-time", "1s", "--faults", "write=5,count=4,hang=15s"];
    let server = Server::start(&image, &[&options[..], &more].concat());
    let before = resident_mib(&server);
    python(HANG, &[&server.uri]).well();
    let state = || {
        let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
        rows["volumes"][0]["state"].as_str().expect("a word").to_owned()
    };
    assert!(["stalled", "failed"].contains(&state().as_str()), "{}", state());
    assert!(resident_mib(&server) < before + 64, "memory grows while it hangs");
    wait_until("the backing answers again", || state() == "failed");
    let retry = ["clear-error", "--retry"];
    wait_until("what hung has ended", || server.volume(&retry).status == 0);
    assert_eq!(state(), "serving");
    const WELL: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
for n in range(200): assert h.pread(4096, n * 8192) == bytes([n % 250 + 1]) * 4096
h.pwrite(b"w" * 4096, 4096); h.flush()
"#;
    python(WELL, &[&server.uri]).well();
    server.end().well();
    let bytes = fs::read(plain(&image)).expect("ours");
    for n in 0..200usize {
        let byte = (n % 250 + 1) as u8;
        assert!(bytes[n * 8192..][..4096].iter().all(|&found| found == byte), "block {n}");
    }
}

/// Arguments: URI. Twelve clients write more than the server admits, and the backing hangs. They
/// only get EIO, and none loses its connection.
const OVERRUN: &str = r#"
import nbd, sys, time
clients = [nbd.NBD() for number in range(12)]
for h in clients: h.connect_uri(sys.argv[1])
size = 32 << 20
data = nbd.Buffer.from_bytearray(bytearray(b"w" * size))
for index, h in enumerate(clients):
    # Apart from one another: what waits for others is not begun, and so not counted.
    h.flying = [h.aio_pwrite(data, (index * 3 + number) * size) for number in range(3)]
def errno(h, cookie):
    try: return None if h.aio_command_completed(cookie) else "flying"
    except nbd.Error as error: return error.errno
refused, start = 0, time.monotonic()
while any(h.flying for h in clients):
    assert time.monotonic() < start + 30, "writes are not answered"
    for h in clients:
        h.poll(1)
        told = [(cookie, errno(h, cookie)) for cookie in h.flying]
        h.flying = [cookie for cookie, error in told if error == "flying"]
        assert all(error in (None, "EIO", "flying") for _, error in told), told
        refused += sum(error == "EIO" for _, error in told)
assert refused == 36, f"only {refused} writes were refused"
def reads(h):
    for attempt in range(300):
        try: return h.pread(4096, 0)
        except nbd.Error as error: assert error.errno == "EIO", error
        time.sleep(0.1)
    sys.exit("it is never read again")
for h in clients: assert len(reads(h)) == 4096
"#;

#[test]
fn more_than_the_server_lets_in_over_a_backing_that_hangs_closes_no_connection() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 1152);
    let options = ["--memory", "8M", "--retry-time", "3s", "--faults", "write=1,count=99,hang=8s"];
    let server = Server::start(&image, &options);
    python(OVERRUN, &[&server.uri]).well();
}

fn resident_mib(server: &Server) -> u64 {
    crate::crowd::resident_kib(server) / 1024
}
