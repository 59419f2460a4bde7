//! Messages of a daemon: their level, and their fields in the journal.

use crate::common::{OVERDRIVE, Server, have_mounts, no_mounts};
use crate::home::Home;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Makes a request that is a message at the level `debug`, and returns the lines of such messages.
fn requests(home: &Home, server: &Server) -> usize {
    home.overdrive(&["volume", "flush", "ram-8M"]).well();
    let log = server.stderr();
    let is_request = |line: &&str| line.contains(" debug overdrive: an operator's request: {");
    log.lines().filter(is_request).filter(|line| line.contains("\"flush\"")).count()
}

#[test]
fn the_level_of_messages_changes_while_the_volume_is_served() {
    let home = Home::new();
    let server = Server::start_in(&home, "ram:8M", &["--memory", "1M"]);
    let set = |level: &str| home.overdrive(&["volume", "set", "ram-8M", level]);
    assert_eq!(requests(&home, &server), 0);
    set("log_level=debug").well();
    assert_eq!(requests(&home, &server), 1);
    let shown = home.overdrive(&["volume", "show", "ram-8M", "--json"]).json("overdrive.volume/1");
    assert_eq!(shown["log_level"], "debug");
    // Refused settings leave the level as it is, and a wrong level the settings.
    home.overdrive(&["volume", "set", "ram-8M", "log-level=error", "write=fast"])
        .refused(2, &["write"]);
    set("log_level=loud").refused(2, &["error, notice or debug"]);
    assert_eq!(requests(&home, &server), 2);
    set("log-level=notice").well();
    assert_eq!(requests(&home, &server), 2);
    server.end().well();
}

#[test]
fn without_a_cache_the_level_changes_too() {
    let home = Home::new();
    let server = Server::start_in(&home, "ram:8M", &["--memory", "0", "--log-level", "debug"]);
    assert_eq!(requests(&home, &server), 1);
    home.overdrive(&["volume", "set", "log_level=error"]).well();
    assert_eq!(requests(&home, &server), 1);
    server.end().well();
}

/// Returns a daemon for which this socket is the journal's.
fn server_with_journal(home: &Arc<Home>, socket: &Path) -> Server {
    let journal = "/run/systemd/journal/socket";
    let script = format!(
        "set -e; mount -t tmpfs none /run; mkdir -p /run/systemd/journal; : > {journal}; \
         mount --bind {} {journal}; exec \"$@\"",
        socket.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script, "sh", OVERDRIVE, "serve", "ram:8M"]);
    command.args(["--memory", "1M"]);
    let errors = fs::File::create(home.path().join("stderr")).expect("a fresh home");
    let found = errors.metadata().expect("it is open");
    command.env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino()));
    Server::spawn_in(home, command)
}

#[test]
fn in_the_journal_a_message_about_a_volume_has_its_name_as_a_field() {
    if !have_mounts() {
        return;
    }
    let _alone = no_mounts();
    let home = Home::new();
    let socket = home.path().join("journal");
    let journal = UnixDatagram::bind(&socket).expect("a fresh home");
    journal.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let server = server_with_journal(&home, &socket);
    home.overdrive(&["volume", "set", "ram-8M", "log_level=debug", "dirty_age=2s"]).well();
    let mut bytes = [0; 4096];
    let length = journal.recv(&mut bytes).expect("a message");
    assert_eq!(
        String::from_utf8_lossy(&bytes[..length]),
        "PRIORITY=7\nSYSLOG_IDENTIFIER=overdrive\nVOLUME=ram-8M\n\
         MESSAGE=ram-8M: set log_level=debug dirty_age=2s\n"
    );
    // It is not in the stream as well.
    assert!(!server.stderr().contains("dirty_age=2s"), "{}", server.stderr());
    // The socket is not read any more; the daemon continues.
    for _ in 0..50 {
        home.overdrive(&["volume", "set", "ram-8M", "dirty_age=3s"]).well();
    }
    server.end().well();
}
