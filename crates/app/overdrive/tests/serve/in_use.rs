//! Every command that opens a file or device refuses one that is in use, below it or above it.

use crate::backings::Loop;
use crate::common::{Ended, Server, image, no_namespaces, place, serve_in};
use crate::home::Home;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

fn text(path: &Path) -> &str {
    path.to_str().expect("a test's path is text")
}

/// Runs every command that opens a file or device to serve, attach or overwrite it, or as a pool's
/// member.
fn every_command(home: &Arc<Home>, target: &str) -> Vec<(&'static str, Ended)> {
    let other = home.path().join("other.img");
    fs::write(&other, vec![0; 16 << 20]).expect("room");
    let pool = format!("pool:{target},{}", text(&other));
    let serve = |backing: &str| serve_in(home, backing, &["-q", "--run", "exit 99"]);
    let name = format!("in-use-{}", std::process::id());
    let overdrive = |arguments: &[&str]| home.overdrive(arguments);
    vec![
        ("serve", serve(target)),
        (
            "serve without a cache",
            serve_in(home, target, &["-q", "--memory", "0", "--run", "exit 99"]),
        ),
        ("serve a pool of it", serve(&pool)),
        ("attach", overdrive(&["attach", target, "--name", &name, "--memory", "8M"])),
        ("mount", overdrive(&["mount", target, text(home.path()), "--name", &name])),
        ("pool create", overdrive(&["pool", "create", target, text(&other)])),
        ("pool create", overdrive(&["pool", "create", "--overwrite", target, text(&other)])),
        ("bench", overdrive(&["bench", "cdm", target, "--destroy", "--time", "1s"])),
    ]
}

fn all_refused(home: &Arc<Home>, target: &str, words: &[&str]) {
    for (command, ended) in every_command(home, target) {
        println!("{command}: {} {}", ended.status, ended.stderr);
        ended.refused(5, words);
    }
}

fn sample(mib: u64) -> (TempDir, PathBuf) {
    let place = place();
    let path = image(&place, mib);
    fs::write(&path, vec![7; (mib << 20) as usize]).expect("room");
    (place, path)
}

#[test]
fn a_loop_device_over_a_served_file_is_refused_by_every_command() {
    let (_place, path) = sample(16);
    let server = Server::start(&path, &["--memory", "4M"]);
    let Some(device) = Loop::attach(&path) else { return };
    let words = ["lies on", text(&path), "which is locked by process", "overdrive"];
    all_refused(&Home::new(), &device.0, &words);
    server.end().well();
    assert!(fs::read(&path).expect("ours") == vec![7; 16 << 20], "nothing was changed");
}

#[test]
fn a_second_loop_device_over_a_file_is_refused_by_every_command() {
    let (_place, path) = sample(16);
    let (Some(first), Some(second)) = (Loop::attach(&path), Loop::attach(&path)) else { return };
    let words = ["lies on", text(&path), "which is attached to", &first.0];
    all_refused(&Home::new(), &second.0, &words);
    assert!(fs::read(&path).expect("ours") == vec![7; 16 << 20], "nothing was changed");
}

#[test]
fn a_device_under_a_loop_device_is_refused_by_every_command() {
    let (_place, path) = sample(16);
    let Some(lower) = Loop::attach(&path) else { return };
    let upper = Loop::attach(Path::new(&lower.0)).expect("as the first");
    let words = [&*lower.0, "is attached to", &upper.0];
    all_refused(&Home::new(), &lower.0, &words);
}

#[test]
fn a_volume_on_an_attached_volume_s_device_is_served() {
    let (_place, path) = sample(16);
    if Loop::attach(&path).is_none() {
        return;
    }
    let _alone = no_namespaces();
    let home = Home::new();
    let name = format!("below-{}", std::process::id());
    home.overdrive(&["attach", text(&path), "--name", &name, "--memory", "8M"]).well();
    let device = format!("/dev/overdrive/{name}");
    serve_in(&home, &device, &["-q", "--memory", "4M", "--run", "nbdinfo \"$uri\""]).well();
    home.overdrive(&["detach", &name]).well();
}
