//! One volume, many lives of its daemon: no acknowledged data is lost (C5).

use crate::common::{
    OVERDRIVE, Server, have, have_libnbd, image, pause, place, python, run, wait_until,
};
use crate::dice::{Dice, scaled};
use crate::home::Home;
use crate::mounted::{kill_and_restart, plain};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

/// Arguments: URI, first and last stretch of 64 KiB that belong to it, a file that ends the work, a
/// file for its progress. Writes, zeroes, reads and flushes with many commands in flight; all
/// acknowledged data must be read from then on, also through lost connections. A change that was in
/// flight when the connection broke is sent again.
const CLIENT: &str = r#"
import nbd, os, random, sys, time
uri, first, last, end, progress = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
random.seed(first)
STRETCH = 65536
model = {n: bytes(STRETCH) for n in range(first, last)}
def connect():
    for attempt in range(600):
        try:
            h = nbd.NBD(); h.connect_uri(uri); return h
        except nbd.Error: time.sleep(0.05)
    sys.exit("no server listens any more")
def round(h, wanted):
    """Commands at random stretches; notes what is wanted before it is sent."""
    flying = []
    for n in random.sample(range(first, last), 16):
        kind = random.choice("wwwwzr")
        if kind == "r":
            buffer = nbd.Buffer(STRETCH)
            flying.append((h.aio_pread(buffer, n * STRETCH), n, buffer))
            continue
        at, length = random.randrange(128) * 512, 512
        if random.random() < 0.6: at, length = 0, STRETCH
        data = bytes(length) if kind == "z" else random.randbytes(length)
        wanted[n] = model[n][:at] + data + model[n][at + length:]
        if kind == "z": cookie = h.aio_zero(length, n * STRETCH + at)
        else:
            flags = nbd.CMD_FLAG_FUA if random.random() < 0.05 else 0
            cookie = h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), n * STRETCH + at, flags=flags)
        flying.append((cookie, n, None))
    while flying:
        h.poll(1000)
        left = []
        for cookie, n, buffer in flying:
            if not h.aio_command_completed(cookie): left.append((cookie, n, buffer))
            elif buffer is not None:
                if buffer.to_bytearray() != model[n]: sys.exit(f"stretch {n} is not what was written")
            else: model[n] = wanted.pop(n)
        flying = left
    if random.random() < 0.2: h.flush()
def check(h, wanted):
    for n in range(first, last):
        data = h.pread(STRETCH, n * STRETCH)
        if data == model[n]: continue
        if n in wanted:
            # In flight when the connection broke: sector by sector the old or the new.
            for at in range(0, STRETCH, 512):
                piece = data[at:at + 512]
                if piece not in (model[n][at:at + 512], wanted[n][at:at + 512]):
                    sys.exit(f"stretch {n}, byte {at}: neither the old nor the new")
            continue
        sys.exit(f"stretch {n}: an acknowledged write is lost")
h, wanted, rounds = connect(), {}, 0
while not os.path.exists(end):
    try:
        check(h, wanted)
        for n, data in list(wanted.items()):
            h.pwrite(data, n * STRETCH)
            model[n] = data
            del wanted[n]
        while not os.path.exists(end):
            round(h, wanted)
            rounds += 1
            open(progress, "w").write(str(rounds))
    except nbd.Error:
        h = connect()
for attempt in range(100):
    try: check(h, wanted); break
    except nbd.Error: h = connect()
"#;

/// Clients that continue while the daemon is killed or replaced, until they are stopped.
pub(crate) struct Clients {
    children: Vec<Child>,
    place: PathBuf,
}

impl Clients {
    /// Starts this number of clients, each with a separate part of this many MiB.
    pub(crate) fn start(uri: &str, place: &Path, count: u64, mib: u64) -> Clients {
        let part = mib * 16 / count;
        let start = |number: u64| {
            let mut command = Command::new("/usr/bin/python3");
            command.args(["-c", CLIENT, uri]);
            command.args([(number * part).to_string(), ((number + 1) * part).to_string()]);
            command.arg(place.join("end")).arg(place.join(format!("progress{number}")));
            command.spawn().expect("Debian's Python")
        };
        Clients { children: (0..count).map(start).collect(), place: place.to_owned() }
    }

    /// Waits until each has made progress.
    pub(crate) fn go_on(&self) {
        for number in 0..self.children.len() {
            let path = self.place.join(format!("progress{number}"));
            let rounds = || fs::read_to_string(&path).ok()?.parse::<u64>().ok();
            let before = rounds();
            // While the file is written it is empty.
            wait_until("clients go on", || rounds().is_some() && rounds() != before);
        }
    }

    /// Makes each check all data once more, and asserts that none has found a loss.
    pub(crate) fn end(mut self) {
        fs::write(self.place.join("end"), "").expect("room");
        for child in &mut self.children {
            assert!(child.wait().expect("our child").success(), "a client found something lost");
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn clients_in_full_flight_lose_nothing_through_kills() {
    if !have_libnbd() {
        return;
    }
    let mut dice = Dice::new();
    let place = place();
    let image = image(&place, 24);
    let memory = dice.pick(&["8M", "2M", "64M"]);
    let write = dice.pick(&["back-now", "back", "through"]);
    let age = dice.pick(&["200ms", "1000s", "2s"]);
    let threads = dice.pick(&["2", "1", "3"]);
    let options = ["--memory", memory, "--write", write, "--dirty-age", age, "--threads", threads];
    let mut server = Server::start(&image, &options);
    let clients = Clients::start(&server.uri, place.path(), 3, 24);
    clients.go_on();
    server = kill_and_restart(server, 8, &mut dice);
    clients.go_on();
    clients.end();
    let seen = place.path().join("seen");
    run("nbdcopy", &[&server.uri, plain(&seen)]).well();
    server.end().well();
    run("cmp", &[plain(&image), plain(&seen)]).well();
}

/// fio's own checksums: data accepted in one life must be present in the next one.
#[test]
fn fio_verifies_in_the_next_life_what_it_wrote_in_the_one_before() {
    if !have(&["fio"]) {
        return;
    }
    let mut dice = Dice::new();
    let place = place();
    let image = image(&place, 48);
    let options = ["--memory", "24M", "--write", "back-now", "--dirty-age", "1000s"];
    let mut server = Server::start(&image, &options);
    for round in 0..scaled(3) {
        // The engine nbd has no fdatasync: it has one flush.
        let sync = dice.pick(&["--fsync=32", "--fsync=7", "--fsync=0"]);
        let blocks = ["--bssplit=512/30:4k/40:64k/25:1m/5", "--bs=4k", "--bs=512", "--bs=1m"];
        let blocks = dice.pick(&blocks);
        let way = if round % 2 == 0 { "--rw=randwrite" } else { "--rw=write" };
        let uri = format!("--uri={}", server.uri);
        let seed = format!("--randseed={round}");
        let common = ["--name=lives", "--ioengine=nbd", &uri, "--numjobs=2", "--thread=1"];
        let more = ["--size=12M", "--offset_increment=12M", "--iodepth=8", way, blocks, sync];
        let verify = ["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--minimal"];
        let all = [&common[..], &more, &verify, &[&seed]].concat();
        run("fio", &[&all[..], &["--do_verify=0"]].concat()).well();
        server = server.reborn();
        run("fio", &[&all[..], &["--verify_only"]].concat()).well();
    }
    server.end().well();
}

#[test]
fn a_restart_with_other_memory_loses_nothing_and_writes_out_first_only_what_has_no_place() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 24);
    let mut server = Server::start(&image, &["--memory", "8M", "--write", "back-now"]);
    let clients = Clients::start(&server.uri, place.path(), 2, 24);
    for memory in ["16M", "2M", "0", "8M"] {
        clients.go_on();
        let home = server.kill();
        server = Server::start_in(&home, &image, &["--memory", memory, "--write", "back-now"]);
    }
    clients.go_on();
    clients.end();
    assert!(server.stderr().contains("they are on the backing"), "{}", server.stderr());
    server.end().well();
}

#[test]
fn a_restart_with_more_memory_serves_at_once_and_one_with_less_gives_it_back() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 64);
    let serve = |home: &Arc<Home>, memory| {
        // Nothing can be written back: dirty data is served from memory, or not at all.
        let options = ["--memory", memory, "--write", "back-now", "--dirty-age", "1000s"];
        Server::start_in(home, &image, &options)
    };
    let write = "h.pwrite(bytes([7]) * 4096, 40 << 20)";
    let read = "assert h.pread(4096, 40 << 20) == bytes([7]) * 4096";
    let fill = "for n in range(40): h.pread(1 << 20, n << 20)";
    let client = |server: &Server, what: &str| {
        let program = format!("import sys, nbd; h = nbd.NBD(); h.connect_uri(sys.argv[1])\n{what}");
        python(&program, &[&server.uri]).well();
    };
    let memory_of = |server: &Server| {
        let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
        rows["volumes"][0]["memory_bytes"].as_u64().expect("a number")
    };
    let held = |home: &Home| home.holders()[0].held_bytes;
    let server = serve(&Home::new(), "4M");
    client(&server, write);
    assert!(held(&server.home) < 6 << 20, "places are not memory");
    let server = serve(&server.kill(), "48M");
    server.says("they are served");
    assert_eq!(memory_of(&server), 48 << 20);
    assert!(held(&server.home) >= 48 << 20);
    client(&server, read);
    client(&server, fill);
    let server = serve(&server.kill(), "8M");
    assert_eq!(memory_of(&server), 8 << 20);
    client(&server, read);
    assert!(held(&server.home) < 10 << 20, "what is not used any more was given back");
    let said = server.stderr();
    assert!(!said.contains("they are on the backing"), "{said}");
    server.end().well();
}

#[test]
fn a_holder_that_is_killed_is_replaced_and_the_next_kill_loses_nothing() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 24);
    let options = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];
    let mut server = Server::start(&image, &options);
    let clients = Clients::start(&server.uri, place.path(), 1, 24);
    clients.go_on();
    let first = server.home.holders().pop().expect("one").holder_pid;
    let pid = rustix::process::Pid::from_raw(first).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives");
    server.says("its holder has ended; another one was started");
    clients.go_on();
    pause(Duration::from_millis(200));
    server = server.reborn();
    clients.go_on();
    clients.end();
    server.end().well();
}

#[test]
fn nobody_need_read_what_it_says() {
    let place = place();
    let image = image(&place, 24);
    // Its standard output is closed, and its standard error accepts nothing.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>/dev/full", "sh", OVERDRIVE, "serve"]).arg(&image);
    command.args(["--memory", "8M", "--json"]);
    let server = Server::spawn(command);
    let holder = || server.home.holders().pop().map(|held| held.holder_pid);
    let first = holder().expect("one");
    let pid = rustix::process::Pid::from_raw(first).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives");
    wait_until("another holder", || holder().is_some_and(|next| next != first));
    server.end().well();
}
