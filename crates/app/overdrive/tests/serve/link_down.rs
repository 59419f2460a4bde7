//! The link to the server of an NBD export is cut and returns, under each policy.

use crate::common::{
    OVERDRIVE, Server, have, have_libnbd, image, is_root, pause, place, python, run, serve_in,
    wait_until,
};
use crate::dice::scaled;
use crate::exporter::Remote;
use crate::home::Home;
use crate::programs::install_script;
use crate::relay::Relay;
use crate::tls::Trust;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const MIB: u64 = 16;

/// Arguments: URI, a file whose existence ends it, the first block, the number of blocks. Reads and
/// writes these blocks, and flushes. Each read must return the last write.
const LOAD: &str = r#"
import nbd, os, random, struct, sys, time
uri, over, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
h = nbd.NBD(); h.connect_uri(uri)
values, done = [0] * count, 0
def data(value): return struct.pack("<Q", value) * 512
while not os.path.exists(over) or done < 100:
    block = random.randrange(count)
    if done % 3 == 0:
        values[block] = done + 1
        h.pwrite(data(done + 1), (first + block) * 4096)
    elif done % 50 == 49: h.flush()
    else:
        found = h.pread(4096, (first + block) * 4096)
        assert found == data(values[block]), (block, values[block], found[:8])
    done += 1
h.flush()
for block in range(count):
    assert h.pread(4096, (first + block) * 4096) == data(values[block]), block
"#;

/// Arguments: URI, a file whose existence ends it. Reads blocks that are not cached, and prints the
/// time after each answer.
const MISSES: &str = r#"
import nbd, os, sys, time
h = nbd.NBD(); h.connect_uri(sys.argv[1])
block = 0
while not os.path.exists(sys.argv[2]):
    h.pread(4096, 8 << 20 | block % 2048 * 4096)
    print(time.monotonic_ns())
    block += 37
"#;

struct Scene {
    place: TempDir,
    raw: PathBuf,
    remote: Remote,
    relay: Relay,
    server: Server,
}

/// Serves an export behind a relay.
fn scene(options: &[&str]) -> Option<Scene> {
    scene_over(None, options)
}

/// Serves an export behind a relay, over TLS if there is a trust.
fn scene_over(trust: Option<&Trust>, options: &[&str]) -> Option<Scene> {
    if !have(&["nbdkit"]) || !have_libnbd() {
        return None;
    }
    let place = place();
    let raw = image(&place, MIB);
    let arguments = ["file", &format!("file={}", text(&raw))];
    let remote = match trust {
        Some(trust) => trust.nbdkit(&arguments),
        None => Remote::nbdkit(&arguments),
    };
    let relay = Relay::start(&remote.socket());
    let uri = match trust {
        Some(trust) => trust.export_at(&relay.socket(), "localhost"),
        None => relay.uri(),
    };
    let server = Server::start(uri, &[&["--memory", "4M"], options].concat());
    Some(Scene { place, raw, remote, relay, server })
}

impl Scene {
    fn over(&self) -> PathBuf {
        self.place.path().join("over")
    }

    fn waits_for(&self, word: &str) {
        wait_until(word, || state(&self.server) == word);
    }

    /// Restarts the server, which reads its certificates again.
    fn restart_server(&mut self) {
        self.relay.cut();
        self.remote.kill();
        self.remote.revive();
        self.relay.mend();
    }

    /// The first flush of a daemon must not be in doubt: an earlier one may have written.
    fn flush(&self) {
        python(
            "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1]); h.flush()",
            &[&self.server.uri],
        )
        .well();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn state(server: &Server) -> String {
    let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
    rows["volumes"][0]["state"].as_str().expect("a word").to_owned()
}

fn link(server: &Server) -> serde_json::Value {
    server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1")["link"].clone()
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Longer than reads wait for a connection with `fail`.
const CUT: Duration = Duration::from_secs(11);

#[test]
fn with_wait_clients_notice_no_cut_and_the_link_is_used_at_once_when_it_returns() {
    let options = ["--link-down", "wait", "--retry-time", "1s", "--guard", "off"];
    let Some(mut scene) = scene(&options) else { return };
    scene.flush();
    let (uri, over) = (scene.server.uri.clone(), scene.over());
    let first_ns = thread::scope(|scope| {
        let load = |first| {
            let (uri, over) = (&uri, &over);
            scope.spawn(move || python(LOAD, &[uri, text(over), first, "1024"]))
        };
        let loads = [load("0"), load("1024")];
        let misses = scope.spawn(|| python(MISSES, &[&uri, text(&over)]));
        let flushes = || {
            let stats = scene.server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
            stats["counters"]["flushes"].as_u64().expect("a counter")
        };
        wait_until("there is a load", || flushes() > 4);
        scene.relay.cut();
        scene.waits_for("link-down");
        pause(CUT);
        assert_eq!(link(&scene.server)["policy"], "wait");
        assert!(link(&scene.server)["down_since_ns"].as_u64() > Some(10_000_000_000));
        scene.relay.mend();
        let mended_ns = monotonic_ns();
        scene.waits_for("serving");
        fs::write(&over, "").expect("room");
        loads.into_iter().for_each(|load| _ = load.join().expect("no panic").well());
        let answers = misses.join().expect("no panic").well().stdout;
        let answers = answers.lines().map(|line| line.parse::<u64>().expect("a number"));
        answers.filter(|at| *at > mended_ns).min().expect("an answer") - mended_ns
    });
    println!("the first read is answered {} ms after the link's return", first_ns / 1_000_000);
    // A busy machine may take longer than the second that is promised.
    assert!(first_ns < 10_000_000_000, "{first_ns} ns");
    let shown = link(&scene.server);
    assert_eq!((&shown["downs"], &shown["down_since_ns"]), (&1.into(), &0.into()));
    scene.server.says("the link to the server of the backing is down: requests that need it wait");
    scene.server.says("is up again");
    scene.server.end().well();
}

#[test]
fn with_wait_clients_notice_no_link_that_flaps() {
    a_link_flaps(None);
}

#[test]
fn over_tls_they_notice_none_either() {
    a_link_flaps(Some(&Trust::new()));
}

fn a_link_flaps(trust: Option<&Trust>) {
    let options = ["--link-down", "wait", "--retry-time", "1s", "--guard", "off"];
    let Some(mut scene) = scene_over(trust, &options) else { return };
    scene.flush();
    let (uri, over) = (scene.server.uri.clone(), scene.over());
    thread::scope(|scope| {
        let load = scope.spawn(|| python(LOAD, &[&uri, text(&over), "0", "2048"]));
        for _ in 0..scaled(6) {
            pause(Duration::from_secs(1));
            scene.relay.cut();
            pause(Duration::from_secs(1));
            scene.relay.mend();
        }
        fs::write(&over, "").expect("room");
        load.join().expect("no panic").well();
    });
    assert_eq!(state(&scene.server), "serving");
    scene.server.end().well();
}

/// A server that is not trusted any more is no server: requests wait, and nothing is lost.
#[test]
fn over_tls_with_wait_clients_wait_until_a_server_has_a_valid_certificate_again() {
    let trust = Trust::new();
    let options = ["--link-down", "wait", "--retry-time", "1s", "--guard", "off"];
    let Some(mut scene) = scene_over(Some(&trust), &options) else { return };
    scene.flush();
    let (uri, over) = (scene.server.uri.clone(), scene.over());
    thread::scope(|scope| {
        let load = scope.spawn(|| python(LOAD, &[&uri, text(&over), "0", "2048"]));
        for issue in [Trust::issue_expired, Trust::issue_for_another_host] {
            pause(Duration::from_secs(1));
            issue(&trust);
            scene.restart_server();
            scene.waits_for("link-down");
            trust.issue_valid();
            scene.restart_server();
            scene.waits_for("serving");
        }
        fs::write(&over, "").expect("room");
        load.join().expect("no panic").well();
    });
    assert_eq!(link(&scene.server)["downs"], 2);
    scene.server.end().well();
}

/// The server executes requests whose answers are held, and may do so again after a cut.
#[test]
fn with_wait_clients_notice_neither_a_slow_link_nor_one_that_is_half_open() {
    let options = ["--link-down", "wait", "--retry-time", "60s", "--guard", "off"];
    let Some(mut scene) = scene(&options) else { return };
    scene.flush();
    let (uri, over) = (scene.server.uri.clone(), scene.over());
    thread::scope(|scope| {
        let load = scope.spawn(|| python(LOAD, &[&uri, text(&over), "0", "2048"]));
        scene.relay.delay(Duration::from_millis(20));
        for is_cut in [false, true] {
            pause(Duration::from_secs(1));
            scene.relay.set_half_open(true);
            pause(Duration::from_secs(2));
            if is_cut {
                scene.relay.cut();
                scene.waits_for("link-down");
            }
            scene.relay.set_half_open(false);
            if is_cut {
                scene.relay.mend();
            }
        }
        scene.waits_for("serving");
        scene.relay.delay(Duration::ZERO);
        fs::write(&over, "").expect("room");
        load.join().expect("no panic").well();
    });
    assert_eq!(link(&scene.server)["downs"], 1, "silence alone is no end of the link");
    scene.server.end().well();
}

/// In a network namespace of its own, whose loopback interface drops packets while it is down.
/// Arguments: the program, a directory, and the file of the reader.
const SILENT: &str = r#"
set -e
ip link set lo up
nbdkit -f -p 10809 -i 127.0.0.1 memory 64M 2>/dev/null &
trap "kill -9 $!" EXIT
export XDG_RUNTIME_DIR=$2
"$1" serve nbd://127.0.0.1/ --write through --memory 4M --link-down wait --retry-time 1s \
    --guard off --run "/usr/bin/python3 $3 \$uri"
"#;

/// Arguments: URI. Reads and writes while the interface is down and up again, and prints the time
/// from its return to the next answer of each kind.
const SILENCE: &str = r#"
import nbd, subprocess, sys, threading, time
is_over, answers = False, ([], [])
def requests(writes):
    h = nbd.NBD(); h.connect_uri(sys.argv[1])
    block = 0
    while not is_over:
        at = block * 4096 + (writes << 24)
        if writes: h.pwrite(block.to_bytes(4096, "little"), at, nbd.CMD_FLAG_FUA)
        else: h.pread(4096, at)
        answers[writes].append(time.monotonic())
        block = (block + 37) % 4096
        time.sleep(0.005)
clients = [threading.Thread(target=requests, args=(writes,)) for writes in (0, 1)]
for client in clients: client.start()
while not all(answers): time.sleep(0.01)
subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
time.sleep(6)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
up = time.monotonic()
while not all(times[-1] > up for times in answers): time.sleep(0.01)
is_over = True
for client in clients: client.join()
for times in answers: print(round(1000 * (min(at for at in times if at > up) - up)))
"#;

#[test]
fn with_wait_clients_notice_no_cut_without_a_sign() {
    let may = is_root() && have(&["nbdkit", "ip", "unshare"]) && have_libnbd();
    if !may {
        println!("skipped: needs root, nbdkit, ip and unshare");
        return;
    }
    let place = place();
    let reader = place.path().join("reader.py");
    fs::write(&reader, SILENCE).expect("room");
    let arguments = [OVERDRIVE, text(place.path()), text(&reader)];
    let ended =
        run("unshare", &[&["-n", "bash", "-c", SILENT, "bash"], &arguments[..]].concat()).well();
    let times = ended.stdout.lines().filter_map(|line| line.parse::<u64>().ok());
    let times: Vec<u64> = times.collect();
    println!("after the link's return: reads {} ms, writes {} ms", times[0], times[1]);
    // A busy machine may take longer than the second that is promised.
    assert!(times.len() == 2 && times.iter().all(|ms| *ms < 10_000), "{times:?}");
}

/// Arguments: URI, `before`, `down` or `after`.
const CLEAN: &str = r#"
import nbd, sys, time
h = nbd.NBD(); h.connect_uri(sys.argv[1])
def errno(command, *arguments):
    start = time.monotonic()
    try: command(*arguments)
    except nbd.Error as error: return error.errno
    finally: assert time.monotonic() - start < 5, "it waits"
if sys.argv[2] == "before":
    h.pwrite(b"A" * 4096, 0); h.flush()
    h.pwrite(b"B" * 4096, 8192)
elif sys.argv[2] == "down":
    assert h.pread(4096, 0) == b"A" * 4096 and h.pread(4096, 8192) == b"B" * 4096
    for refused in [(h.pread, 4096, 1 << 20), (h.pwrite, b"C" * 4096, 0), (h.flush,),
                    (h.pwrite, b"C" * 4096, 4096, nbd.CMD_FLAG_FUA), (h.zero, 4096, 0)]:
        assert errno(*refused) == "EIO", refused
    assert h.pread(4096, 0) == b"A" * 4096
else:
    assert h.pread(4096, 1 << 20) == bytes(4096)
    h.pwrite(b"D" * 4096, 4096); h.flush()
"#;

#[test]
fn with_serve_clean_cached_data_is_read_and_all_else_gets_errors_until_the_link_returns() {
    let options = ["--link-down", "serve-clean", "--retry-time", "1s", "--write", "back-now"];
    let more = ["--dirty-age", "1000s", "--guard", "off"];
    let Some(mut scene) = scene(&[&options[..], &more].concat()) else { return };
    let uri = scene.server.uri.clone();
    python(CLEAN, &[&uri, "before"]).well();
    // An idle volume notices the cut as well, and the return.
    scene.relay.cut();
    scene.waits_for("link-down");
    python(CLEAN, &[&uri, "down"]).well();
    pause(Duration::from_secs(3));
    python(CLEAN, &[&uri, "down"]).well();
    scene.server.volume(&["flush", "relay"]).refused(6, &[]);
    scene.server.volume(&["freeze", "relay"]).refused(6, &[]);
    scene.relay.mend();
    scene.waits_for("serving");
    python(CLEAN, &[&uri, "after"]).well();
    scene.server.end().well();
    let bytes = fs::read(&scene.raw).expect("ours");
    let first = [bytes[0], bytes[4096], bytes[8192]];
    assert_eq!(first, *b"ADB", "nothing is lost that was answered, and nothing refused is done");
}

#[test]
fn with_fail_the_volume_fails_and_the_policy_can_be_changed_before_that() {
    let Some(mut scene) = scene(&["--write", "back-now", "--retry-time", "3s"]) else { return };
    let uri = scene.server.uri.clone();
    python(CLEAN, &[&uri, "before"]).well();
    scene.relay.cut();
    scene.waits_for("link-down");
    scene.server.volume(&["set", "relay", "link-down=serve-clean"]).well();
    python(CLEAN, &[&uri, "down"]).well();
    scene.server.volume(&["set", "relay", "link_down=fail"]).well();
    scene.waits_for("stalled");
    scene.relay.mend();
    scene.waits_for("failed");
    scene.server.volume(&["clear-error", "relay", "--retry"]).well();
    python(CLEAN, &[&uri, "after"]).well();
    scene.server.end().well();
}

#[test]
fn a_stop_without_the_link_ends_and_the_next_daemon_goes_on_with_the_data() {
    let options = ["--link-down", "wait", "--retry-time", "1s", "--write", "back-now"];
    let more = ["--dirty-age", "1000s", "--guard", "off"];
    let Some(mut scene) = scene(&[&options[..], &more].concat()) else { return };
    let uri = scene.server.uri.clone();
    python(CLEAN, &[&uri, "before"]).well();
    scene.relay.cut();
    scene.waits_for("link-down");
    scene.server.volume(&["flush", "relay"]).refused(6, &["link"]);
    scene.server.signal(Signal::TERM);
    let home = scene.server.home.clone();
    scene.server.wait().refused(6, &["the link to the backing is down", "stay retained"]);
    let options = [&["--memory", "4M"], &options[..], &more].concat();
    let refused =
        serve_in(&home, scene.relay.uri(), &[&options[..], &["--run", "exit 99"]].concat());
    refused.refused(3, &["cannot reach the export"]);
    scene.relay.mend();
    let server = Server::start_in(&home, scene.relay.uri(), &options);
    assert_eq!(state(&server), "serving", "it has not failed");
    python(CLEAN, &[&server.uri, "after"]).well();
    server.end().well();
    let bytes = fs::read(&scene.raw).expect("ours");
    assert_eq!([bytes[0], bytes[4096], bytes[8192]], *b"ADB");
}

#[test]
fn an_upgrade_that_is_undone_without_the_server_goes_on_once_the_server_is_back() {
    if !have(&["nbdkit"]) || !have_libnbd() {
        return;
    }
    let (home, place) = (Home::new(), place());
    let raw = image(&place, MIB);
    let mut remote = Remote::nbdkit(&["file", &format!("file={}", text(&raw))]);
    let program = place.path().join("overdrive");
    fs::hard_link(OVERDRIVE, &program).expect("one file system");
    let mut command = Command::new(&program);
    command.args(["serve", &remote.uri(), "--memory", "4M", "--write", "back-now"]);
    command.args(["--dirty-age", "1000s"]);
    let server = Server::spawn_in(&home, command);
    python(CLEAN, &[&server.uri, "before"]).well();
    // The server ends while the new program starts, which then cannot.
    let real = program.with_extension("real");
    fs::hard_link(OVERDRIVE, &real).expect("one file system");
    let pid = remote.child.as_ref().expect("it runs").id();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\nkill -9 {pid}\n\
         exec {} \"$@\" --not-an-option\n",
        real.display()
    );
    install_script(&program, &script);
    thread::scope(|scope| {
        let upgrade = scope.spawn(|| home.overdrive(&["upgrade"]));
        server.says("trying again until it can be served");
        remote.kill();
        remote.revive();
        let refused = upgrade.join().expect("no panic");
        refused.refused(2, &["--not-an-option", "the former program continues"]);
    });
    python(CLEAN, &[&server.uri, "after"]).well();
    server.end().well();
    let bytes = fs::read(&raw).expect("ours");
    assert_eq!([bytes[0], bytes[4096], bytes[8192]], *b"ADB");
}
