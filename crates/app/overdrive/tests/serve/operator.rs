//! An operator's view of a volume, and actions on it: `overdrive volume`.

use crate::common::{Server, have, have_libnbd, image, is_root, pause, place, python, run, serve};
use crate::home::Home;
use crate::mounted::{open_to_others, plain};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

const HELD: [&str; 6] = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];

fn state(server: &Server) -> String {
    let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
    rows["volumes"][0]["state"].as_str().expect("a word").to_owned()
}

#[test]
fn a_volume_is_listed_shown_and_counted() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &HELD);
    python(
        "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b'1' * 65536, 0)",
        &[&server.uri],
    )
    .well();
    let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
    let row = &rows["volumes"][0];
    assert_eq!(row["name"], "disk");
    assert_eq!(row["backing"], plain(&image));
    assert_eq!(row["size_bytes"], 16 << 20);
    assert_eq!(row["dirty_bytes"], 65536);
    assert_eq!(row["uri"], server.uri.as_str());
    assert_eq!(row["pid"], server.pid().as_raw_nonzero().get());
    let text = server.volume(&["list"]).well().stdout;
    assert!(text.starts_with("NAME ") && text.lines().count() == 2, "{text}");
    let some = ["list", "--noheadings", "--bytes", "--output", "name,dirty"];
    let text = server.volume(&some).well().stdout;
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["disk", "65536"]);
    let shown = server.volume(&["show", "--json"]).json("overdrive.volume/1");
    assert_eq!(shown["kept"], true);
    assert_eq!(shown["cache"]["memory_bytes"], 8 << 20);
    assert_eq!(shown["cache"]["dirty_age_ns"], 1_000_000_000_000u64);
    let stats = server.volume(&["stats", "disk", "--json"]).json("overdrive.volume-stats/1");
    assert_eq!(stats["counters"]["blocks_dirty"], 16);
    assert_eq!(stats["state"], "serving");
    let flushed = server.volume(&["flush", "--json"]).json("overdrive.volume-done/1");
    assert_eq!(flushed["done"], "flushed");
    let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    assert_eq!(stats["counters"]["blocks_dirty"], 0);
    let people = server.volume(&["stats"]).well().stdout;
    assert!(people.contains("state     serving"), "{people}");
    assert!(server.volume(&["stats", "--explain"]).well().stdout.contains("blocks_dirty"));
    server.end().well();
}

#[test]
fn stats_begin_with_a_verdict_and_show_all_volumes_without_a_name() {
    if !have_libnbd() {
        return;
    }
    const USE: &str = "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1])\n\
                       h.pwrite(b'1' * 65536, 0); h.pread(4096, 0); h.pread(8192, 0); h.flush()";
    let server = Server::start("ram:16M", &["--memory", "8M"]);
    let bare = server.home.command(&["serve", "ram:8M", "--name", "bare", "--memory", "0"]);
    let bare = Server::run_in(&server.home, bare);
    for uri in [&server.uri, &bare.uri] {
        python(USE, &[uri]).well();
    }
    let listed = server.volume(&["list", "--output", "name,hit"]).well().stdout;
    let hits: Vec<&str> = listed.lines().map(str::trim_end).collect();
    assert!(hits[0].starts_with("NAME") && hits[0].ends_with("HIT"), "{listed}");
    assert!(hits[1].ends_with('-') && hits[2].ends_with('%'), "none without a cache: {listed}");
    let people = server.volume(&["stats"]).well().stdout;
    let (first, second) = people.split_once("ram-16M").expect("both, in the order of names");
    assert!(first.starts_with("bare\n  It has no cache"), "{people}");
    assert!(second.starts_with("\n  It uses "), "{people}");
    assert!(second.contains("until a connected client has flushed"), "{people}");
    assert!(!people.contains("blocks_requested"), "counters are for --all: {people}");
    assert!(second.contains("\npolicy    adaptive\n"), "in one word: {people}");
    assert!(!second.contains("guard  ") && !second.contains("window-young"), "{people}");
    let zero = |line: &str| line.ends_with("0          0          0          0          0");
    assert!(!second.lines().any(zero), "no latencies of nothing: {people}");
    let all = server.volume(&["stats", "ram-16M", "--all"]).well().stdout;
    assert!(all.contains("time_saved_ns") && all.contains("summed over reads"), "{all}");
    assert!(all.contains("no bypass") && all.contains("window-young"), "{all}");
    // Without a cache its requests are counted, too.
    let stats = server.volume(&["stats", "bare", "--json"]).json("overdrive.volume-stats/1");
    let backing = &stats["backing"];
    assert_eq!((&backing["reads"], &backing["read_bytes"]), (&2.into(), &12_288.into()));
    assert_eq!((&backing["changes"], &backing["write_bytes"]), (&1.into(), &65_536.into()));
    assert_eq!((&backing["flushes"], &backing["errors"]), (&1.into(), &0.into()));
    let both = server.volume(&["stats", "--json"]).json("overdrive.volumes-stats/1");
    assert_eq!(both["volumes"].as_array().map(Vec::len), Some(2));
    // A latency is reported as buckets, from which any quantile follows, and as the usual
    // quantiles.
    let flushes = &both["volumes"][1]["latencies"]["flush_ns"];
    let buckets = flushes["buckets"].as_array().expect("buckets");
    assert_eq!((&flushes["count"], buckets.len(), &buckets[0][1]), (&1.into(), 1, &1.into()));
    assert!(flushes["p99_ns"].is_u64() && buckets[0][0].as_u64() >= flushes["max_ns"].as_u64());
    bare.end().well();
    server.end().well();
}

#[test]
fn the_time_in_which_clients_wait_is_counted_without_a_cache_too() {
    if !have_libnbd() {
        return;
    }
    const THREE: &str = "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1])\n\
                         for n in range(3): h.pread(4096, n << 19)";
    let server = Server::start("ram:16M", &["--memory", "0", "--delay", "read=20ms"]);
    let busy_ns = || {
        let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        stats["busy_ns"].as_u64().expect("a sum")
    };
    assert_eq!(busy_ns(), 0);
    python(THREE, &[&server.uri]).well();
    let sum_ns = busy_ns();
    assert!(sum_ns >= 3 * 20_000_000, "{sum_ns}");
    assert_eq!(busy_ns(), sum_ns, "no client waits");
    server.end().well();
}

#[test]
fn a_flush_that_takes_long_reports_how_far_it_is() {
    if !have_libnbd() {
        return;
    }
    // 24 blocks far apart, an epoch each: 24 writes, one after the other.
    const EPOCHS: &str = "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1])\n\
                          for n in range(24): h.pwrite(b'1' * 4096, n << 19); h.flush()";
    let slow = ["--delay", "read=1us,write=200ms,flush=1us", "--durability", "ordered"];
    let server = Server::start("ram:16M", &[&HELD[..], &slow].concat());
    python(EPOCHS, &[&server.uri]).well();
    let flushed = server.volume(&["flush"]).well();
    assert_eq!(flushed.stdout, "ram-16M flushed\n");
    let stderr = &flushed.stderr;
    assert!(
        stderr.contains("ram-16M: ") && stderr.contains("are left to be written back, about"),
        "{stderr}"
    );
    python(EPOCHS, &[&server.uri]).well();
    let detached = server.volume(&["detach"]).well();
    assert!(detached.stderr.contains("left to be written back, about"), "{}", detached.stderr);
    server.wait().well();
}

#[test]
fn rates_are_watched_until_nothing_reads_them() {
    let server = Server::start("ram:16M", &["--memory", "8M"]);
    let watch = |options: &str| {
        let variable = format!("XDG_RUNTIME_DIR={}", server.home.runtime().display());
        let line = format!("env {variable} \"$0\" volume stats {options} | head -n 3");
        run("sh", &["-c", &line, crate::common::OVERDRIVE]).well().stdout
    };
    let people = watch("--watch 0.05");
    assert!(people.starts_with("VOLUME") && people.contains("READS/S"), "{people}");
    assert_eq!(people.lines().filter(|line| line.starts_with("ram-16M ")).count(), 2, "{people}");
    for line in watch("ram-16M --json --watch 50ms").lines() {
        let rates: serde_json::Value = serde_json::from_str(line).expect("an object a line");
        assert_eq!(rates["schema"], "overdrive.volume-rates/1");
        assert_eq!(rates["counters_per_second"]["changes"], 0.0);
    }
    server.volume(&["stats", "--watch", "0"]).refused(2, &["--watch", "0.05"]);
    let mut watching = server.home.command(&["volume", "stats", "--watch", "50ms", "--json"]);
    let watching = watching.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    pause(Duration::from_millis(300));
    server.end().well();
    let ended = watching.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(3) && said.contains("ram-16M: "), "{said}");
}

#[test]
fn exit_statuses_say_what_is_wrong() {
    let home = Home::new();
    let listed = home.overdrive(&["volume", "list"]).well().stdout;
    assert!(listed.starts_with("NAME") && listed.lines().count() == 1, "{listed}");
    let listed = home.overdrive(&["volume", "list", "--json"]).json("overdrive.volumes/1");
    assert_eq!(listed["volumes"], serde_json::json!([]));
    for command in ["flush", "stats", "show", "pause", "freeze", "resume", "detach"] {
        let refused = home.overdrive(&["volume", command]);
        refused.refused(3, &["no daemon of this user runs", "overdrive serve"]);
    }
    home.overdrive(&["upgrade"]).refused(3, &["no daemon"]);
    let server = Server::start("ram:8M", &["--memory", "1M"]);
    server.volume(&["flush", "other"]).refused(1, &["other", "volume list"]);
    server.volume(&["resume"]).refused(1, &["neither paused nor frozen"]);
    server.volume(&["clear-error", "--retry"]).refused(1, &["is serving, not failed"]);
    server.volume(&["clear-error"]).refused(2, &["--retry", "--rescue"]);
    server.volume(&["list", "--output", "colour"]).refused(2, &["colour", "backing"]);
    server.volume(&["no-such-command"]).refused(2, &["no-such-command"]);
    let control = ["list", "--control", "/no/such/socket"];
    server.volume(&control).refused(3, &["/no/such/socket"]);
    // Two daemons: the volume must be named.
    let second = server.home.command(&["serve", "ram:4M", "--name", "second", "--memory", "1M"]);
    let second = Server::run_in(&server.home, second);
    server.volume(&["flush"]).refused(2, &["several volumes match", "second"]);
    server.volume(&["flush", "second"]).well();
    second.end().well();
    server.end().well();
}

/// Arguments: URI, image, data to write, whether it is on the backing then.
const WRITE: &str = r#"
import mmap, nbd, os, sys
uri, image, byte, expected = sys.argv[1:]
h = nbd.NBD(); h.connect_uri(uri)
data = byte.encode() * 4096
h.pwrite(data, 0)
assert h.pread(4096, 0) == data
page = mmap.mmap(-1, 4096)
file = os.open(image, os.O_RDONLY | os.O_DIRECT)
os.preadv(file, [page], 0)
found = "there" if bytes(page) == data else "not yet"
assert found == expected, f"{byte} is {found}"
"#;

#[test]
fn a_paused_volume_passes_everything_through_until_it_is_resumed() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &HELD);
    let write = |byte: &str, expected: &str| {
        python(WRITE, &[&server.uri, plain(&image), byte, expected]).well();
    };
    write("1", "not yet");
    server.volume(&["pause"]).well();
    assert_eq!(state(&server), "paused");
    assert!(fs::read(&image).expect("ours")[..4096] == [b'1'; 4096], "paused and not written out");
    write("2", "there");
    let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    assert_eq!(stats["counters"]["blocks_dirty"], 0);
    // Repeating it has no further effect.
    server.volume(&["pause"]).well();
    server.volume(&["resume"]).well();
    assert_eq!(state(&server), "serving");
    write("3", "not yet");
    server.end().well();
    assert!(fs::read(&image).expect("ours")[..4096] == [b'3'; 4096]);
}

#[test]
fn a_detached_volume_is_written_out_and_free_and_the_last_one_ends_the_daemon() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &HELD);
    const STAY: &str = r#"
import nbd, os, subprocess, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
h.pwrite(b"d" * 65536, 0)
subprocess.run([sys.argv[2], "volume", "detach"], check=True)
try: h.pread(4096, 0)
except nbd.Error: pass
else: sys.exit("a client of a detached volume is still served")
"#;
    let program = format!(
        "import os\nos.environ['XDG_RUNTIME_DIR'] = '{}'\n{STAY}",
        server.home.runtime().display()
    );
    python(&program, &[&server.uri, crate::common::OVERDRIVE]).well();
    let home = server.home.clone();
    server.wait().well();
    assert!(fs::read(&image).expect("ours")[..65536] == [b'd'; 65536]);
    assert_eq!(home.holders().len(), 0, "nothing is left to be kept");
    serve(&image, &["-q", "--run", "true"]).well();
}

#[test]
fn other_users_are_refused_even_where_the_directories_let_them_in() {
    if !is_root() || !have(&["setpriv", "nbdinfo"]) {
        println!("skipped: needs root, to become another user");
        return;
    }
    let server = Server::start("ram:8M", &["--memory", "1M"]);
    let home = &server.home;
    let daemons = home.runtime().join("overdrive/daemons");
    for path in [home.path(), &home.runtime(), &home.runtime().join("overdrive"), &daemons] {
        open_to_others(path);
    }
    let nobody = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"];
    let as_nobody = |command: &[&str]| run("setpriv", &[&nobody, command].concat());
    let refused = as_nobody(&["nbdinfo", "--size", &server.uri]);
    assert_ne!(refused.status, 0, "a stranger reads the volume: {}", refused.stdout);
    // Also if the mode of the socket permits them.
    let control = daemons.join(format!("{}.sock", server.pid().as_raw_nonzero()));
    run("chmod", &["0666", plain(&control)]).well();
    let program = home.path().join("overdrive");
    fs::copy(crate::common::OVERDRIVE, &program).expect("room");
    let ask = [plain(&program), "volume", "list", "--control", plain(&control)];
    let refused = as_nobody(&ask);
    assert!([3, 4].contains(&refused.status), "{} {}", refused.status, refused.stdout);
    assert_eq!(refused.stdout, "");
    run("nbdinfo", &["--size", &server.uri]).well();
    server.end().well();
}

#[test]
fn a_service_manager_is_informed_when_clients_can_connect_and_when_it_ends() {
    let home = Home::new();
    let path = home.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a fresh home");
    manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a valid time");
    let mut command = home.command(&["serve", "ram:8M", "--memory", "1M"]);
    command.env("NOTIFY_SOCKET", &path);
    let server = Server::run_in(&home, command);
    let next_state = || {
        let mut bytes = [0; 100];
        let length = manager.recv(&mut bytes).expect("a word");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!(next_state(), "READY=1");
    server.end().well();
    assert_eq!(next_state(), "STOPPING=1");
}

#[test]
fn memory_that_is_no_volumes_is_refused_as_damaged() {
    if !is_root() || !have_libnbd() {
        println!("skipped: needs root, to damage another process's memory");
        return;
    }
    use std::os::unix::fs::FileExt;
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &HELD);
    python(
        "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b'1' * 65536, 0)",
        &[&server.uri],
    )
    .well();
    let home = server.kill();
    let holder = home.holders().pop().expect("it keeps what is dirty");
    assert_eq!(holder.dirty_blocks, 16);
    let descriptors = fs::read_dir(format!("/proc/{}/fd", holder.holder_pid)).expect("it lives");
    let is_memory = |path: &std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("memfd:"))
    };
    let memory = descriptors.flatten().map(|entry| entry.path()).find(is_memory).expect("a memfd");
    let memory = fs::File::options().write(true).open(memory).expect("root may");
    memory.write_all_at(&[0x5a; 4096], 0).expect("it can be written");
    let refused = crate::common::serve_in(&home, &image, &["-q", "--run", "true"]);
    refused.refused(7, &["disk.img"]);
}

#[test]
fn no_name_moves_a_terminals_cursor_or_splits_a_line() {
    let place = place();
    let odd = "a\nb\u{1b}[2J\u{9b}1m";
    let image = place.path().join(format!("{odd}.img"));
    fs::File::create(&image).and_then(|file| file.set_len(8 << 20)).expect("sparse");
    let server = Server::start(&image, &["--memory", "1M"]);
    let is_plain = |text: &str| !text.chars().any(|letter| letter.is_control() && letter != '\n');
    let list = server.volume(&["list"]).well().stdout;
    assert!(list.lines().count() == 2 && is_plain(&list), "{list:?}");
    let escaped = "a\\nb\\u001b[2J\\u009b1m";
    assert!(list.lines().nth(1).is_some_and(|row| row.starts_with(escaped)), "{list:?}");
    // In JSON the names are unchanged.
    let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
    assert_eq!(rows["volumes"][0]["name"], odd);
    assert_eq!(rows["volumes"][0]["backing"], plain(&image));
    for arguments in [&["show", odd][..], &["stats", odd], &["flush", odd]] {
        let output = server.volume(arguments).well();
        assert!(is_plain(&output.stdout), "{arguments:?}: {:?}", output.stdout);
        assert!(!output.stdout.contains("a\nb"), "{arguments:?}: {:?}", output.stdout);
    }
    let missing = place.path().join(format!("missing{odd}"));
    for (arguments, status) in [
        (&["volume", "show", plain(&missing)][..], 1),
        (&["drive", "health", plain(&missing)], 1),
        (&["sim", "--memory", "1M", "--trace", plain(&missing)], 1),
        (&["serve", plain(&missing), "--memory", "1M"], 1),
        (&["bench", "cdm", plain(&missing)], 1),
    ] {
        let ended = server.home.overdrive(arguments);
        assert!(is_plain(&ended.stderr), "{arguments:?}: {:?}", ended.stderr);
        ended.refused(status, &[escaped]);
    }
    for arguments in [
        &["volume", "list", odd][..],
        &["serve", "ram:8M", "--memory", odd],
        &["sim", "--trace", "x", &format!("--memory=1M,{odd}")],
        &["bench", odd],
    ] {
        let wrong = server.home.overdrive(arguments);
        assert_eq!(wrong.status, 2, "{arguments:?}: {}", wrong.stderr);
        assert!(is_plain(&wrong.stderr), "{arguments:?}: {:?}", wrong.stderr);
        assert!(wrong.stderr.contains(escaped), "{arguments:?}: {:?}", wrong.stderr);
    }
    let ended = server.end().well();
    assert!(is_plain(&ended.stderr) && !ended.stderr.contains("a\nb"), "{:?}", ended.stderr);
}
