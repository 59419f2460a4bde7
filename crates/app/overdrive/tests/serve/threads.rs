//! Several threads: each serves some of the connections, and all share one volume.

use crate::common::{Server, have_libnbd, image, place, python, run, serve};
use crate::config::two_volumes;
use crate::home::Home;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;

/// Arguments: URI, connections, rounds, a number to identify it, a file for the expected contents
/// of the volume. Each round, one connection writes a block, and every other one reads it back once
/// the write was answered.
const MEETING: &str = r#"
import nbd, random, struct, sys
uri, count, rounds, number = sys.argv[1], *map(int, sys.argv[2:5])
random.seed(number)
connections = []
for _ in range(count):
    h = nbd.NBD(); h.connect_uri(uri); connections.append(h)
connections[0].flush()
blocks = {}
for turn in range(rounds):
    writer = random.choice(connections)
    block = random.randrange(512)
    if random.random() < 0.1:
        writer.zero(4096, block * 4096)
        blocks[block] = bytes(4096)
    else:
        blocks[block] = struct.pack("<QQ", number, turn) * 256
        writer.pwrite(blocks[block], block * 4096)
    if random.random() < 0.05: random.choice(connections).flush()
    reader = random.choice(connections)
    for at in (block, random.choice(list(blocks))):
        if reader.pread(4096, at * 4096) != blocks[at]:
            sys.exit(f"turn {turn}: block {at} is not what another connection has written")
for h in connections:
    for at, wanted in blocks.items():
        if h.pread(4096, at * 4096) != wanted: sys.exit(f"block {at} at the end")
open(sys.argv[5], "wb").write(b"".join(blocks.get(at, bytes(4096)) for at in range(512)))
"#;

/// Returns the run time of every lane of the server, in nanoseconds, by the name of its thread.
fn ran_ns(server: &Server) -> BTreeMap<String, u64> {
    let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
    let read = |task: std::fs::DirEntry| {
        let text = |name: &str| std::fs::read_to_string(task.path().join(name)).ok();
        let ran = text("schedstat")?.split_ascii_whitespace().next()?.parse().ok()?;
        Some((text("comm")?.trim().to_owned(), ran))
    };
    let all = std::fs::read_dir(tasks).expect("it runs").filter_map(|task| read(task.ok()?));
    // The kernel's own workers have other names.
    all.filter(|(name, _)| name == "overdrive" || name.starts_with("lane-")).collect()
}

#[test]
fn connections_on_several_threads_see_each_others_writes_and_lose_none() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let wanted = place.path().join("wanted");
    let wanted = wanted.to_str().expect("plain");
    for (number, (threads, writeback)) in
        [(3, "back-now"), (2, "back"), (4, "through")].into_iter().enumerate()
    {
        // Zeros, each time.
        let image = image(&place, 2);
        let (threads, number) = (threads.to_string(), number.to_string());
        let options = ["--threads", &threads, "--memory", "1M", "--write", writeback];
        let server = Server::start(&image, &options);
        let shown = server.volume(&["show", "--json"]).json("overdrive.volume/1");
        assert_eq!(shown["threads"].to_string(), threads);
        python(MEETING, &[&server.uri, "6", "600", &number, wanted]).well();
        let ran = ran_ns(&server);
        assert_eq!(ran.len().to_string(), threads, "{ran:?}");
        assert!(ran.values().all(|ran| *ran > 1_000_000), "a thread has served nothing: {ran:?}");
        // Dirty data outlives the process, and the next one has another number of threads.
        let home = server.kill();
        let server = Server::start_in(&home, &image, &["--memory", "1M", "--threads", "1"]);
        run("nbdcopy", &[&server.uri, &format!("{wanted}.read")]).well();
        run("cmp", &[wanted, &format!("{wanted}.read")]).well();
        server.end().well();
        run("cmp", &[wanted, image.to_str().expect("plain")]).well();
    }
}

#[test]
fn numbers_of_threads_are_checked() {
    for (number, words) in [("0", "1 to 64"), ("65", "1 to 64"), ("many", "1 to 64")] {
        serve("ram:1M", &["--threads", number, "--run", "true"]).refused(2, &[words]);
    }
    serve("ram:1M", &["--memory", "1M", "--threads", "9", "--run", "true"]).well();
}

/// A client that has connected and sends nothing retains no volume of its listener, on any thread.
#[test]
fn a_detached_volume_is_let_go_beside_silent_clients() {
    let (home, place) = (Home::new(), place());
    let config = two_volumes(&home, place.path(), "");
    let config = config.to_str().expect("plain");
    let command = ["serve", "--config", config, "--threads", "3"];
    let server = Server::run_in(&home, home.command(&command));
    let silent: Vec<_> = (0..6)
        .map(|_| {
            use std::io::Read;
            let mut client = UnixStream::connect(&server.socket).expect("it listens");
            // It is greeted, so its lane has it.
            client.read_exact(&mut [0; 18]).expect("a greeting");
            client
        })
        .collect();
    let backing = server.volume(&["show", "one", "--json"]).json("overdrive.volume/1");
    let backing = backing["volume"]["backing"].as_str().expect("a path").to_owned();
    server.volume(&["detach", "one"]).well();
    serve(&backing, &["--memory", "1M", "--run", "true"]).well();
    drop(silent);
    server.end().well();
}

/// Arguments: URI, connections, rounds, a file for the expected contents of the volume. Zeros and
/// discards of many regions, and writes over them; a few are sent at a time, and overlapping
/// requests wait.
const REGIONS: &str = r#"
import nbd, os, random, sys
uri, count, rounds, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
random.seed(rounds)
connections = []
for _ in range(count):
    h = nbd.NBD(); h.connect_uri(uri); connections.append(h)
size = connections[0].get_size()
file = os.open(wanted, os.O_RDWR | os.O_CREAT)
os.ftruncate(file, size)
REGION = 4 << 20
for turn in range(rounds):
    h = random.choice(connections)
    # Near the borders of regions, where shards meet.
    first = random.randrange(size // REGION) * REGION + random.choice([0, 4096, 512, REGION - 4096, REGION // 2])
    if random.random() < 0.3:
        length = min(random.choice([1, 3, 9, 30]) * REGION - random.choice([0, 512, 8192]), size - first)
        send = h.zero if random.random() < 0.5 else h.trim
        send(length, first)
        hole = (bytes(REGION) for _ in range(0, length, REGION))
        for at, piece in zip(range(0, length, REGION), hole):
            os.pwrite(file, piece[:length - at], first + at)
    else:
        data = random.randbytes(random.choice([512, 4096, 65536]))[:size - first]
        h.pwrite(data, first)
        os.pwrite(file, data, first)
    if random.random() < 0.1: random.choice(connections).flush()
"#;

#[test]
fn zeros_of_many_regions_are_kept_by_several_shards_through_a_kill() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 512);
    let wanted = place.path().join("wanted");
    let wanted = wanted.to_str().expect("plain");
    let memory = ["--memory", "512M", "--write", "back-now", "--dirty-age", "1000s"];
    let options = [&memory[..], &["--threads", "2"]].concat();
    let server = Server::start(&image, &options);
    python(REGIONS, &[&server.uri, "4", "400", wanted]).well();
    // Dirty data outlives the process.
    let home = server.kill();
    let server = Server::start_in(&home, &image, &options);
    run("nbdcopy", &[&server.uri, &format!("{wanted}.read")]).well();
    run("cmp", &[wanted, &format!("{wanted}.read")]).well();
    server.end().well();
    run("cmp", &[wanted, image.to_str().expect("plain")]).well();
}
