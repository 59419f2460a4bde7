//! `overdrive upgrade`: another program in the same process, clients that reconnect.

use crate::common::{Server, have, have_libnbd, image, place, run, wait_until};
use crate::dice::scaled;
use crate::home::Home;
use crate::lives::Clients;
use crate::mounted::plain;
use crate::programs::{install_overdrive, install_script};
use crate::settings::counter;
use std::process::{Child, Command, Stdio};

#[test]
fn a_daemon_is_upgraded_under_load_and_nothing_is_lost() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 24);
    let options =
        ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s", "--threads", "2"];
    let server = Server::start(&image, &options);
    let clients = Clients::start(&server.uri, place.path(), 2, 24);
    for _ in 0..scaled(4) {
        clients.go_on();
        server.home.overdrive(&["upgrade"]).well();
        clients.go_on();
        let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
        assert_eq!(rows["volumes"][0]["pid"], server.pid().as_raw_nonzero().get());
        assert_eq!(rows["volumes"][0]["state"], "serving");
    }
    clients.end();
    assert_eq!(server.home.holders().len(), 1, "its memory is kept as before");
    server.end().well();
}

#[test]
fn a_daemon_that_would_lose_its_memory_is_not_upgraded() {
    let place = place();
    let image = image(&place, 8);
    let server = Server::start(&image, &["--memory", "2M", "--no-holder"]);
    let refused = server.home.overdrive(&["upgrade"]);
    refused.refused(2, &["no holder retains the memory", "restart the daemon instead"]);
    server.volume(&["flush"]).well();
    server.end().well();
}

#[test]
fn a_second_upgrade_at_the_same_time_is_refused() {
    let (images, programs) = (place(), place());
    let image = image(&images, 8);
    let program = programs.path().join("overdrive");
    install_overdrive(&program);
    let home = Home::new();
    let mut command = Command::new(&program);
    command.arg("serve").arg(&image).args(["--memory", "2M"]);
    let server = Server::spawn_in(&home, command);
    // The next program is tried first. It runs until the test writes to its file.
    let own = home.runtime().join("overdrive");
    let (begun, end) = (own.join("begun"), own.join("end"));
    run("mkfifo", &[plain(&end)]).well();
    let wait = format!("#!/bin/sh\n: > '{}'\nread line < '{}'\n", plain(&begun), plain(&end));
    install_script(&program, &format!("{wait}exit 3\n"));
    let first = std::thread::spawn({
        let home = home.clone();
        move || home.overdrive(&["upgrade"])
    });
    wait_until("the first upgrade has begun", || begun.exists());
    home.overdrive(&["upgrade"]).refused(5, &["is being upgraded or stopped already"]);
    std::fs::write(&end, "go on\n").expect("the program reads it");
    first.join().expect("it ends").refused(2, &["does not run", "not upgraded"]);
    install_overdrive(&program);
    home.overdrive(&["upgrade"]).well();
    server.end().well();
}

/// A client that reconnects by itself, and ends with status 1 at the first error that it receives.
struct Bench(Child);

impl Bench {
    /// Writes with many requests in flight until it is killed.
    fn start(server: &Server) -> Bench {
        let options = format!(
            "driver=nbd,server.type=unix,server.path={},reconnect-delay=60",
            server.socket.display()
        );
        let mut command = Command::new("qemu-img");
        command.args(["bench", "-w", "-c", "100000000", "-d", "64", "-s", "4096", "-S", "69632"]);
        command.args(["--image-opts", &options]).stdout(Stdio::null());
        Bench(command.spawn().expect("it was there"))
    }

    /// Asserts that it is working: the volume has served more requests than before.
    fn goes_on(&mut self, server: &Server) {
        let before = counter(server, "changes");
        wait_until("the client goes on", || {
            assert_eq!(self.0.try_wait().expect("ours"), None, "the client was told of an error");
            counter(server, "changes") > before + 1000
        });
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_client_that_reconnects_receives_no_error_from_upgrades_and_restarts() {
    if !have(&["qemu-img"]) {
        return;
    }
    let place = place();
    let image = image(&place, 64);
    // Slow, so that there is always a request to wait for, and more arrive in between.
    let options = ["--memory", "16M", "--write", "through", "--delay", "write=1ms"];
    let mut server = Server::start(&image, &options);
    let mut bench = Bench::start(&server);
    for _ in 0..scaled(5) {
        bench.goes_on(&server);
        server.home.overdrive(&["upgrade"]).well();
    }
    for _ in 0..scaled(2) {
        bench.goes_on(&server);
        let home = server.home.clone();
        server.end().well();
        server = Server::start_in(&home, &image, &options);
    }
    bench.goes_on(&server);
    drop(bench);
    server.end().well();
}
