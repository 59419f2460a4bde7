//! A backing with a limited rate.

use crate::common::{Server, have_libnbd, image, place, python, serve};
use crate::lives::Clients;
use std::fs;

/// Arguments: URI, process. Sends eight writes, ends the daemon once it has received all of them,
/// while they wait, and reads all answers.
const END: &str = r#"
import fcntl, nbd, os, signal, struct, sys, termios
h = nbd.NBD(); h.connect_uri(sys.argv[1])
data = lambda n: nbd.Buffer.from_bytearray(bytearray([n + 1] * 4096))
flying = {h.aio_pwrite(data(n), n * 4096) for n in range(8)}
def unsent():
    unread = fcntl.ioctl(h.aio_get_fd(), termios.TIOCOUTQ, bytes(4))
    return h.aio_get_direction() & nbd.AIO_DIRECTION_WRITE or struct.unpack("i", unread)[0]
while len(flying) == 8 or unsent():
    h.poll(10)
    flying = {one for one in flying if not h.aio_command_completed(one)}
os.kill(int(sys.argv[2]), signal.SIGTERM)
while flying:
    h.poll(1000)
    flying = {one for one in flying if not h.aio_command_completed(one)}
"#;

#[test]
fn a_limited_volume_loses_nothing_by_an_upgrade_and_a_kill_and_takes_another_limit() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 24);
    let limited = |limit: &str| format!("limit:{limit}:{}", image.display());
    let options =
        ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s", "--threads", "2"];
    let backing = limited("iops=4000,bandwidth=64M,burst=200ms");
    let server = Server::start(&backing, &options);
    let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
    let row = &rows["volumes"][0];
    assert_eq!((&row["name"], &row["backing"]), (&"disk".into(), &backing.into()));
    let clients = Clients::start(&server.uri, place.path(), 2, 24);
    clients.go_on();
    server.home.overdrive(&["upgrade"]).well();
    clients.go_on();
    // The memory belongs to the image, whatever its limit.
    let home = server.kill();
    let server = Server::start_in(&home, limited("bandwidth=32M"), &options);
    server.says("of acknowledged writes were retained");
    clients.go_on();
    clients.end();
    assert_eq!(home.holders().len(), 1);
    server.end().well();
}

#[test]
fn a_wrong_limit_is_refused_with_the_right_form() {
    for (limit, words) in [
        ("iops=0", "write iops=N, requests per second, from 1 to 1000000000"),
        ("iop=3000", "did you mean 'iops'?"),
        ("bandwidth=125", "from 4K to 1T, as 125M"),
        ("burst=30s", "limits nothing"),
    ] {
        let backing = format!("limit:{limit}:ram:1M");
        serve(&backing, &["--run", "exit 99"]).refused(2, &[&backing, words]);
    }
    serve("limit:iops=3000", &["--run", "exit 99"]).refused(2, &["burst=TIME:BACKING"]);
    let read_only = ["--read-only", "--run", "exit 99"];
    serve("limit:iops=1:model:samsung-840-evo-250", &read_only).refused(2, &["--read-only"]);
}

#[test]
fn a_volume_that_stops_answers_the_requests_that_wait() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 1);
    for memory in ["0", "2M"] {
        let backing = format!("limit:iops=10:{}", image.display());
        let server = Server::start(backing, &["--memory", memory]);
        let pid = server.pid().as_raw_nonzero().to_string();
        python(END, &[&server.uri, &pid]).well();
        server.wait().well();
        let bytes = fs::read(&image).expect("served before");
        assert!((0..8).all(|number| bytes[number * 4096] == number as u8 + 1));
        fs::write(&image, vec![0; 1 << 20]).expect("nobody serves it");
    }
}
