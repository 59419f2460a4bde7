//! Volumes over TLS: other programs as clients and servers, and refusals.

use crate::common::{Server, have, image, place, run, serve, wait_until};
use crate::confined::assert_filtered;
use crate::exporter::Remote;
use crate::home::Home;
use crate::network::{self, is_same};
use authority::{Authority, EXPIRED, Side, VALID};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const HOSTS: [&str; 2] = ["localhost", "127.0.0.1"];

/// Directories of certificates of a server and of a client that trust each other.
pub(crate) struct Trust {
    authority: Authority,
    server: TempDir,
    client: TempDir,
}

impl Trust {
    pub(crate) fn new() -> Trust {
        let (authority, server, client) = (Authority::new("A"), place(), place());
        authority.trust(server.path());
        authority.trust(client.path());
        authority.issue(server.path(), Side::Server, &HOSTS, VALID, 1);
        authority.issue(client.path(), Side::Client, &["client"], VALID, 2);
        Trust { authority, server, client }
    }

    /// Serves a backing at a TCP port, without the word that permits TCP.
    fn serve(&self, home: &Arc<Home>, backing: &Path, more: &[&str]) -> Server {
        let mut command = home.command(&["serve", text(backing), "--nbd", "tcp:127.0.0.1:0"]);
        command.args(["--tls", "require", "--tls-verify-peer", "--tls-certificates"]);
        command.arg(self.server.path()).args(more);
        Server::run_in(home, command)
    }

    /// Returns the URI for a client with the certificates of a directory.
    fn uri(&self, server: &Server, client: &Path) -> String {
        format!("{}?tls-certificates={}", server.uri, text(client))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// Writes an image whose blocks differ.
fn filled(place: &TempDir, name: &str) -> std::path::PathBuf {
    let path = place.path().join(name);
    let bytes: Vec<u8> =
        (0..8u32 << 18).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(&path, bytes).expect("room");
    path
}

#[test]
fn other_programs_copy_volumes_over_tls() {
    if !have(&["nbdinfo", "nbdcopy", "qemu-img"]) {
        return;
    }
    let (trust, place) = (Trust::new(), place());
    let (volume, source) = (image(&place, 8), filled(&place, "source.img"));
    let server = trust.serve(&Home::new(), &volume, &["--memory", "4M", "--threads", "2"]);
    assert!(server.uri.starts_with("nbds://127.0.0.1:"), "{}", server.uri);
    let uri = trust.uri(&server, trust.client.path());
    assert!(run("nbdinfo", &[&uri]).well().stdout.contains("with TLS"));
    run("nbdcopy", &["--flush", text(&source), &uri]).well();
    let back = place.path().join("back.img");
    run("nbdcopy", &[&uri, text(&back)]).well();
    assert!(fs::read(&back).expect("there") == fs::read(&source).expect("there"));
    let port = server.uri.split([':', '/']).nth(4).expect("a port");
    let creds = format!("tls-creds-x509,id=t,endpoint=client,dir={}", text(trust.client.path()));
    let options = format!("driver=nbd,host=127.0.0.1,port={port},tls-creds=t");
    let target = place.path().join("qemu.img");
    let convert = ["convert", "--object", &creds, "--image-opts", &options, "-O", "raw"];
    run("qemu-img", &[&convert[..], &[text(&target)]].concat()).well();
    assert!(fs::read(&target).expect("there") == fs::read(&source).expect("there"));
    let ended = server.end().well();
    assert!(!ended.stderr.contains("TLS"), "no client was refused: {}", ended.stderr);
    assert!(fs::read(&volume).expect("there") == fs::read(&source).expect("there"));
}

#[test]
fn a_unix_socket_has_tls_as_well_and_may_leave_the_choice() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let trust = Trust::new();
    let certificates = ["--tls-certificates", text(trust.server.path())];
    for (mode, scheme) in [("require", "nbds+unix:"), ("on", "nbd+unix:")] {
        let server = Server::start("ram:8M", &[&certificates[..], &["--tls", mode]].concat());
        assert!(server.uri.starts_with(scheme), "{}", server.uri);
        let socket = format!("?socket={}", text(&server.socket));
        let plain = run("nbdinfo", &[&format!("nbd+unix:///{socket}")]);
        assert_eq!(plain.status == 0, mode == "on", "{}", plain.stderr);
        let more =
            format!("&tls-certificates={}&tls-hostname=localhost", text(trust.client.path()));
        let info = run("nbdinfo", &[&format!("nbds+unix:///{socket}{more}")]).well();
        assert!(info.stdout.contains("with TLS"), "{}", info.stdout);
        server.end().well();
    }
}

#[test]
fn clients_that_are_not_trusted_get_nothing_and_are_named() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let trust = Trust::new();
    let server = trust.serve(&Home::new(), Path::new("ram:8M"), &[]);
    let refused = |client: &Path, why: &str| {
        let ended = run("nbdinfo", &[&trust.uri(&server, client)]);
        assert!(ended.status != 0 && ended.stdout.is_empty(), "{}", ended.stdout);
        // At most one message per second is printed: a further attempt may be needed.
        wait_until(why, || {
            let found = server.stderr().contains(why);
            if !found {
                run("nbdinfo", &[&trust.uri(&server, client)]);
            }
            found
        });
    };
    let expired = place();
    trust.authority.trust(expired.path());
    trust.authority.issue(expired.path(), Side::Client, &["client"], EXPIRED, 3);
    refused(expired.path(), "its certificate has expired");
    let other = place();
    trust.authority.trust(other.path());
    // Of the same name: a client sends no certificate of authorities that the server does not name.
    Authority::new("A").issue(other.path(), Side::Client, &["client"], VALID, 4);
    refused(other.path(), "an authority that is not in ca-cert.pem");
    let nobody = place();
    trust.authority.trust(nobody.path());
    refused(nobody.path(), "it has sent no certificate");
    let plain = run("nbdinfo", &[&server.uri.replace("nbds:", "nbd:")]);
    assert!(plain.status != 0 && !plain.stdout.contains("export"), "{}", plain.stdout);
    let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    assert_eq!(stats["counters"]["read_misses"], 0, "{stats}");
    assert!(stats["process"]["tls_refused"].as_u64() >= Some(3), "{stats}");
    server.end().well();
}

#[test]
fn renewed_certificates_are_used_by_a_confined_daemon_and_its_next_program() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let (trust, place) = (Trust::new(), place());
    let server = trust.serve(&Home::new(), &image(&place, 8), &["--memory", "2M"]);
    let is_served = || run("nbdinfo", &[&trust.uri(&server, trust.client.path())]).status == 0;
    assert!(is_served());
    assert_filtered(server.pid());
    let expire = || trust.authority.issue(trust.server.path(), Side::Server, &HOSTS, EXPIRED, 5);
    let renew = || trust.authority.issue(trust.server.path(), Side::Server, &HOSTS, VALID, 6);
    expire();
    assert!(!is_served(), "the client finds that it has expired");
    server.says("new certificates are in use");
    renew();
    assert!(is_served());
    let key = trust.server.path().join("server-key.pem");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("ours");
    assert!(is_served(), "by those that were read before");
    server.says("the certificates that were read before are still in use");
    let refused = server.home.overdrive(&["upgrade"]);
    assert!(refused.status != 0 && refused.stderr.contains("chmod 600"), "{}", refused.stderr);
    renew();
    server.home.overdrive(&["upgrade"]).well();
    assert!(is_served());
    expire();
    assert!(!is_served());
    server.end().well();
}

#[test]
fn what_is_incomplete_or_unsafe_is_refused_at_the_start() {
    let trust = Trust::new();
    let directory = text(trust.server.path());
    let tcp = ["--nbd", "tcp:127.0.0.1:0"];
    let certificates = ["--tls-certificates", directory];
    let refused = |options: &[&[&str]], words: &[&str]| {
        serve("ram:8M", &[&options.concat()[..], &["-q", "--run", "true"]].concat())
            .refused(2, words);
    };
    refused(&[&["--tls", "require"]], &["needs certificates", "--tls-certificates DIR"]);
    refused(&[&certificates], &["TLS is off", "--tls require"]);
    // Encrypted, but without authentication; and protected, but not for all clients.
    refused(&[&tcp, &certificates, &["--tls", "require"]], &["--tls-verify-peer"]);
    refused(
        &[&tcp, &certificates, &["--tls", "on", "--tls-verify-peer"]],
        &["--tls require", "--insecure-tcp"],
    );
    let require = ["--tls", "require"];
    refused(&[&["--tls-certificates", "/no/such"], &require], &["/no/such/server-cert.pem"]);
    let key = trust.server.path().join("server-key.pem");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("ours");
    refused(&[&certificates, &require], &["server-key.pem", "mode 0644", "chmod 600"]);
}

#[test]
fn a_config_file_has_the_keys_of_tls() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let (trust, home) = (Trust::new(), Home::new());
    let path = home.path().join("overdrive.toml");
    let write = |more: &str| {
        let volume = "[volume.db]\nbacking = 'ram:8M'\n";
        fs::write(&path, format!("nbd = 'tcp:127.0.0.1:0'\n{more}{volume}")).expect("room");
    };
    write("tls = 'require'\n");
    let serve = ["serve", "--config", text(&path)];
    home.overdrive(&serve).refused(2, &["overdrive.toml:2:", "tls_certificates"]);
    let certificates = format!("tls_certificates = '{}'\n", text(trust.server.path()));
    write(&format!("tls = 'require'\n{certificates}tls_verify_peer = true\n"));
    let server = Server::run_in(&home, home.command(&serve));
    run("nbdinfo", &[&trust.uri(&server, trust.client.path())]).well();
    server.end().well();
}

/// Exports of other servers.
impl Trust {
    /// Returns the URI of a server of another program, at a unix socket, for a volume.
    pub(crate) fn export(&self, remote: &Remote, host: &str) -> String {
        self.export_at(&remote.socket(), host)
    }

    /// Returns the same for a server at this socket.
    pub(crate) fn export_at(&self, socket: &Path, host: &str) -> String {
        let (socket, client) = (text(socket), text(self.client.path()));
        format!("nbds+unix:///?socket={socket}&tls-certificates={client}&tls-hostname={host}")
    }

    /// Issues a certificate to the server that is valid.
    pub(crate) fn issue_valid(&self) {
        self.authority.issue(self.server.path(), Side::Server, &HOSTS, VALID, 11);
    }

    /// Issues one that has expired.
    pub(crate) fn issue_expired(&self) {
        self.authority.issue(self.server.path(), Side::Server, &HOSTS, EXPIRED, 12);
    }

    /// Issues one of another host.
    pub(crate) fn issue_for_another_host(&self) {
        self.authority.issue(self.server.path(), Side::Server, &["otherhost"], VALID, 13);
    }

    /// Starts nbdkit with the server's certificates.
    pub(crate) fn nbdkit(&self, arguments: &[&str]) -> Remote {
        let certificates = format!("--tls-certificates={}", text(self.server.path()));
        let tls = ["--tls=require", "--tls-verify-peer", &certificates];
        Remote::nbdkit(&[&tls[..], arguments].concat())
    }

    /// Starts qemu-nbd with the server's certificates.
    pub(crate) fn qemu_nbd(&self, arguments: &[&str]) -> Remote {
        let directory = text(self.server.path());
        let object = format!("tls-creds-x509,id=t,endpoint=server,verify-peer=yes,dir={directory}");
        let tls = ["--object", &object, "--tls-creds", "t", "-t", "-e", "8", "-k", "@"];
        Remote::start("qemu-nbd", &[&tls[..], arguments].concat())
    }
}

#[test]
fn exports_of_other_servers_are_read_over_tls() {
    if !have(&["nbdkit", "nbdcopy", "nbdinfo"]) {
        return;
    }
    let (trust, place) = (Trust::new(), place());
    let image = network::filled(&place);
    let file = format!("file={}", text(&image));
    let remote = trust.nbdkit(&["file", &file]);
    for options in [&["--memory", "8M"][..], &["--memory", "64M", "--threads", "3"]] {
        is_same(&trust.export(&remote, "localhost"), &image, options);
    }
    // Of another daemon, over TCP: the host is an address.
    let origin = trust.serve(&Home::new(), &image, &["--memory", "8M", "--read-only"]);
    is_same(&trust.uri(&origin, trust.client.path()), &image, &["--memory", "8M"]);
    origin.end().well();
}

#[test]
fn an_export_of_a_server_that_is_not_trusted_is_not_opened() {
    if !have(&["nbdkit"]) {
        return;
    }
    let trust = Trust::new();
    let refused = |remote: &Remote, host: &str, why: &str| {
        let options = ["--read-only", "-q", "--run", "true"];
        serve(trust.export(remote, host), &options).refused(4, &[why]);
    };
    let remote = trust.nbdkit(&["memory", "8M"]);
    refused(&remote, "otherhost", "its certificate is of another host");
    let other = Trust::new();
    let unknown = other.nbdkit(&["memory", "8M"]);
    refused(&unknown, "localhost", "an authority that is not in ca-cert.pem");
    let plain = Remote::nbdkit(&["memory", "8M"]);
    refused(&plain, "localhost", "the NBD server refuses TLS");
    trust.authority.issue(trust.server.path(), Side::Server, &HOSTS, EXPIRED, 8);
    let expired = trust.nbdkit(&["memory", "8M"]);
    refused(&expired, "localhost", "its certificate has expired");
    // And the reverse: the server does not trust the client.
    fs::remove_file(trust.client.path().join("client-cert.pem")).expect("there");
    fs::remove_file(trust.client.path().join("client-key.pem")).expect("there");
    refused(&remote, "localhost", "no TLS with the NBD server");
    let plain = format!("nbd+unix:///?socket={}", text(&remote.socket()));
    let options = ["--read-only", "-q", "--run", "true"];
    serve(plain, &options).refused(1, &["refuses the export"]);
}
