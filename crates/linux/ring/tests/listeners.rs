//! Listeners: TCP, and listeners that are passed to another process.

mod common;

use block::Memory;
use common::ring;
use ring::Listener;
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn tcp_is_prompt_and_notices_vanished_peers() {
    let listener = Listener::bind_tcp("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = listener.address().expect("it is TCP");
    assert_ne!(address.port(), 0);
    assert_eq!(listener.path().as_os_str(), "");
    let taken = Listener::bind_tcp(address).expect_err("it is taken");
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    assert!(taken.to_string().contains(&address.to_string()), "{taken}");

    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(b"ping").expect("room");
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).map(|()| answer)
    });
    let ring = ring();
    let server = ring.clone();
    let socket = ring.block_on(async move {
        let socket = Arc::new(server.accept(listener.file()).await.expect("a client"));
        let memory = Arc::new(Memory::heap(8));
        assert_eq!(server.receive_all(&socket, &memory, 0, 4).await, Ok(4));
        let part = block::Part { memory, offset: 0, length: 4 };
        server.send(&socket, &[part]).await.expect("sent");
        socket
    });
    let socket = socket.expect("the loop runs");
    assert_eq!(&client.join().expect("it ends").expect("an answer"), b"ping");
    assert!(sockopt::tcp_nodelay(&socket).expect("TCP"));
    assert!(sockopt::socket_keepalive(&socket).expect("TCP"));
    assert_eq!(sockopt::tcp_keepidle(&socket).expect("TCP"), Duration::from_secs(60));
    // Bound again immediately, though a connection has just ended there.
    drop(socket);
    Listener::bind_tcp(address).expect("it is free");
}

#[test]
fn a_listener_is_handed_over_with_its_path_and_its_clients() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let first = Listener::bind(&path).expect("a fresh path");
    let kept: OwnedFd = first.file().try_clone().expect("a descriptor");
    drop(first.into_file());
    assert!(path.exists(), "its path stays for the next one");
    // A connection that comes between the two owners waits.
    let mut early = UnixStream::connect(&path).expect("it still listens");
    let second = Listener::from_file(kept).expect("a listener");
    assert_eq!((second.path(), second.address()), (path.as_path(), None));
    let ring = ring();
    let (server, file) = (ring.clone(), second.file().clone());
    let accepted = ring.block_on(async move { server.accept(&file).await });
    drop(accepted.expect("the loop runs").expect("the early client"));
    assert_eq!(early.read(&mut [0; 1]).expect("an end"), 0);
    drop(second);
    assert!(!path.exists(), "now it goes with its owner");

    let tcp = Listener::bind_tcp("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let kept: OwnedFd = tcp.file().try_clone().expect("a descriptor");
    let again = Listener::from_file(kept).expect("a listener");
    assert_eq!(again.address(), tcp.address());
}

#[test]
fn what_does_not_listen_is_no_listener() {
    let (connected, _other) = UnixStream::pair().expect("a pair");
    let datagram = UnixDatagram::unbound().expect("a socket");
    let file = tempfile::tempfile().expect("a file");
    for stranger in [OwnedFd::from(connected), OwnedFd::from(datagram), OwnedFd::from(file)] {
        let refused = Listener::from_file(stranger).expect_err("it does not listen");
        assert!(refused.to_string().contains("not a listening"), "{refused}");
    }
}
