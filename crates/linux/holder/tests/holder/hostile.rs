//! Hostile and faulty clients.

use crate::common::{TestDirectory, eventually, kill};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::process::Signal;
use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Connects as a client that does not use the library. None: the listen queue is full.
fn connect(place: &TestDirectory) -> Option<OwnedFd> {
    let path = place.runtime().join(format!("holders/{}.sock", place.key()));
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.expect("a socket");
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path).expect("short")) {
        Ok(()) => {
            rustix::io::ioctl_fionbio(&socket, false).expect("a socket");
            Some(socket)
        }
        Err(Errno::AGAIN) => None,
        Err(errno) => panic!("{errno}"),
    }
}

fn answer(socket: &OwnedFd) -> String {
    let mut buffer = vec![0; 64 << 10];
    let (bytes, _) =
        rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()).unwrap_or((0, 0));
    String::from_utf8_lossy(&buffer[..bytes]).into_owned()
}

fn orphan(place: &TestDirectory) -> i32 {
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("dirty 1").says(&["done"]);
    daemon.kill();
    assert!(eventually(|| place.status().is_some_and(|status| status.owner_pid.is_none())));
    place.status().expect("it").holder_pid
}

fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").count()
}

#[test]
fn what_is_not_understood_is_answered_and_changes_nothing() {
    let place = TestDirectory::new();
    let holder = orphan(&place);
    let before = descriptors(holder);
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let keep = format!(
        r#"{{"ask":"keep","volume":"v","backing":"b","key":"{}","runtime":"/tmp","pid":1}}"#,
        place.key()
    );
    let long = "x".repeat(100_000);
    let cases = [
        "{",
        "null",
        "\0\0\0\0",
        "{}",
        "[]",
        "\"status\"",
        deep.as_str(),
        keep.as_str(),
        r#"{"ask":"own"}"#,
        r#"{"ask":"take"}"#,
        r#"{"ask":"take","pid":"1"}"#,
        r#"{"ask":"take","pid":99999999999}"#,
        r#"{"ask":"release"}"#,
        long.as_str(),
    ];
    let socket = connect(&place).expect("no other is there");
    for case in cases {
        rustix::net::send(&socket, case.as_bytes(), SendFlags::empty()).expect("it is read");
        let answer = answer(&socket);
        assert!(answer.starts_with(r#"{"answer":"error""#), "{case:.60}: {answer}");
    }
    // Unrequested descriptors, more than there is room for.
    let file = fs::File::open("/dev/null").expect("it");
    let given = [file.as_fd(); 40];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(40))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&given)));
    let text = [IoSlice::new(br#"{"ask":"status"}"#)];
    rustix::net::sendmsg(&socket, &text, &mut control, SendFlags::empty()).expect("it is read");
    let answered = answer(&socket);
    assert!(answered.starts_with(r#"{"answer":"error""#), "{answered}");
    // An empty packet ends its connection, and nothing else.
    rustix::net::send(&socket, b"", SendFlags::empty()).expect("it is read");
    assert_eq!(answer(&socket), "");
    assert!(eventually(|| descriptors(holder) <= before), "all that came along is closed");
    assert_eq!(place.status().expect("it lives").dirty_blocks, 1);
}

/// A holder that was stopped then finds requests of clients that have given up.
#[test]
fn a_client_that_has_given_up_takes_nothing() {
    let place = TestDirectory::new();
    let holder = orphan(&place);
    let takes = || place.status().expect("it answers").takes;
    let before = takes();
    kill(holder, Signal::STOP);
    let client = connect(&place).expect("there is room");
    let take = br#"{"ask":"take","pid":1}"#;
    rustix::net::send(&client, take, SendFlags::empty()).expect("there is room");
    drop(client);
    kill(holder, Signal::CONT);
    // The first answer may come before the other request is read, the second does not.
    takes();
    assert_eq!(takes(), before, "what is kept counts as served meanwhile");
    assert!(place.status().is_some_and(|status| status.owner_pid.is_none()));
}

#[test]
fn a_crowd_of_silent_ones_keeps_nobody_out() {
    let place = TestDirectory::new();
    let holder = orphan(&place);
    let mut crowd = Vec::new();
    let mut connected = 0;
    for round in 0..5000 {
        if let Some(socket) = connect(&place) {
            connected += 1;
            crowd.push(socket);
        }
        if crowd.len() > 400 {
            crowd.drain(..300);
        }
        if round % 1000 == 999 {
            assert!(place.status().is_some(), "with {} silent ones", crowd.len());
            assert!(descriptors(holder) < 40, "a bounded number");
        }
    }
    assert!(connected > 1000, "only {connected} got in");
    let mut next = place.daemon("find");
    next.says(&["found 1 precious vol", "ready"]);
    // The owner is never cut off because of a crowd.
    for _ in 0..200 {
        crowd.extend(connect(&place));
    }
    assert_eq!(place.status().expect("it").owner_pid, Some(next.pid()));
    next.order("release").says(&["released"]);
}

#[test]
fn who_does_not_read_is_cut_off() {
    let place = TestDirectory::new();
    orphan(&place);
    let socket = connect(&place).expect("no other is there");
    rustix::io::ioctl_fionbio(&socket, true).expect("a socket");
    let mut sent = 0;
    let ended = eventually(|| {
        loop {
            match rustix::net::send(&socket, br#"{"ask":"status"}"#, SendFlags::NOSIGNAL) {
                Ok(_) => sent += 1,
                Err(Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
    });
    assert!(ended, "after {sent} questions and no answer read");
    assert!(place.status().is_some());
}
