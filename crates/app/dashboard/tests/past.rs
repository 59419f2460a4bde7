//! The past on the pages, suites of viewers, and clients that are slow or many. A script has the
//! place of the program, whose commands print what the real ones do.

mod common;

use common::{Fake, Served, csrf};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Writes a program whose commands print parts of this script, by their first two words.
fn program(home: &Path, cases: &str) -> PathBuf {
    let path = home.join("overdrive");
    let text = format!("#!/bin/sh\ncase \"$1 $2\" in\n{cases}\nesac\n");
    std::fs::write(&path, text).expect("room");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its own file");
    path
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

#[test]
fn the_history_of_volumes_and_drives_is_shown() {
    let home = tempfile::tempdir().expect("a directory");
    let (volume, lately, drive) = (now_s() - 7300, now_s() - 600, now_s() - 86_400);
    let cases = format!(
        r#""volume history") case "$*" in
  *--csv*) printf 'at,reads\r\n1,2\r\n';;
  *) echo '{{"samples":[
    {{"at_s":{volume},"reads":400,"read_hits":300,"dirty_bytes":1048576}},
    {{"at_s":{lately},"reads":400,"read_hits":300,"dirty_bytes":1048576}}]}}';;
  esac;;
"drive health") echo '{{"device":"/dev/sda","serial":"S1","verdict":"good","forecast":null}}';;
"drive history") case "$*" in
  *--csv*--\ S1) printf 'at,worn\r\n';;
  *--\ S1) echo '{{"samples":[{{"at_s":{drive},"worn_percent":7,"temperature_c":41}}]}}';;
  *) echo "overdrive: not this name" >&2;;
  esac;;"#
    );
    let script = program(home.path(), &cases);
    let served = Served::start_with(|options| options.program = script);
    let _daemon = Fake::start(&served.runtime(), &["db"]);
    let cookie = served.log_in(&served.viewer);
    let page = served.wait_for("/volume/db", &cookie, "The last two weeks");
    assert!(page.contains("Hit ratio: latest 75.0 %, from 75.0 % to 75.0 %."), "{page}");
    assert!(page.contains("Dirty data: latest 1 MiB, from 1 MiB to 1 MiB."), "{page}");
    assert!(page.contains("Table of the last two weeks"), "{page}");
    for file in ["hour.csv", "fortnight.csv"] {
        assert!(page.contains(&format!("href=\"/volume/db/{file}\"")), "{page}");
        let (status, head, body) = served.get(&format!("/volume/db/{file}"), &cookie);
        assert_eq!((status, &*body), (200, "at,reads\r\n1,2\r\n"));
        assert!(head.contains(&format!("attachment; filename=\"db-{file}\"")), "{head}");
    }
    assert_eq!(served.get("/volume/db/year.csv", &cookie).0, 404);
    assert_eq!(served.get("/volume/db/hour.csv", "").0, 303, "without a session");
    // A volume that no daemon serves any more has a past nevertheless.
    let (status, _, gone) = served.get("/volume/gone", &cookie);
    assert_eq!((status, gone.contains("The last two weeks")), (404, true), "{gone}");
    let page = served.get("/drive/sda", &cookie).2;
    for part in [
        "Worn: latest 7 %, from 7 % to 7 %. There is no forecast yet",
        "Temperature: latest 41 C",
        "href=\"/drive/S1/history.csv\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(served.get("/drive/S1/history.csv", &cookie).2, "at,worn\r\n");
}

#[test]
fn a_history_that_cannot_be_read_costs_only_its_charts() {
    let home = tempfile::tempdir().expect("a directory");
    let why = "/s/samples.sqlite3: is of a later program (layout <2>); use that one";
    let cases = format!("\"volume history\") echo 'overdrive: {why}' >&2; exit 6;;");
    let script = program(home.path(), &cases);
    let served = Served::start_with(|options| options.program = script);
    let _daemon = Fake::start(&served.runtime(), &["db"]);
    let cookie = served.log_in(&served.viewer);
    let page = served.wait_for("/volume/db", &cookie, "State: <strong class=\"good\">serving");
    let shown = "There is no history: /s/samples.sqlite3: is of a later program (layout &lt;2&gt;)";
    assert_eq!(page.matches(shown).count(), 1, "{page}");
    assert!(page.contains("Hit ratio"), "the present is shown: {page}");
    let (status, _, body) = served.get("/volume/db/hour.csv", &cookie);
    assert_eq!((status, body.contains("is of a later program")), (404, true), "{body}");
}

/// Answers of the commands that the bench page needs. A run of `cdm` prints its own restraints;
/// `long` runs until the file `end` exists.
const BENCH: &str = r#""bench list") echo '{"suites":[{"name":"cdm","about":"a"},{"name":"long","about":"b"}]}';;
"drive models") echo '{"models":[{"name":"m","title":"M"}]}';;
"bench history") echo '{"runs":[
  {"run":3,"at":"2026-11-25T10:00:00Z","target":"model:m","cached":false,"complete":true,
   "headline":"was fast","figures":[{"test":"read","value":100.0,"unit":"MB/s"}]},
  {"run":2,"at":"2026-11-24T10:00:00Z","target":"model:m-pro","cached":false,"complete":true,
   "headline":"another drive","figures":[{"test":"read","value":900.0,"unit":"MB/s"}]}]}';;
"bench cdm") sleep 0.3; nice=$(cut -d' ' -f19 /proc/$$/stat); oom=$(cat /proc/$$/oom_score_adj)
  limit=$(ulimit -t); cpus=$(grep Cpus_allowed_list /proc/$$/status | cut -f2)
  echo "{\"headline\":\"nice $nice oom $oom limit $limit cpus $cpus.\",\"complete\":true,
    \"rows\":[{\"test\":\"read\",\"value\":150.0,\"unit\":\"MB/s\"}]}";;
"bench long") while [ ! -e END ]; do sleep 0.05; done; echo '{"rows":[]}';;"#;

#[test]
fn a_viewer_runs_one_suite_at_a_time_within_limits() {
    let home = tempfile::tempdir().expect("a directory");
    let end = home.path().join("end");
    let script = program(home.path(), &BENCH.replace("END", &end.display().to_string()));
    let served = Served::start_with(|options| options.program = script);
    let viewer = served.log_in(&served.viewer);
    let csrf = csrf(&served.get("/bench", &viewer).2).to_owned();
    let run = |suite: &str, cache: &str, time: &str| {
        let form = format!("csrf={csrf}&suite={suite}&model=m&cache={cache}&time={time}");
        served.post("/bench", &viewer, &form)
    };
    for (cache, time, why) in [
        ("5G", "", "at most 4 GiB here"),
        ("", "61s", "at most 60s here"),
        ("", "soon", "Time of each test"),
    ] {
        let (status, _, body) = run("cdm", cache, time);
        assert_eq!((status, body.contains(why)), (400, true), "{body}");
    }
    assert_eq!(run("long", "", "").0, 303);
    let (status, _, body) = run("cdm", "", "");
    assert_eq!((status, body.contains("A suite is running")), (409, true), "{body}");
    std::fs::write(&end, "").expect("room");
    served.wait_for("/bench", &viewer, "long on m, without a cache: ");
    assert_eq!(run("cdm", "4G", "60s").0, 303);
    let page = served.wait_for("/bench", &viewer, "with 4G of cache: ");
    assert!(page.contains("nice 19 oom 1000 limit 1800 cpus "), "{page}");
    let cpus = page.split("cpus ").nth(1).and_then(|rest| rest.split('.').next()).expect("a list");
    assert!(cpus.parse::<u32>().is_ok(), "one processor: {cpus}");
    assert!(!page.contains("Compared with earlier results"), "those without a cache do not count");
    assert_eq!(run("cdm", "", "").0, 303);
    let page = served.wait_for("/bench", &viewer, "Compared with earlier results");
    assert!(page.contains("above all, +50.0 % against the median"), "{page}");
    assert!(page.contains("was fast") && !page.contains("another drive"), "{page}");
}

/// Returns the answer to these bytes, which are only the beginning of a request.
fn answer(served: &Served, beginning: &str) -> String {
    let mut stream = TcpStream::connect(&served.host).expect("it listens");
    stream.write_all(beginning.as_bytes()).expect("sent");
    let mut answer = String::new();
    // A connection that is reset has no further answer.
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn slow_clients_are_ended_and_delay_no_others() {
    let served = Served::start_with(|options| {
        options.limits.head_time = Duration::from_millis(200);
        options.limits.form_time = Duration::from_millis(200);
        options.limits.connections = 4;
    });
    let cookie = served.log_in(&served.viewer);
    // A head, and a form, that never end.
    let head = answer(&served, "GET / HTTP/1.1\r\nHost: x\r\n");
    assert!(head.is_empty() || head.starts_with("HTTP/1.1 408"), "{head}");
    let form = format!(
        "POST /logout HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nCookie: {cookie}\r\n\
         Content-Length: 100\r\nConnection: close\r\n\r\ncsrf=",
        served.host
    );
    let form = answer(&served, &form);
    assert!(form.starts_with("HTTP/1.1 408") && form.contains("did not arrive in time"), "{form}");
    // More silent connections than are accepted at a time: another client waits for their end.
    let silent: Vec<TcpStream> =
        (0..8).map(|_| TcpStream::connect(&served.host).expect("it listens")).collect();
    assert_eq!(served.get("/", &cookie).0, 200);
    drop(silent);
}

#[test]
fn a_client_that_does_not_read_is_ended() {
    let home = tempfile::tempdir().expect("a directory");
    let cases = "\"volume history\") head -c 24000000 /dev/zero | tr '\\0' 'x';;";
    let script = program(home.path(), cases);
    let served = Served::start_with(|options| {
        options.program = script;
        options.limits.write_time = Duration::from_millis(300);
    });
    let _daemon = Fake::start(&served.runtime(), &["db"]);
    let cookie = served.log_in(&served.viewer);
    let mut stream = TcpStream::connect(&served.host).expect("it listens");
    let request = format!(
        "GET /volume/db/hour.csv HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
        served.host
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut first = [0; 15];
    stream.read_exact(&mut first).expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    // Other pages are served meanwhile, for longer than this client is waited for.
    let begun = SystemTime::now();
    while begun.elapsed().is_ok_and(|elapsed| elapsed < Duration::from_millis(900)) {
        assert_eq!(served.get("/", &cookie).0, 200);
    }
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 24_000_000, "the connection has ended: {}", rest.len());
}

#[test]
fn a_daemon_whose_socket_hangs_is_reported_and_delays_no_page() {
    let served = Served::start();
    let daemon = Fake::start(&served.runtime(), &["db"]);
    let cookie = served.log_in(&served.admin);
    served.wait_for("/", &cookie, "serving");
    daemon.mute();
    let page = served.wait_for("/", &cookie, "has not answered");
    assert!(page.contains("db"), "{page}");
    let begun = SystemTime::now();
    let page = served.get("/volume/db", &cookie).2;
    assert!(page.contains("The settings cannot be read"), "{page}");
    assert!(begun.elapsed().is_ok_and(|elapsed| elapsed < Duration::from_secs(10)));
}

#[test]
fn a_directory_without_room_for_the_token_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(home.path().join("overdrive")).expect("room");
    // A file has the name of the directory.
    std::fs::write(home.path().join("overdrive/dashboard"), "").expect("room");
    let refused = dashboard::Dashboard::bind(common::options(&home, "127.0.0.1:0"));
    let failure = refused.err().expect("no place for a token");
    assert_eq!(failure.exit, stack::Exit::Permission);
    assert!(failure.message.contains("on a disk with free space"), "{failure}");
}
