//! A flush of the backing in progress when its daemon was killed (C1): its result is lost, and the
//! first flush of every client fails, even after stops, flushes or freezes in between.

use crate::common::{Ended, Server, have_libnbd, image, place, python};
use crate::home::Home;
use std::path::Path;
use std::sync::Arc;

/// Arguments: URI. Writes zeroes, of which no copy is retained, and is killed while it flushes.
const FLUSHING: &str = r#"
import nbd, os, sys, time
h = nbd.NBD(); h.connect_uri(sys.argv[1])
h.zero(4096, 0)
h.aio_flush()
end = time.monotonic() + 1
while time.monotonic() < end: h.poll(50)
os._exit(0)
"#;

/// Arguments: URI. The first flush of a client fails, and no other.
const DOUBTED: &str = r#"
import nbd, sys
for client in range(2):
    h = nbd.NBD(); h.connect_uri(sys.argv[1])
    try: h.flush()
    except nbd.Error as error: assert error.errno == "EIO", error
    else: raise AssertionError("the first flush succeeds")
    h.flush()
"#;

const WORDS: &str = "was killed during a flush of the backing";

/// Kills a daemon of this image during a flush. Returns its home.
fn killed_in_flush(image: &Path) -> Arc<Home> {
    // No flush comes before the client's.
    let faults = ["--faults", "flush=1,count=1000,hang=1000s"];
    let options = ["--memory", "16M", "--write", "through", "--retry-time", "1000s"];
    let server = Server::start(image, &[&options[..], &faults].concat());
    python(FLUSHING, &[&server.uri]).well();
    server.kill()
}

fn reports_doubt(answer: Ended) {
    let answer = answer.well();
    assert!(answer.stdout.contains(WORDS), "{}", answer.stdout);
}

#[test]
fn an_operator_who_flushes_or_freezes_is_informed_of_a_doubt() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let home = killed_in_flush(&image);
    let server = Server::start_in(&home, &image, &["--memory", "16M", "--write", "through"]);
    server.says(WORDS);
    reports_doubt(server.volume(&["flush"]));
    reports_doubt(server.volume(&["flush", "--all"]));
    reports_doubt(server.volume(&["freeze"]));
    server.volume(&["resume"]).well();
    let answer = server.volume(&["flush", "--json"]).json("overdrive.volume-done/1");
    assert_eq!(answer["losses"]["in_doubt"], true);
    python(DOUBTED, &[&server.uri]).well();
    server.end().well();
}

#[test]
fn a_doubt_outlives_an_orderly_stop_and_memory_that_is_given_up() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let home = killed_in_flush(&image);
    let serve = |memory| Server::start_in(&home, &image, &["--memory", memory]);
    serve("16M").end().well();
    // The memory of this daemon records the doubt again.
    _ = serve("16M").kill();
    // Without a cache: that memory is released, and no flush can report the doubt.
    let server = serve("0");
    assert!(server.stderr().contains("without a cache no flush fails"), "{}", server.stderr());
    server.end().well();
    let server = serve("16M");
    python(DOUBTED, &[&server.uri]).well();
    server.end().well();
}
