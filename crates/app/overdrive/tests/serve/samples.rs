//! A daemon records samples of its volumes; `volume history` shows them, also without a daemon.
#![cfg(feature = "history")]

use crate::common::{Server, have_libnbd, image, place, python, wait_until};
use crate::home::Home;
use std::os::unix::fs::PermissionsExt;

const READS: &str = r#"
import nbd, sys, time
h = nbd.NBD(); h.connect_uri(sys.argv[1])
for i in range(120):
    h.pread(4096, i % 8 * 4096)
    time.sleep(0.1)
h.shutdown()
"#;

#[test]
fn samples_are_recorded_over_a_restart_and_shown_without_a_daemon() {
    if !have_libnbd() {
        return;
    }
    let (home, place) = (Home::new(), place());
    let image = image(&place, 16);
    let server = Server::start_in(&home, &image, &["--memory", "8M", "--name", "db"]);
    home.overdrive(&["volume", "history"]).refused(1, &["no volume has been recorded yet"]);
    python(READS, &[&server.uri]).well();
    let recorded = home.state().join("overdrive/samples.sqlite3");
    wait_until("it has recorded ten seconds", || {
        home.overdrive(&["volume", "history", "db", "--json"]).stdout.contains("\"reads\":")
    });
    let mode = std::fs::metadata(&recorded).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    server.end().well();
    let shown = home.overdrive(&["volume", "history", "--last", "10m", "--json"]);
    let object = shown.json("overdrive.volume.history/1");
    let samples = object["samples"].as_array().expect("a list");
    let sum = |key: &str| samples.iter().filter_map(|one| one[key].as_u64()).sum::<u64>();
    // The last seconds were recorded at the end.
    assert_eq!((sum("reads"), sum("read_hits") > 100), (120, true), "{object}");
    let csv = home.overdrive(&["volume", "history", "db", "--csv", "--every", "1s"]).well().stdout;
    assert!(csv.starts_with("at,at_s,reads,read_hits,") && csv.lines().count() > 8, "{csv}");
    home.overdrive(&["volume", "history", "web"])
        .refused(1, &["web: was not recorded; recorded volumes: db"]);
}

const READS_OF_ALL: &str = r#"
import nbd, sys, time
all = [nbd.NBD() for uri in sys.argv[1:]]
for h, uri in zip(all, sys.argv[1:]): h.connect_uri(uri)
for i in range(120):
    for h in all: h.pread(4096, i % 8 * 4096)
    time.sleep(0.1)
"#;

/// Daemons with a file that is chosen, none, a damaged one, and one of a later program.
#[test]
fn the_file_is_chosen_and_one_that_cannot_be_used_disturbs_no_client() {
    if !have_libnbd() {
        return;
    }
    let places = ["chosen", "off", "damaged", "later"].map(|name| (name, place()));
    let servers = places.each_ref().map(|(name, place)| {
        let directory = place.path().join("history");
        let file = directory.join("samples.sqlite3");
        std::fs::create_dir(&directory).expect("room");
        match *name {
            "damaged" => std::fs::write(&file, "no database".repeat(999)).expect("room"),
            "later" => {
                // SQLite's header has the version at 60, and the program's mark at 68.
                drop(history::Samples::open(&file).expect("room"));
                let mut bytes = std::fs::read(&file).expect("just written");
                bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
                std::fs::write(&file, bytes).expect("room");
            }
            _ => {}
        }
        let value = if *name == "off" { "off".to_owned() } else { file.display().to_string() };
        let image = image(place, 16);
        let options = ["--memory", "8M", "--name", name, "--history", &value];
        (Server::start_in(&Home::new(), &image, &options), file)
    });
    let uris = servers.each_ref().map(|(server, _)| server.uri.as_str());
    python(READS_OF_ALL, &uris).well();
    let [chosen, off, damaged, later] = servers;
    let has_samples = |file: &std::path::Path| {
        let samples = history::Samples::open(file).expect("a history");
        !samples.volume_names().expect("read").is_empty()
    };
    for (server, file) in [&chosen, &damaged] {
        wait_until("ten seconds are recorded", || has_samples(file));
        assert!(!server.stderr().contains("not recorded"), "{}", server.stderr());
    }
    let file = chosen.1.display().to_string();
    let shown = off.0.volume(&["history", "chosen", "--history", &file, "--json"]);
    assert!(shown.well().stdout.contains("\"reads\":"));
    damaged.0.says("samples.sqlite3: was damaged; it is");
    later.0.says("by a later version of Overdrive (layout 99; ");
    assert!(!off.1.exists(), "nothing is recorded");
    for (server, _) in [chosen, off, damaged, later] {
        let state = server.home.state().join("overdrive/samples.sqlite3");
        server.end().well();
        assert!(!state.exists(), "the usual file is not used");
    }
}

#[test]
fn a_full_disk_or_a_file_in_the_way_does_not_disturb_clients() {
    if !have_libnbd() {
        return;
    }
    let (home, place) = (Home::new(), place());
    // The state directory cannot be created: a file has its name.
    std::fs::create_dir_all(home.state()).expect("room");
    std::fs::write(home.state().join("overdrive"), "in the way").expect("room");
    let image = image(&place, 16);
    let server = Server::start_in(&home, &image, &["--memory", "8M", "--warm", "off"]);
    python(READS, &[&server.uri]).well();
    wait_until("the daemon reports it", || {
        server.stderr().contains("overdrive: the history is not recorded: ")
    });
    python(&READS.replace("120", "3"), &[&server.uri]).well();
    server.end().well();
}
