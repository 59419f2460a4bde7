//! `model:NAME`: modelled drives served to real clients, and their power cut.

use crate::common::{Server, have, have_libnbd, image, place, python, run, serve};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const EVO: &str = "model:samsung-840-evo-250?size=256M";

/// Writes a drive's file: an 840 EVO whose operations take long, and which does nothing by itself.
fn slow_drive(place: &TempDir) -> String {
    let path: PathBuf = place.path().join("slow.toml");
    let text = "like = \"samsung-840-evo-250\"\ntitle = \"Slow\"\n\
                [capacity]\nuser_bytes = [268435456, \"test\"]\n\
                [nand]\nprogram_us = [100000, \"test\"]\nslc_program_us = [100000, \"test\"]\n\
                [idle]\nafter_ms = [1e9, \"test\"]\n";
    std::fs::write(&path, text).expect("a fresh directory");
    format!("model:{}", path.display())
}

fn stats(server: &Server) -> serde_json::Value {
    server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1")
}

#[test]
fn a_modelled_drive_verifies_bare_and_behind_the_cache() {
    if !have(&["fio", "nbdcopy"]) {
        return;
    }
    for memory in ["0", "4M"] {
        let server = Server::start(EVO, &["--memory", memory]);
        let uri = format!("--uri={}", server.uri);
        let common = ["--name=t", "--ioengine=nbd", "--size=16M", "--verify=crc32c", "--minimal"];
        let mixed = "--bssplit=512/20:4k/40:12k/20:64k/20";
        let job = ["--rw=randwrite", mixed, "--iodepth=16", "--fsync=16", "--verify_fatal=1"];
        let quiet = ["--verify_state_save=0"];
        run("fio", &[&common[..], &[&uri], &job, &quiet].concat()).well();
        let place = place();
        let (first, second) = (place.path().join("first"), place.path().join("second"));
        for copy in [&first, &second] {
            run("nbdcopy", &[&server.uri, plain(copy)]).well();
        }
        run("cmp", &[plain(&first), plain(&second)]).well();
        let model = &stats(&server)["model"];
        let number = |key: &str| model[key].as_f64().expect("a number");
        assert_eq!(model["drive"], "samsung-840-evo-250");
        assert!(number("host_written_bytes") >= f64::from(8 << 20), "{model}");
        assert!(
            number("nand_written_bytes") > 0.0 && number("write_amplification") >= 1.0,
            "{model}"
        );
        assert!(model["lateness"]["count"].as_u64() > Some(100), "{model}");
        let stdout = server.volume(&["stats"]).well().stdout;
        assert!(
            stdout.contains("Samsung 840 EVO 250 GB") && stdout.contains("lateness"),
            "{stdout}"
        );
        assert!(server.stderr().contains("its data is in the memory of this process"));
        server.end().well();
    }
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// Arguments: URI.
const WRITTEN: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
for n in range(40): h.pwrite(b"A" * 4096, n * 4096)
h.flush()
for n in range(20, 61): h.pwrite(b"B" * 4096, n * 4096)
"#;

/// Arguments: URI. After a power cut, without a cache.
const FELL_BACK: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
A, B, zeros = b"A" * 4096, b"B" * 4096, bytes(4096)
found = [h.pread(4096, n * 4096) for n in range(62)]
assert found[:20] == [A] * 20, "what was flushed"
assert all(block in (A, B) for block in found[20:40]), "old or new, not torn"
assert all(block in (zeros, B) for block in found[40:61]), "old or new, not torn"
assert found[60] == zeros, "the last one was in the buffer"
assert found[61] == zeros, "never written"
try: h.flush()
except nbd.Error as error: assert error.errno == "EIO"
else: assert False, "the first flush tells of the loss"
h.flush()
assert [h.pread(4096, n * 4096) for n in range(62)] == found, "what is there stays"
"#;

#[test]
fn a_power_cut_takes_what_was_not_flushed_and_the_next_flush_tells() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let server = Server::start(slow_drive(&place), &["--memory", "0"]);
    python(WRITTEN, &[&server.uri]).well();
    let cut = server.volume(&["power-cut", "--seed", "7", "--json"]);
    let cut = cut.json("overdrive.volume-power-cut/1");
    assert!(cut["lost_bytes"].as_u64() >= Some(4096) && cut["seed"] == 7, "{cut}");
    python(FELL_BACK, &[&server.uri]).well();
    let model = &stats(&server)["model"];
    assert_eq!((&model["power_cuts"], &model["power"]), (&1.into(), &"on".into()));
    assert_eq!(model["lost_bytes"], cut["lost_bytes"]);
    server.end().well();
}

/// Arguments: URI, the command of a power cut. The cache is smaller than the final reads, so that
/// the blocks come from the drive. No write may go directly to the drive: it could not be written
/// again.
const BEHIND_THE_CACHE: &str = r#"
import nbd, subprocess, sys, time
h = nbd.NBD(); h.connect_uri(sys.argv[1])
A, B = b"A" * 4096, b"B" * 4096
def write(data):
    for n in range(120): h.pwrite(data, n * 8192)
def has_power(attempt):
    # What was not read before.
    try: h.pread(4096, (200 << 20) + attempt * 4096)
    except nbd.Error: return False
    return True
def cut_in_a_flush():
    write(A)
    h.flush()
    write(B)
    flush = h.aio_flush()
    h.poll(50)
    subprocess.run(sys.argv[2:], check=True)
    h.poll(0)
    return None if h.aio_command_completed(flush) else flush
# On a busy machine the flush may be over before the command has begun.
for attempt in range(20):
    flush = cut_in_a_flush()
    if flush is not None: break
    while not has_power(attempt): time.sleep(0.1)
deadline = time.monotonic() + 60
while not h.aio_command_completed(flush):
    assert time.monotonic() < deadline, "the flush never ends"
    h.poll(100)
for n in range(2000): h.pread(4096, (1 << 20) + n * 4096)
assert all(h.pread(4096, n * 8192) == B for n in range(120)), "the flush covers them"
print(attempt + 1)
"#;

#[test]
fn behind_the_cache_a_power_cut_loses_nothing_within_the_retry_time() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let options = ["--memory", "4M", "--dirty-bytes", "2M", "--dirty-age", "60s", "--guard", "off"];
    let retries = ["--retry-time", "60s"];
    let server = Server::start(slow_drive(&place), &[&options[..], &retries].concat());
    let runtime = format!("XDG_RUNTIME_DIR={}", server.home.runtime().display());
    let cut = ["env", &runtime, crate::common::OVERDRIVE, "volume", "power-cut", "--off", "300ms"];
    let ended = python(BEHIND_THE_CACHE, &[&[server.uri.as_str()][..], &cut].concat()).well();
    let report = stats(&server);
    let cuts = ended.stdout.lines().last().expect("how many cuts it took");
    assert_eq!(report["model"]["power_cuts"].to_string(), cuts);
    println!("lost below: {}", report["model"]["lost_bytes"]);
    let errors = &report["counters"];
    let seen = ["errors_write", "errors_flush"].map(|name| errors[name].as_u64().unwrap_or(0));
    assert!(seen.iter().sum::<u64>() > 0, "the cache has seen it: {errors}");
    assert_eq!(report["state"], "serving");
    server.end().well();
}

#[test]
fn without_power_everything_fails_until_it_is_back() {
    if !have_libnbd() {
        return;
    }
    let server = Server::start(EVO, &["--memory", "0"]);
    server.volume(&["power-cut", "--off", "3600s"]).well();
    let program = "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1])\n\
                   for ask in (lambda: h.pread(512, 0), lambda: h.pwrite(bytes(512), 0), h.flush):\n\
                   \ttry: ask()\n\texcept nbd.Error as error: assert error.errno == 'EIO'\n\
                   \telse: assert False, 'it has no power'\n";
    python(program, &[&server.uri]).well();
    let again = server.volume(&["power-cut"]);
    again.refused(1, &["power of its drive is already off"]);
    assert_eq!(stats(&server)["model"]["power"], "off");
    assert_eq!(server.end().status, 6, "what it holds could not be flushed");
}

#[test]
fn what_has_no_modelled_drive_has_no_power_to_cut() {
    let place = place();
    let server = Server::start(image(&place, 4), &["--memory", "4M"]);
    server.volume(&["power-cut"]).refused(1, &["has no modelled drive", "model:NAME"]);
    server.end().well();
}

#[test]
fn a_modelled_drive_ends_with_its_process() {
    let server = Server::start(EVO, &["--memory", "4M"]);
    assert!(server.home.holders().is_empty(), "no holder keeps a cache whose drive is gone");
    server.home.overdrive(&["upgrade"]).refused(2, &["restart the daemon instead"]);
    server.end().well();
}

#[test]
fn a_drives_file_is_read_and_refused_with_what_is_wrong() {
    let place = place();
    let backing = slow_drive(&place);
    serve(&backing, &["-q", "--memory", "0", "--run", "true"]).well();
    let path = backing.strip_prefix("model:").expect("it begins so");
    std::fs::write(path, "kind = \"flash\"\n").expect("room");
    serve(&backing, &["--run", "exit 99"]).refused(2, &["slow.toml", "title"]);
    serve("model:/no/such.toml", &["--run", "exit 99"]).refused(1, &["/no/such.toml"]);
    serve(EVO, &["--read-only", "--run", "exit 99"]).refused(2, &["--read-only"]);
}

fn health(server: &Server, more: &[&str]) -> crate::common::Ended {
    let name = stats(server)["volume"].as_str().expect("it has a name").to_owned();
    server.home.overdrive(&[&["drive", "health", &name], more].concat())
}

#[test]
fn the_health_of_a_served_model_is_what_was_written_to_it() {
    if !have_libnbd() {
        return;
    }
    let server = Server::start(EVO, &["--memory", "0"]);
    let program = "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1])\n\
                   for n in range(128): h.pwrite(bytes([n + 1]) * 65536, n * 65536)\nh.flush()\n";
    python(program, &[&server.uri]).well();
    let report = health(&server, &["--json"]).json("overdrive.drive.health/1");
    assert_eq!(report["host_written_bytes"], 8 << 20, "{report}");
    assert_eq!((&report["device"], &report["modelled"]), (&EVO.into(), &true.into()));
    assert!(report["nand_written_bytes"].as_u64() >= Some(8 << 20), "{report}");
    assert!(report["worn_percent"] == 0 && report["spare_percent"].is_null(), "{report}");
    let lines = report["attributes"].as_array().expect("a list");
    let written = lines.iter().find(|line| line["id"] == 241).expect("Samsung's");
    assert_eq!(written["raw"], (16 << 10).to_string());
    assert!(report["lately"]["predicted"].is_null(), "a new drive has not been cleaned: {report}");
    let text = health(&server, &[]).well().stdout;
    assert!(text.contains("host writes          8 MiB"), "{text}");
    assert!(text.contains("241 Total_LBAs_Written             100 16384"), "{text}");
    assert!(text.contains("WA, by theory        none yet"), "{text}");
    assert!(
        report["free_superblocks"].as_u64() > Some(100) && report["erases_least"] == 0,
        "{report}"
    );
    server.end().well();
    let disk = Server::start("model:wd-velociraptor-1000?size=64M", &["--memory", "0"]);
    health(&disk, &[]).refused(1, &["is a hard disk", "not modelled"]);
    disk.end().well();
}

#[test]
fn a_drive_in_steady_use_amplifies_as_its_health_says_that_theory_says() {
    let place = place();
    let path = place.path().join("small.toml");
    let text = "like = \"samsung-840-pro-256\"\ntitle = \"Small\"\n\
                [capacity]\nuser_bytes = [256000000, \"test\"]\n\
                [nand]\ndies = [1, \"test\"]\nchannels = [1, \"test\"]\n\
                blocks = [1200, \"test\"]\npages = [16, \"test\"]\n";
    std::fs::write(&path, text).expect("a fresh directory");
    for (state, is_steady) in [("steady", true), ("filled", false)] {
        let backing = format!("model:{}?state={state}", path.display());
        let server = Server::start(backing, &["--memory", "0"]);
        let report = health(&server, &["--json"]).json("overdrive.drive.health/1");
        let lately = &report["lately"];
        assert_eq!(lately["steady"], is_steady, "{report}");
        let text = health(&server, &[]).well().stdout;
        assert_eq!(text.contains("% off)"), is_steady, "{text}");
        let (found, by_theory) = (&lately["write_amplification"], &lately["predicted"]);
        if is_steady {
            assert!(by_theory.as_f64() > Some(1.5), "it has little to spare: {report}");
            let off = found.as_f64().unwrap_or(0.0) / by_theory.as_f64().unwrap_or(1.0) - 1.0;
            assert!(off.abs() < 0.06, "{off}");
            assert!(lately["predicted_assumes"].as_str().is_some_and(|it| it.contains("random")));
        } else {
            assert_eq!((found.as_f64(), by_theory.as_f64()), (Some(1.0), None), "{report}");
        }
        server.end().well();
    }
}
