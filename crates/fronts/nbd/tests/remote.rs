//! An export of another server as a block device: the crate's client against the crate's server,
//! over a pipe.

mod common;

use block::{Buf, Extent, Kind, Memory, Ram, Request, SECTOR, Stack};
use common::{negotiate, serve_disk};
use lane::{Lane, World};
use nbd::client::{Agreed, Remote, Wish};
use nbd::{Wire, pipe};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const SECTORS: u64 = 4 << 11;

/// Serves memory over a pipe, and lets `act` use it as a device.
fn play<F: Future<Output = ()> + 'static>(
    seed: u64,
    capacity: usize,
    act: impl FnOnce(Lane, Stack) -> F + 'static,
) {
    let mut world = World::chosen(seed);
    let lane = world.lane();
    let client = serve_disk(&lane, Stack::new(&lane, Ram::new(SECTORS, 512)), capacity);
    let done = Rc::new(RefCell::new(false));
    let (flag, acting) = (done.clone(), lane.clone());
    let wish = Wish { sizes: true, structured: seed.is_multiple_of(2), ..Wish::default() };
    let task = async move {
        let agreed = negotiate(&client, wish).await;
        let device = Stack::new(&acting, Remote::from_wire(&acting, client, &agreed));
        act(acting, device).await;
        *flag.borrow_mut() = true;
    };
    lane.spawn(task).expect("room");
    assert!(world.run_until(|| *done.borrow()), "it hangs");
    world.abandon();
}

fn filled(sectors: u32, byte: u8) -> Buf {
    let buffer = Buf::new(sectors, 512);
    buffer.write(&vec![byte; buffer.bytes()]);
    buffer
}

#[test]
fn what_was_written_is_read_whatever_the_pieces() {
    for seed in 0..40 {
        let capacity = [1 << 20, 4096, 37][seed as usize % 3];
        play(seed, capacity, |lane, device| async move {
            assert_eq!((device.limits().sectors, device.limits().grain), (SECTORS, 512));
            let ended = Rc::new(RefCell::new(0));
            for number in 0..12u8 {
                let (device, ended) = (device.clone(), ended.clone());
                let task = async move {
                    let at = Extent::new(u64::from(number) * 16, 16);
                    let from = filled(16, number + 1);
                    let wrote = device.run(Request::Write { at, from, fua: number == 3 }).await;
                    assert_eq!(wrote, Ok(()));
                    let into = Buf::new(16, 512);
                    assert_eq!(device.run(Request::Read { at, into: into.clone() }).await, Ok(()));
                    assert_eq!(into.to_vec(), vec![number + 1; 8192]);
                    *ended.borrow_mut() += 1;
                };
                lane.spawn(task).expect("room");
            }
            while *ended.borrow() < 12 {
                lane.rest().await;
            }
            assert_eq!(device.run(Request::Flush).await, Ok(()));
            let at = Extent::new(16, 16);
            let zero = Request::Zero { at, fua: false, may_unmap: true };
            assert_eq!(device.run(zero).await, Ok(()));
            let into = Buf::new(48, 512);
            let read = Request::Read { at: Extent::new(0, 48), into: into.clone() };
            assert_eq!(device.run(read).await, Ok(()));
            let bytes = into.to_vec();
            assert!(bytes[..8192].iter().all(|byte| *byte == 1));
            assert!(bytes[8192..16384].iter().all(|byte| *byte == 0));
            assert!(bytes[16384..].iter().all(|byte| *byte == 3));
        });
    }
}

#[test]
fn a_transfer_larger_than_what_is_sent_at_once_arrives_whole() {
    play(2, 1 << 16, |_, device| async move {
        let sectors = (3 << 20) / SECTOR as u32;
        let bytes: Vec<u8> = (0..3u32 << 20).map(|index| (index / 511) as u8).collect();
        let from = Buf::new(sectors, 512);
        from.write(&bytes);
        let at = Extent::new(8, sectors);
        assert_eq!(device.run(Request::Write { at, from, fua: false }).await, Ok(()));
        let into = Buf::new(sectors, 512);
        assert_eq!(device.run(Request::Read { at, into: into.clone() }).await, Ok(()));
        assert!(into.to_vec() == bytes);
    });
}

#[test]
fn a_connection_that_ends_fails_what_is_under_way_and_all_that_follows() {
    let mut world = World::chosen(5);
    let lane = world.lane();
    let (server, client) = pipe(1 << 16);
    let done = Rc::new(RefCell::new(false));
    let (flag, acting) = (done.clone(), lane.clone());
    let agreed = Agreed {
        export: nbd::codec::ExportInfo { bytes: 1 << 20, flags: nbd::codec::NBD_FLAG_SEND_FLUSH },
        sizes: None,
        structured: false,
        contexts: Vec::new(),
    };
    let task = async move {
        let device = Stack::new(&acting, Remote::from_wire(&acting, client, &agreed));
        let read = || Request::Read { at: Extent::new(0, 8), into: Buf::new(8, 512) };
        for _ in 0..2 {
            let error = device.run(read()).await.expect_err("nothing answers");
            assert_eq!(error.kind, Kind::Io);
            assert!(error.to_string().contains("the connection has ended"), "{error}");
        }
        *flag.borrow_mut() = true;
    };
    lane.spawn(task).expect("room");
    let hanging_up = async move {
        // The server receives a request, and disconnects.
        let memory = Arc::new(Memory::heap(28));
        assert_eq!(server.receive(&memory, 0, 28).await, Ok(28));
        drop(server);
    };
    lane.spawn(hanging_up).expect("room");
    assert!(world.run_until(|| *done.borrow()), "it hangs");
    world.abandon();
}
