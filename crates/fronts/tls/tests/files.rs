//! Directories of certificates: what is refused, and how they are renewed.

use authority::{Authority, Side, VALID};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;
use tls::{ClientTls, ServerTls};

/// Returns a directory with the files of both sides.
fn directory(authority: &Authority) -> TempDir {
    let directory = tempfile::tempdir().expect("room");
    authority.trust(directory.path());
    for side in [Side::Server, Side::Client] {
        authority.issue(directory.path(), side, &["localhost"], VALID, 1);
    }
    directory
}

/// Returns the sentences with which a server and a client refuse the directory.
fn refusals(directory: &Path) -> [Option<String>; 2] {
    let server = ServerTls::open(directory, true, true).err();
    [server, ClientTls::open(directory, "localhost").err()]
}

/// Asserts that both sides refuse a directory after a change, with a sentence that has these words.
fn refused(change: impl Fn(&Path, &str), words: &[&str]) {
    let directory = directory(&Authority::new("A"));
    assert_eq!(refusals(directory.path()), [None, None]);
    ["server", "client"].iter().for_each(|name| change(directory.path(), name));
    for sentence in refusals(directory.path()) {
        let sentence = sentence.expect("it is refused");
        assert!(words.iter().all(|word| sentence.contains(word)), "{sentence}");
    }
}

#[test]
fn a_file_that_is_missing_or_no_certificate_is_named() {
    let key = |name: &str| format!("{name}-key.pem");
    refused(
        |directory, _| drop(fs::remove_file(directory.join("ca-cert.pem"))),
        &["ca-cert.pem", "cannot be read"],
    );
    refused(
        |directory, _| fs::write(directory.join("ca-cert.pem"), "nonsense").expect("room"),
        &["ca-cert.pem", "no valid certificate"],
    );
    refused(
        |directory, name| fs::remove_file(directory.join(key(name))).expect("there"),
        &["-key.pem", "cannot be read"],
    );
    refused(
        |directory, name| fs::write(directory.join(key(name)), "nonsense").expect("room"),
        &["-key.pem", "no valid key"],
    );
    refused(
        |directory, _| fs::write(directory.join("ca-crl.pem"), "nonsense").expect("room"),
        &["ca-crl.pem", "no valid list"],
    );
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    for mode in [0o644, 0o604, 0o660] {
        refused(
            |directory, name| {
                let key = directory.join(format!("{name}-key.pem"));
                fs::set_permissions(key, Permissions::from_mode(mode)).expect("ours");
            },
            &["-key.pem", "other users", &format!("{mode:04o}"), "chmod 600"],
        );
    }
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let other = directory(&Authority::new("B"));
    refused(
        |directory, name| {
            let key = format!("{name}-key.pem");
            fs::copy(other.path().join(&key), directory.join(&key)).expect("room");
        },
        &["-key.pem", "-cert.pem", "does not belong"],
    );
}

#[test]
fn a_host_that_no_certificate_can_have_is_refused() {
    let directory = directory(&Authority::new("A"));
    for host in ["", "a b", "-"] {
        let refused = ClientTls::open(directory.path(), host).expect_err(host);
        assert!(refused.contains("not the name of a host"), "{refused}");
    }
    for host in ["host", "host.example.org", "10.0.0.1", "::1"] {
        ClientTls::open(directory.path(), host).expect(host);
    }
}

#[test]
fn renewed_files_are_read_once_and_bad_ones_are_reported_once() {
    let authority = Authority::new("A");
    let directory = directory(&authority);
    let server = ServerTls::open(directory.path(), true, true).expect("valid");
    assert_eq!(server.renew(), Ok(false));
    authority.issue(directory.path(), Side::Server, &["localhost"], VALID, 2);
    assert_eq!(server.renew(), Ok(true));
    assert_eq!(server.renew(), Ok(false));
    fs::write(directory.path().join("server-cert.pem"), "nonsense").expect("room");
    let refused = server.renew().expect_err("not a certificate");
    assert!(refused.contains("server-cert.pem"), "{refused}");
    assert_eq!(server.renew(), Ok(false), "reported once");
    let _still_usable = server.session();
    authority.issue(directory.path(), Side::Server, &["localhost"], VALID, 3);
    assert_eq!(server.renew(), Ok(true));
}
