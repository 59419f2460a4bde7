//! fio's nbd engine with checksums in every block.

use crate::common::{Server, have, image, place, run};

/// Options for all jobs: three connections with separate stretches.
const COMMON: [&str; 10] = [
    "--name=verify",
    "--ioengine=nbd",
    "--numjobs=3",
    "--thread=1",
    "--size=24M",
    "--offset_increment=24M",
    "--verify=crc32c",
    "--verify_fatal=1",
    "--verify_state_save=0",
    "--minimal",
];
const MIB: u64 = 72;

/// Runs the jobs one after another over one served image, then compares the data that clients see
/// with the file once the server has ended.
fn verify(serve: &[&str], jobs: &[&[&str]]) {
    if !have(&["fio", "nbdcopy"]) {
        return;
    }
    let place = place();
    let image = image(&place, MIB);
    let server = Server::start(&image, serve);
    let uri = format!("--uri={}", server.uri);
    for (number, job) in jobs.iter().enumerate() {
        let seed = format!("--randseed={number}");
        let all = [&COMMON[..], &[uri.as_str(), seed.as_str()], job].concat();
        let ended = run("fio", &all).well();
        assert!(!ended.stderr.contains("verify:"), "{}", ended.stderr);
    }
    let seen = place.path().join("seen");
    run("nbdcopy", &[&server.uri, seen.to_str().expect("plain")]).well();
    server.end().well();
    run("cmp", &[image.to_str().expect("plain"), seen.to_str().expect("plain")]).well();
}

#[test]
fn random_and_sequential_blocks_of_all_sizes_verify_under_eviction() {
    let mixed = "--bssplit=512/20:4k/30:12k/10:64k/30:1m/10";
    verify(
        &["--memory", "6M"],
        &[
            &["--rw=randwrite", mixed, "--iodepth=16", "--fsync=16"],
            &["--rw=write", "--bs=128k", "--iodepth=4", "--fsync=7"],
            &["--rw=randwrite", "--bs=512", "--iodepth=32", "--size=2M", "--fsync=100"],
            &["--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=12M", "--verify_backlog=64"],
            &["--rw=write", "--bs=1m", "--iodepth=2"],
        ],
    );
}

#[test]
fn a_slow_backing_verifies_in_every_mode() {
    let delay = "read=200us,write=300us,flush=1ms,servers=4";
    for mode in ["back-now", "through", "none"] {
        verify(
            &["--memory", "4M", "--write", mode, "--delay", delay],
            &[
                &["--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=4M", "--fsync=64"],
                &["--rw=randrw", "--bssplit=4k/50:32k/50", "--iodepth=16", "--size=8M"],
            ],
        );
    }
}

#[test]
fn no_cache_layer_verifies_as_well() {
    verify(
        &["--memory", "0"],
        &[&["--rw=randwrite", "--bssplit=512/50:64k/50", "--iodepth=16", "--fsync=16"]],
    );
}

#[test]
fn reading_and_writing_at_once_loses_nothing_when_dirty_data_ages() {
    verify(
        &["--memory", "8M", "--write", "back-now", "--dirty-age", "100ms", "--dirty-bytes", "1M"],
        &[
            &["--rw=randrw", "--bs=4k", "--iodepth=32", "--verify_backlog=16"],
            &["--rw=rw", "--bs=16k", "--iodepth=8"],
        ],
    );
}
