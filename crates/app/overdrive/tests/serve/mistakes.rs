//! Mistakes of an operator, or commands at the wrong moment, lose no data.

use crate::common::{OVERDRIVE, Server, have_libnbd, image, place, python, serve_in, wait_until};
use crate::home::Home;
use crate::mounted::plain;
use std::fs::{File, OpenOptions};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

const HELD: [&str; 6] = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];

const WRITE: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b"P" * 4096, 0)
"#;
const READ: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1]); assert h.pread(4096, 0) == b"P" * 4096
"#;

/// Returns a home in which a holder retains a block of this image, which no daemon serves.
fn orphaned(place: &TempDir) -> Arc<Home> {
    let server = Server::start(image(place, 16), &HELD);
    python(WRITE, &[&server.uri]).well();
    let home = server.kill();
    wait_until("the volume is orphaned", || {
        home.overdrive(&["volume", "list"]).stdout.contains("orphaned")
    });
    home
}

/// Serves the image again: the written data is present.
fn is_there(home: &Arc<Home>, place: &TempDir) {
    let server = Server::start_in(home, place.path().join("disk.img"), &HELD);
    python(READ, &[&server.uri]).well();
    server.end().well();
}

#[test]
fn nothing_is_given_up_that_was_not_named() {
    if !have_libnbd() {
        return;
    }
    let (place, others) = (place(), crate::common::place());
    let home = orphaned(&place);
    let discard = ["volume", "clear-error", "--discard-dirty"];
    // If its daemon cannot be reached, no other volume is used instead.
    let nowhere = [&discard[..], &["--control", "/tmp/nowhere.sock"]].concat();
    home.overdrive(&nowhere).refused(3, &["nowhere.sock"]);
    // With another served volume of the same name, the name is ambiguous.
    let other = others.path().join("disk.img");
    File::create(&other).and_then(|file| file.set_len(16 << 20)).expect("a sparse image");
    let served = Server::start_in(&home, &other, &["--memory", "8M"]);
    home.overdrive(&discard).refused(2, &["several volumes match", "orphaned", "served"]);
    let named = [&discard[..], &["disk"]].concat();
    home.overdrive(&named).refused(2, &["several volumes match"]);
    served.end().well();
    is_there(&home, &place);
}

#[test]
fn an_orphan_can_be_named_by_its_backing() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let home = orphaned(&place);
    let backing = place.path().join("disk.img");
    let discard = ["volume", "clear-error", "--discard-dirty", plain(&backing)];
    let given_up = home.overdrive(&discard).well();
    assert!(given_up.stdout.contains("4 KiB discarded"), "{}", given_up.stdout);
    wait_until("the holder ends", || home.holders().is_empty());
}

#[test]
fn an_upgrade_that_would_lose_something_is_refused() {
    let home = Home::new();
    let mut command = Command::new(OVERDRIVE);
    command.args(["serve", "ram:16M", "--memory", "0", "--nbd"]);
    command.arg(format!("unix:{}", home.socket().display()));
    let server = Server::run_in(&home, command);
    home.overdrive(&["upgrade"]).refused(2, &["would", "be lost"]);
    server.end().well();
}

#[test]
fn a_smaller_backing_is_refused_while_something_is_kept_for_it_and_a_larger_one_taken() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let home = orphaned(&place);
    let path = place.path().join("disk.img");
    let resize = |mib: u64| {
        let file = OpenOptions::new().write(true).open(&path).expect("ours");
        file.set_len(mib << 20).expect("sparse");
    };
    resize(8);
    for memory in ["8M", "0", "64M"] {
        let options = ["--memory", memory, "--write", "back-now"];
        serve_in(&home, &path, &options).refused(7, &["16777216", "truncate -s"]);
    }
    resize(64);
    is_there(&home, &place);
    // Without a cache, retained data is written back first.
    let server = Server::start_in(&home, &path, &HELD);
    python(WRITE, &[&server.uri]).well();
    let home = server.kill();
    resize(96);
    let server = Server::start_in(&home, &path, &["--memory", "0"]);
    python(READ, &[&server.uri]).well();
    server.end().well();
}
