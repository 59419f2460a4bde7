//! Holes, data and zeros as clients see them: the context base:allocation.

use crate::common::{Server, have, image, place, run};

/// Returns the map as `nbdinfo --map` prints it: offset, length, type of each stretch.
fn map(server: &Server) -> Vec<(u64, u64, u64)> {
    let ended = run("nbdinfo", &["--map", "--json", &server.uri]).well();
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let number = |entry: &serde_json::Value, key: &str| entry[key].as_u64().expect("a number");
    let entries = value.as_array().expect("a list").iter();
    let entries = entries
        .map(|entry| (number(entry, "offset"), number(entry, "length"), number(entry, "type")));
    entries.collect()
}

/// Returns the type of the stretch at an offset. 0: data; 1: a hole; 2: zeros; 3: a hole that reads
/// as zeros.
fn at(map: &[(u64, u64, u64)], offset: u64) -> u64 {
    let found = map.iter().find(|(first, length, _)| (*first..first + length).contains(&offset));
    found.expect("the map covers the volume").2
}

const HOLE: u64 = 3;
const ZERO: u64 = 2;

#[test]
fn holes_data_and_zeros_are_distinguished_whether_written_out_or_not() {
    if !have(&["nbdinfo", "qemu-io"]) {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    for memory in ["8M", "0"] {
        std::fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("ours");
        let options = ["--memory", memory, "--write", "back-now", "--dirty-age", "1000s"];
        let server = Server::start(&image, &options);
        let before = map(&server);
        assert_eq!(before, [(0, 16 << 20, HOLE)], "a sparse image is one hole");
        let io = |commands: &[&str]| {
            let commands = commands.iter().flat_map(|command| ["-c", command]);
            let all: Vec<_> = ["-f", "raw"].into_iter().chain(commands).collect();
            run("qemu-io", &[&all[..], &[&server.uri]].concat()).well();
        };
        io(&["write -P 1 1M 1M", "write -P 2 4M 64k"]);
        let written = map(&server);
        assert_eq!(at(&written, 1 << 20), 0);
        assert_eq!(at(&written, (2 << 20) - 4096), 0);
        assert_eq!(at(&written, 4 << 20), 0);
        assert_eq!(at(&written, 8 << 20), HOLE);
        io(&["write -z 1M 512k"]);
        let zeroed = map(&server);
        assert_ne!(at(&zeroed, 1 << 20) & ZERO, 0, "{memory}: {zeroed:?}");
        assert_eq!(at(&zeroed, 1536 << 10), 0);
        let covered: u64 = zeroed.iter().map(|(_, length, _)| length).sum();
        assert_eq!(covered, 16 << 20);
        // Copies that use the map have the same bytes.
        let copy = place.path().join("copy");
        let copy = copy.to_str().expect("plain");
        run("nbdcopy", &[&server.uri, copy]).well();
        server.end().well();
        run("cmp", &[image.to_str().expect("plain"), copy]).well();
        std::fs::remove_file(copy).expect("ours");
    }
}
