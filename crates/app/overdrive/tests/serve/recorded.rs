//! `overdrive trace record` of a served volume: above and below its cache, while it serves.

use crate::common::{Ended, Server, have_libnbd, image, place, python, wait_until};
use crate::mounted::plain;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const HELD: [&str; 8] =
    ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s", "--guard", "off"];

/// A recorder of the volume of a server.
struct Recorder {
    child: Child,
    errors: PathBuf,
}

impl Recorder {
    /// Starts one, and waits until it records.
    fn start(server: &Server, output: &Path, more: &[&str]) -> Recorder {
        let arguments = ["trace", "record", "disk", plain(output), "--json"];
        let mut command = server.home.command(&[&arguments, more].concat());
        let errors = output.with_extension("errors");
        command.stdout(Stdio::piped()).stderr(File::create(&errors).expect("room"));
        let child = command.spawn().expect("the binary under test");
        // The file is created after the recorder is switched on.
        wait_until("it records", || output.exists());
        Recorder { child, errors }
    }

    fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    fn wait(self) -> Ended {
        let errors = self.errors.clone();
        let mut ended: Ended = self.child.wait_with_output().expect("ended").into();
        ended.stderr = fs::read_to_string(errors).unwrap_or_default();
        ended
    }

    /// Ends it as Ctrl-C does. Returns its report.
    fn end(self) -> Value {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
        let ended = self.wait().json("overdrive.trace-record/1");
        assert_eq!((&ended["complete"], &ended["dropped"]), (&true.into(), &0.into()), "{ended}");
        ended
    }
}

/// Returns the operation, offset, length and device of each request of a recording, in the order of
/// their arrivals.
fn requests(server: &Server, recording: &Path) -> Vec<(String, u64, u64, String)> {
    let csv = server.home.overdrive(&["trace", "convert", plain(recording), "-", "--to", "csv"]);
    let csv = csv.well().stdout;
    let request = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |index: usize| fields[index].parse().expect("a number");
        (fields[0].to_owned(), number(1), number(2), fields[5].to_owned())
    };
    csv.lines().skip(1).map(request).collect()
}

/// Runs statements of libnbd with the connected handle `h`.
fn client(server: &Server, statements: &str) {
    let program =
        format!("import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1])\n{statements}");
    python(&program, &[&server.uri]).well();
}

#[test]
fn requests_of_clients_and_to_the_backing_are_recorded() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &HELD);
    let output = place.path().join("both.trace.zst");
    client(&server, "h.pread(4096, 8 << 20)");
    let recorder = Recorder::start(&server, &output, &["--at", "both"]);
    let second = place.path().join("second");
    let second = ["trace", "record", "disk", plain(&second)];
    server.home.overdrive(&second).refused(5, &["is being recorded already"]);
    client(
        &server,
        "h.pwrite(b'1' * 65536, 0); h.pwrite(b'2' * 100, 1000, flags=nbd.CMD_FLAG_FUA)\n\
         h.pread(4096, 1 << 20); h.pread(4096, 1 << 20); h.flush()",
    );
    let report = recorder.end();
    client(&server, "h.pread(4096, 9 << 20)");
    assert_eq!(output.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    let found = requests(&server, &output);
    assert_eq!(report["requests"], found.len(), "{report}");
    let at = |device: &str| -> Vec<(&str, u64, u64)> {
        let of_device = found.iter().filter(|request| request.3 == device);
        of_device.map(|(operation, first, bytes, _)| (operation.as_str(), *first, *bytes)).collect()
    };
    // A part of a block is recorded as the sectors around it.
    let expected = [
        ("W", 0, 65536),
        ("WF", 512, 1024),
        ("R", 1 << 20, 4096),
        ("R", 1 << 20, 4096),
        ("F", 0, 0),
    ];
    assert_eq!(at("disk"), expected);
    let below = at("disk.backing");
    let reads = below.iter().filter(|request| (request.0, request.1) == ("R", 1 << 20));
    assert_eq!(reads.count(), 1, "the second read is a hit: {found:?}");
    let written = below.iter().filter(|(operation, ..)| operation.starts_with('W'));
    assert!(written.map(|(_, _, bytes)| bytes).sum::<u64>() >= 65536, "{found:?}");
    assert!(below.iter().any(|(operation, ..)| *operation == "F"), "{found:?}");

    // The switch is off again, and on for the next recorder.
    let next = place.path().join("next.trace");
    let recorder = Recorder::start(&server, &next, &["--at", "below", "--max-bytes", "4M"]);
    client(&server, "h.pread(4096, 10 << 20)");
    recorder.end();
    let found = requests(&server, &next);
    let is_it = |request: &(String, u64, u64, String)| {
        (request.1, &*request.3) == (10 << 20, "disk.backing")
    };
    assert!(found.iter().all(|request| request.1 >= 10 << 20), "{found:?}");
    assert!(found.iter().any(is_it), "{found:?}");
    server.end().well();
}

#[test]
fn a_recording_ends_with_its_client_and_with_its_volume() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &HELD);
    let killed = Recorder::start(&server, &place.path().join("killed"), &[]);
    kill_process(Pid::from_child(&killed.child), Signal::KILL).expect("it runs");
    assert_eq!(killed.wait().status, 137);
    let output = place.path().join("next");
    let refused = || {
        let probe = ["trace", "record", "disk", plain(&output), "--for", "1ms"];
        server.home.overdrive(&probe).status != 0
    };
    wait_until("the switch is off", || !refused());

    let output = place.path().join("detached.zst");
    let recorder = Recorder::start(&server, &output, &[]);
    client(&server, "h.pwrite(b'1' * 4096, 8192)");
    let bare = server.home.command(&["serve", "ram:8M", "--name", "bare", "--memory", "0"]);
    let bare = Server::run_in(&server.home, bare);
    server.volume(&["detach", "disk"]).well();
    // The last volume of its daemon ends it: the recorder waits for another one.
    let server = Server::start_in(&server.home, &image, &HELD);
    wait_until("it goes on", || recorder.errors().contains("another daemon serves it"));
    client(&server, "h.pread(4096, 16384)");
    let report = recorder.end();
    assert_eq!(report["gaps"], 1, "{report}");
    let found = requests(&bare, &output);
    let firsts: Vec<u64> = found.iter().filter(|it| it.0 != "F").map(|it| it.1).collect();
    assert_eq!(firsts, [8192, 16384], "{found:?}");

    let none = place.path().join("none");
    let at_below = ["trace", "record", "bare", plain(&none), "--at", "below"];
    server.home.overdrive(&at_below).refused(1, &["bare: has no cache", "--at above"]);
    let unknown = ["trace", "record", "nothing", plain(&none)];
    server.home.overdrive(&unknown).refused(1, &["nothing: no daemon serves it"]);
    let device = ["trace", "record", "/dev/null", plain(&none), "--at", "below"];
    server.home.overdrive(&device).refused(2, &["--at is for the name of a volume"]);
    assert!(!none.exists());
    server.end().well();
    bare.end().well();
}

#[test]
fn a_recording_goes_on_over_upgrades() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &HELD);
    let output = place.path().join("upgraded.zst");
    let recorder = Recorder::start(&server, &output, &[]);
    for upgrades in 1..=2 {
        client(&server, &format!("h.pwrite(b'1' * 4096, {upgrades} << 20)"));
        server.home.overdrive(&["upgrade"]).well();
        wait_until("it goes on", || {
            recorder.errors().matches("another daemon serves it").count() == upgrades
        });
    }
    client(&server, "h.pread(4096, 3 << 20)");
    let report = recorder.end();
    let gap_ns = report["gap_ns"].as_u64().expect("a number");
    assert!(report["gaps"] == 2 && gap_ns > 0, "{report}");
    assert!(gap_ns < report["duration_ns"].as_u64().expect("a number"), "{report}");
    let found = requests(&server, &output);
    let firsts: Vec<u64> = found.iter().filter(|it| it.0 != "F").map(|it| it.1 >> 20).collect();
    assert_eq!(firsts, [1, 2, 3], "also those just before an upgrade: {found:?}");
    server.end().well();
}

/// A replay whose server is killed keeps the results of the requests before, and marks them.
#[test]
fn a_replay_on_a_target_that_goes_away_keeps_its_beginning() {
    let place = place();
    let server = Server::start("ram:16M", &["--memory", "0"]);
    let trace = place.path().join("long.csv");
    let head = "op,offset,length,time_ns,took_ns,device,process\n".to_owned();
    // Reads for 200 s.
    let lines = (0..20_000u64).map(|number| format!("R,0,4096,{},,a,\n", number * 10_000_000));
    fs::write(&trace, head + &lines.collect::<String>()).expect("written");
    let arguments = ["trace", "replay", plain(&trace), &server.uri, "--read-only", "--json"];
    let mut command = server.home.command(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the binary under test");
    wait_until("requests have arrived", || {
        let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        stats["backing"]["reads"].as_u64().is_some_and(|reads| reads > 20)
    });
    server.kill();
    let ended: Ended = child.wait_with_output().expect("ended").into();
    assert_eq!(ended.status, 6, "{}", ended.stderr);
    assert!(ended.stderr.contains("it failed; the replay is not complete"), "{}", ended.stderr);
    let found: Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert_eq!(found["complete"], false, "{found}");
    assert!(found["requests"].as_u64().is_some_and(|count| count >= 10), "{found}");
    assert!(found["end"].as_str().is_some_and(|end| end.contains("NBD server")), "{found}");
}
