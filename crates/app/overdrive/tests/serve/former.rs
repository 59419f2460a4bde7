//! The program before the arena's format changed, next to this one: all it left is taken over, and
//! commands of either find daemons of the other.
//!
//! `cargo xtask former` builds that program and runs these tests.

use crate::common::{Ended, OVERDRIVE, Server, image, other_disk, place, wait_until};
use crate::home::Home;
use crate::lives::Clients;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const MIB: u64 = 24;
const OPTIONS: [&str; 6] = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];

fn former() -> String {
    std::env::var("OVERDRIVE_FORMER").expect("cargo xtask former sets it")
}

/// Serves an image in a home, with this program.
fn serve(program: &str, home: &Arc<Home>, image: &Path, options: &[&str]) -> Server {
    let mut command = Command::new(program);
    command.arg("serve").arg(image).args(options);
    Server::spawn_in(home, command)
}

/// Runs a command of this program, in a home.
fn command(program: &str, home: &Home, arguments: &[&str]) -> Ended {
    let mut command = Command::new(program);
    command.args(arguments).env("XDG_RUNTIME_DIR", home.runtime());
    command.env("XDG_STATE_HOME", home.state());
    command.output().expect("both were built").into()
}

/// A program at a separate path, where it can be replaced by another.
struct Installed(PathBuf);

impl Installed {
    fn new(place: &Path, program: &str) -> Installed {
        let installed = Installed(place.join("overdrive"));
        installed.replace_by(program);
        installed
    }

    fn replace_by(&self, program: &str) {
        let beside = self.0.with_extension("new");
        fs::copy(program, &beside).expect("room for a program");
        fs::rename(&beside, &self.0).expect("ours");
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

#[test]
#[ignore = "needs the former program: cargo xtask former"]
fn what_the_former_program_left_is_served_and_a_further_kill_loses_nothing() {
    let place = place();
    let image = image(&place, MIB);
    let mut server = serve(&former(), &Home::new(), &image, &OPTIONS);
    let clients = Clients::start(&server.uri, place.path(), 2, MIB);
    for next in [&former(), OVERDRIVE, OVERDRIVE] {
        clients.go_on();
        let home = server.kill();
        server = serve(next, &home, &image, &OPTIONS);
    }
    clients.go_on();
    clients.end();
    server.end().well();
}

#[test]
#[ignore = "needs the former program: cargo xtask former"]
fn what_the_former_program_left_is_written_out_where_other_sizes_are_wanted() {
    let place = place();
    let image = image(&place, MIB);
    let server = serve(&former(), &Home::new(), &image, &OPTIONS);
    let clients = Clients::start(&server.uri, place.path(), 2, MIB);
    clients.go_on();
    let home = server.kill();
    let other = ["--memory", "12M", "--write", "back-now", "--dirty-age", "1000s"];
    let server = serve(OVERDRIVE, &home, &image, &other);
    server.says("they are on the backing now");
    clients.go_on();
    clients.end();
    server.end().well();
}

#[test]
#[ignore = "needs the former program: cargo xtask former"]
fn the_former_program_is_upgraded_under_load() {
    let place = place();
    let image = image(&place, MIB);
    let installed = Installed::new(place.path(), &former());
    let server = serve(installed.path(), &Home::new(), &image, &OPTIONS);
    let clients = Clients::start(&server.uri, place.path(), 2, MIB);
    clients.go_on();
    installed.replace_by(OVERDRIVE);
    // By the command of either.
    command(&former(), &server.home, &["upgrade"]).well();
    clients.go_on();
    command(OVERDRIVE, &server.home, &["upgrade"]).well();
    clients.go_on();
    clients.end();
    server.end().well();
}

#[test]
#[ignore = "needs the former program: cargo xtask former"]
fn the_former_program_refuses_what_this_one_left_and_loses_none_of_it() {
    let place = place();
    let image = image(&place, MIB);
    let home = Home::new();
    let server = serve(OVERDRIVE, &home, &image, &OPTIONS);
    let clients = Clients::start(&server.uri, place.path(), 2, MIB);
    clients.go_on();
    drop(server.kill());
    let image_path = image.to_str().expect("a plain path");
    let arguments = [&["serve", image_path][..], &OPTIONS].concat();
    command(&former(), &home, &arguments).refused(7, &["of another version of Overdrive"]);
    let server = serve(OVERDRIVE, &home, &image, &OPTIONS);
    clients.go_on();
    clients.end();
    server.end().well();
}

#[test]
#[ignore = "needs the former program: cargo xtask former"]
fn what_the_former_program_keeps_is_listed_and_rescued() {
    let place = place();
    let image = image(&place, MIB);
    let server = serve(&former(), &Home::new(), &image, &OPTIONS);
    let clients = Clients::start(&server.uri, place.path(), 1, MIB);
    clients.go_on();
    let home = server.kill();
    let orphaned = || home.holders().iter().all(|holder| holder.owner_pid.is_none());
    wait_until("the holder is an orphan", orphaned);
    let rows = home.overdrive(&["volume", "list", "--json"]).json("overdrive.volumes/1");
    assert_eq!(rows["volumes"][0]["state"], "orphaned");
    assert!(rows["volumes"][0]["dirty_bytes"].as_u64() > Some(0), "{rows}");
    let aside = other_disk();
    let file = aside.path().join("rescued");
    let rescue = ["volume", "clear-error", "disk", "--rescue", file.to_str().expect("plain")];
    home.overdrive(&rescue).well();
    assert!(fs::metadata(&file).expect("saved").len() > 0);
    let server = serve(OVERDRIVE, &home, &image, &OPTIONS);
    clients.go_on();
    clients.end();
    server.end().well();
}

#[test]
#[ignore = "needs the former program: cargo xtask former"]
fn commands_of_either_program_reach_daemons_of_the_other() {
    for (daemon, asking) in [(former(), OVERDRIVE.to_owned()), (OVERDRIVE.to_owned(), former())] {
        let place = place();
        let image = image(&place, MIB);
        let server = serve(&daemon, &Home::new(), &image, &OPTIONS);
        let ask = |arguments: &[&str]| command(&asking, &server.home, arguments).well().stdout;
        assert!(ask(&["volume", "list"]).contains("serving"));
        for verb in ["show", "stats", "flush"] {
            ask(&["volume", verb, "disk"]);
        }
        ask(&["volume", "set", "disk", "dirty_age=2s"]);
        let counters: serde_json::Value =
            serde_json::from_str(&ask(&["volume", "stats", "disk", "--json"])).expect("one object");
        assert!(counters["schema"].is_string(), "{counters}");
        server.end().well();
    }
}
