//! The live loop: timers, the bell, sockets, futures that are dropped in flight.

mod common;

use block::{Kind, Memory, Part};
use common::ring;
use lane::{Event, Lane};
use ring::{Listener, Polling, Ring, finish, shutdown};
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn pair() -> (Arc<OwnedFd>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    (Arc::new(OwnedFd::from(ours)), theirs)
}

#[allow(clippy::disallowed_methods, reason = "a foreign thread lets the lane park first")]
fn doze() {
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn timers_fire_in_order_and_not_early() {
    let ring = ring();
    let lane = ring.lane().clone();
    let start = lane.now();
    let order = Rc::new(std::cell::RefCell::new(Vec::new()));
    for delay in [30_000_000u64, 1_000_000, 10_000_000] {
        let (lane, order) = (lane.clone(), order.clone());
        let sleeper = async move {
            lane.sleep_until(start + delay).await;
            assert!(lane.now() >= start + delay);
            order.borrow_mut().push(delay);
        };
        ring.lane().spawn(sleeper).expect("a slot is free");
    }
    ring.run(|| ring.lane().tasks() == 0).expect("the loop runs");
    assert_eq!(*order.borrow(), [1_000_000, 10_000_000, 30_000_000]);
    let took = ring.lane().now() - start;
    assert!(took < 5_000_000_000, "30 ms took {took} ns");
}

#[test]
fn a_parked_lane_is_woken_by_another_thread_again_and_again() {
    let shared = Arc::new((Event::new(), AtomicU64::new(0)));
    let theirs = shared.clone();
    let ring = ring();
    let thread = std::thread::spawn(move || {
        for round in 0..2000u64 {
            if round % 200 == 0 {
                doze();
            }
            theirs.1.fetch_add(1, Ordering::SeqCst);
            theirs.0.notify();
        }
    });
    let waiter = async move {
        loop {
            let seen = shared.0.seen();
            if shared.1.load(Ordering::SeqCst) == 2000 {
                return;
            }
            shared.0.after(seen).await;
        }
    };
    ring.block_on(waiter).expect("the loop runs");
    thread.join().expect("the thread ends");
}

#[test]
fn two_rings_hand_a_ball_to_and_fro() {
    const ROUNDS: u64 = 200;
    let shared = Arc::new((Event::new(), AtomicU64::new(0)));
    let play = |parity: u64, shared: Arc<(Event, AtomicU64)>| {
        let ring = Ring::new(&Lane::new()).expect("io_uring works here");
        let player = async move {
            loop {
                let seen = shared.0.seen();
                let ball = shared.1.load(Ordering::SeqCst);
                if ball >= ROUNDS {
                    return;
                }
                if ball % 2 == parity {
                    shared.1.fetch_add(1, Ordering::SeqCst);
                    shared.0.notify();
                } else {
                    shared.0.after(seen).await;
                }
            }
        };
        ring.block_on(player).expect("the loop runs");
    };
    let theirs = shared.clone();
    let thread = std::thread::spawn(move || play(1, theirs));
    play(0, shared.clone());
    thread.join().expect("the thread ends");
    assert_eq!(shared.1.load(Ordering::SeqCst), ROUNDS);
}

#[test]
fn an_echo_goes_through_a_listener() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("s/echo");
    let listener = Listener::bind_private(&path).expect("a fresh path");
    let client = std::thread::spawn(move || {
        let mut stream = UnixStream::connect(path).expect("a socket listens");
        let text: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let mut writer = stream.try_clone().expect("a descriptor");
        let sent = text.clone();
        let sender = std::thread::spawn(move || writer.write_all(&sent));
        let mut back = vec![0; text.len()];
        stream.read_exact(&mut back).expect("the echo");
        sender.join().expect("it ends").expect("it was read");
        assert_eq!(back, text);
        drop(stream);
    });
    let ring = ring();
    let serve = ring.clone();
    let echo = async move {
        let socket = Arc::new(serve.accept(listener.file()).await.expect("a client"));
        let memory = Arc::new(Memory::heap(100_000));
        let mut total = 0;
        loop {
            let got = serve.receive(&socket, &memory, 0, 100_000).await.expect("bytes");
            if got == 0 {
                return total;
            }
            total += got;
            // In three parts, one of them empty and two of them from the same memory.
            let part = |offset, length| Part { memory: memory.clone(), offset, length };
            let parts = [part(0, got / 2), part(0, 0), part(got / 2, got - got / 2)];
            serve.send(&socket, &parts).await.expect("sent");
        }
    };
    assert_eq!(ring.block_on(echo).expect("the loop runs"), 3_000_000);
    client.join().expect("the echo was right");
}

#[test]
fn a_message_of_more_parts_than_the_kernel_takes_arrives_whole() {
    let ring = ring();
    let (ours, mut theirs) = pair();
    let memory = Arc::new(Memory::heap(5000));
    memory.write(0, &(0..5000u32).map(|n| (n % 13) as u8).collect::<Vec<_>>());
    let parts: Vec<Part> =
        (0..5000).map(|offset| Part { memory: memory.clone(), offset, length: 1 }).collect();
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; 5000];
        theirs.read_exact(&mut got).map(|()| got)
    });
    let sender = ring.clone();
    let sent = ring.block_on(async move { sender.send(&ours, &parts).await });
    sent.expect("the loop runs").expect("sent");
    let got = reader.join().expect("it ends").expect("all came");
    assert!(got.iter().enumerate().all(|(n, byte)| *byte == (n % 13) as u8));
    assert_eq!(Arc::strong_count(&memory), 1, "parts are let go");
}

#[test]
fn receive_all_fills_up_and_knows_the_end() {
    let ring = ring();
    let (ours, mut theirs) = pair();
    let writer = std::thread::spawn(move || {
        for _ in 0..10 {
            theirs.write_all(&[7; 100]).expect("room");
            doze();
        }
    });
    let memory = Arc::new(Memory::heap(2000));
    let receiver = ring.clone();
    let counts = ring.block_on(async move {
        let first = receiver.receive_all(&ours, &memory, 0, 700).await;
        let rest = receiver.receive_all(&ours, &memory, 700, 700).await;
        (first, rest)
    });
    assert_eq!(counts.expect("the loop runs"), (Ok(700), Ok(300)));
    writer.join().expect("it ends");
}

/// Returns the number of bytes at a socket when the task after the receiving task runs.
fn seen_by_the_next_task(is_prompt: bool) -> u64 {
    let ring = ring();
    if is_prompt {
        ring.set_prompt();
    }
    let (ours, mut theirs) = pair();
    theirs.write_all(b"eight...").expect("room");
    let (receiver, socket) = (ring.clone(), ours.clone());
    let receives = async move {
        let memory = Arc::new(Memory::heap(8));
        assert_eq!(receiver.receive(&socket, &memory, 0, 8).await.expect("received"), 8);
    };
    ring.lane().spawn(receives).expect("a slot is free");
    let looks = async move { rustix::io::ioctl_fionread(&ours).expect("asked") };
    ring.block_on(looks).expect("the loop runs")
}

#[test]
fn a_prompt_ring_hands_over_what_a_task_has_queued_before_the_next_one_goes_on() {
    assert_eq!((seen_by_the_next_task(true), seen_by_the_next_task(false)), (0, 8));
}

#[test]
fn a_peer_that_left_is_an_error_and_no_signal() {
    let ring = ring();
    let (ours, theirs) = pair();
    drop(theirs);
    let sender = ring.clone();
    let result = ring.block_on(async move {
        let part = Part { memory: Arc::new(Memory::heap(8)), offset: 0, length: 8 };
        sender.send(&ours, &[part]).await
    });
    let error = result.expect("the loop runs").expect_err("the peer is gone");
    assert_eq!((error.kind, error.errno), (Kind::Io, 32));
}

#[test]
fn what_waits_on_sockets_ends_at_shutdown() {
    let directory = tempfile::tempdir().expect("a directory");
    let ring = ring();
    let listener = Listener::bind(&directory.path().join("s")).expect("a fresh path");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    tcp.set_nonblocking(true).expect("a flag");
    let tcp = Arc::new(OwnedFd::from(tcp));
    let (ours, _theirs) = pair();
    for file in [listener.file().clone(), tcp.clone()] {
        let accepter = ring.clone();
        let accepts = async move {
            let error = accepter.accept(&file).await.expect_err("no client comes");
            assert_eq!(error.kind, Kind::Stopping);
        };
        ring.lane().spawn(accepts).expect("a slot is free");
    }
    let (receiver, socket) = (ring.clone(), ours.clone());
    let receives = async move {
        let memory = Arc::new(Memory::heap(8));
        assert_eq!(receiver.receive(&socket, &memory, 0, 8).await, Ok(0));
    };
    ring.lane().spawn(receives).expect("a slot is free");
    let (stopper, unix) = (ring.lane().clone(), listener.file().clone());
    let stops = async move {
        stopper.sleep_until(stopper.now() + 5_000_000).await;
        for file in [&unix, &tcp, &ours] {
            shutdown(file).expect("it is open");
        }
    };
    ring.lane().spawn(stops).expect("a slot is free");
    ring.run(|| ring.lane().tasks() == 0).expect("the loop runs");
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_socket_that_has_finished_is_read_to_its_end_and_goes_on_to_receive() {
    let ring = ring();
    let (ours, theirs) = pair();
    let theirs = Arc::new(OwnedFd::from(theirs));
    let asker = ring.clone();
    let results = ring.block_on(async move {
        let memory = Arc::new(Memory::heap(16));
        memory.write(0, b"last words");
        let part = Part { memory: memory.clone(), offset: 0, length: 10 };
        asker.send(&ours, &[part]).await.expect("they fit");
        finish(&ours).expect("it is open");
        finish(&ours).expect("twice is the same");
        let part = Part { memory: memory.clone(), offset: 0, length: 1 };
        assert!(asker.send(&ours, std::slice::from_ref(&part)).await.is_err(), "it has finished");
        asker.send(&theirs, &[part]).await.expect("the other way is open");
        let first = asker.receive(&theirs, &memory, 0, 16).await;
        let end = asker.receive(&theirs, &memory, 0, 16).await;
        (first, end, asker.receive(&ours, &memory, 0, 16).await)
    });
    assert_eq!(results.expect("the loop runs"), (Ok(10), Ok(0), Ok(1)));
}

#[test]
fn a_cancelled_wait_ends_as_stopping() {
    let ring = ring();
    let (ours, _theirs) = pair();
    let (receiver, socket) = (ring.clone(), ours.clone());
    let receives = async move {
        let memory = Arc::new(Memory::heap(8));
        let error = receiver.receive(&socket, &memory, 0, 8).await.expect_err("cancelled");
        assert_eq!(error.kind, Kind::Stopping);
    };
    ring.lane().spawn(receives).expect("a slot is free");
    let canceller = ring.clone();
    let found = ring.block_on(async move {
        canceller.lane().rest().await;
        (canceller.cancel(&ours).await, canceller.cancel(&ours).await)
    });
    assert_eq!(found.expect("the loop runs"), (Ok(1), Ok(0)));
    ring.run(|| ring.lane().tasks() == 0).expect("the loop runs");
}

#[test]
fn a_future_dropped_in_flight_frees_nothing_and_its_file_stays_open() {
    let ring = ring();
    let (ours, mut theirs) = pair();
    let memory = Arc::new(Memory::heap(64));
    let (receiver, kept) = (ring.clone(), memory.clone());
    let socket = ours.clone();
    let receives = async move {
        let _ = receiver.receive(&socket, &kept, 0, 64).await;
        unreachable!("its world has died");
    };
    ring.lane().spawn(receives).expect("a slot is free");
    let mut rounds = 0;
    ring.run(|| {
        rounds += 1;
        rounds == 1
    })
    .expect("the loop runs");
    drop(ours);
    ring.lane().abandon();
    assert_eq!(ring.in_flight(), 1);
    assert_eq!(Arc::strong_count(&memory), 2, "the ring holds the memory");
    theirs.write_all(b"late").expect("the socket is still open at the other end");
    ring.run(|| ring.in_flight() == 0).expect("the loop runs");
    assert_eq!(Arc::strong_count(&memory), 1);
    let mut late = [0; 4];
    memory.read(0, &mut late);
    assert_eq!(&late, b"late");
    assert_eq!(ring.lane().tickets_open(), 0);
}

#[test]
fn a_dropped_ring_takes_back_what_is_in_flight() {
    let ring = ring();
    let (ours, mut theirs) = pair();
    let memory = Arc::new(Memory::heap(64));
    let (receiver, kept) = (ring.clone(), memory.clone());
    let receives = async move {
        let _ = receiver.receive(&ours, &kept, 0, 64).await;
    };
    ring.lane().spawn(receives).expect("a slot is free");
    let mut rounds = 0;
    ring.run(|| {
        rounds += 1;
        rounds == 1
    })
    .expect("the loop runs");
    ring.lane().abandon();
    assert_eq!(Arc::strong_count(&memory), 2);
    drop(ring);
    assert_eq!(Arc::strong_count(&memory), 1);
    assert_eq!(theirs.read(&mut [0; 1]).expect("an end, no error"), 0);
}

#[test]
fn more_in_flight_than_both_queues_hold() {
    let ring = ring();
    const TASKS: usize = 2000;
    const EACH: usize = 6;
    let (ours, mut theirs) = pair();
    let count = Rc::new(Cell::new(0));
    // All wait for one socket at the same time, and one byte completes all of them: more
    // completions than the queue of 4096 has room for.
    for _ in 0..TASKS {
        let (waiter, socket, count) = (ring.clone(), ours.clone(), count.clone());
        let waits = async move {
            let wait = || waiter.readable(&socket);
            let mut all: Vec<_> = (0..EACH).map(|_| Box::pin(wait())).collect();
            std::future::poll_fn(|context| {
                all.retain_mut(|one| one.as_mut().poll(context).is_pending());
                match all.is_empty() {
                    true => std::task::Poll::Ready(()),
                    false => std::task::Poll::Pending,
                }
            })
            .await;
            count.set(count.get() + 1);
        };
        ring.lane().spawn(waits).expect("a slot is free");
    }
    ring.run(|| ring.in_flight() == TASKS * EACH).expect("the loop runs");
    theirs.write_all(b"!").expect("room");
    ring.run(|| ring.lane().tasks() == 0).expect("the loop runs");
    assert_eq!((count.get(), ring.in_flight()), (TASKS, 0));
}

/// Processor time of this thread, in nanoseconds.
fn worked_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("/proc");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

#[test]
fn a_polling_ring_looks_for_work_and_sleeps_when_there_is_none() {
    let ring = ring();
    let lane = ring.lane().clone();
    let sleeper = lane.clone();
    let doze_for = move |ms: u64| {
        let lane = sleeper.clone();
        async move { lane.sleep_until(lane.now() + ms * 1_000_000).await }
    };
    ring.block_on(doze_for(20)).expect("the loop runs");
    assert_eq!(ring.polled().spent_ns(), 0, "it was not asked for");

    ring.set_polling(Polling::Fixed(Duration::from_millis(20)));
    let start = worked_ns();
    ring.block_on(doze_for(300)).expect("the loop runs");
    // 20 ms of polling, perhaps interrupted by others, then sleep.
    let spent = ring.polled().spent_ns();
    assert!((20_000_000..200_000_000).contains(&spent), "{spent} ns");
    assert!(worked_ns() - start < 50_000_000, "it does not sleep");

    // A deadline within that time is met by polling.
    let before = ring.polled().spent_ns();
    ring.block_on(doze_for(5)).expect("the loop runs");
    let spent = ring.polled().spent_ns() - before;
    assert!(spent > 3_000_000, "{spent} ns");

    // Its own deadlines do not keep it awake any longer.
    let before = ring.polled().spent_ns();
    let ticks = async move {
        for _ in 0..10 {
            doze_for(30).await;
        }
        doze_for
    };
    let doze_for = ring.block_on(ticks).expect("the loop runs");
    let spent = ring.polled().spent_ns() - before;
    assert!(spent < 100_000_000, "{spent} ns: ten times as long as once");

    ring.set_polling(Polling::Off);
    let before = ring.polled().spent_ns();
    ring.block_on(doze_for(20)).expect("the loop runs");
    assert_eq!(ring.polled().spent_ns(), before);
}

#[test]
fn a_polling_ring_sees_sockets_files_and_other_threads() {
    let ring = ring();
    ring.set_polling(Polling::Fixed(Duration::from_secs(30)));
    // It would sleep only after half a minute: whatever polling misses hangs.
    let start = ring.lane().now();
    let (ours, mut theirs) = pair();
    let shared = Arc::new((Event::new(), AtomicU64::new(0)));
    let other = shared.clone();
    let client = std::thread::spawn(move || {
        let mut echo = [0; 100];
        for round in 0..100u8 {
            theirs.write_all(&[round; 100]).expect("room");
            theirs.read_exact(&mut echo).expect("an echo");
            assert_eq!(echo, [round; 100]);
            if round % 50 == 0 {
                doze();
            }
        }
        other.1.store(1, Ordering::SeqCst);
        other.0.notify();
    });
    let serve = ring.clone();
    let server = async move {
        let memory = Arc::new(Memory::heap(100));
        for _ in 0..100 {
            assert_eq!(serve.receive_all(&ours, &memory, 0, 100).await, Ok(100));
            let part = Part { memory: memory.clone(), offset: 0, length: 100 };
            serve.send(&ours, &[part]).await.expect("sent");
        }
        loop {
            let seen = shared.0.seen();
            if shared.1.load(Ordering::SeqCst) == 1 {
                return;
            }
            shared.0.after(seen).await;
        }
    };
    ring.block_on(server).expect("the loop runs");
    client.join().expect("every echo was right");
    let took = ring.lane().now() - start;
    assert!(took < 20_000_000_000, "it was found by sleeping: {took} ns");
    assert!(ring.polled().spent_ns() > 0);
}

/// Echoes data to a client on another thread that waits for each echo. Returns the time polled.
fn echo(polling: Polling, is_lockstep: bool) -> (u64, u64) {
    const ROUNDS: u32 = 2000;
    let ring = ring();
    ring.set_polling(polling);
    let (ours, mut theirs) = pair();
    let client = std::thread::spawn(move || {
        let mut echo = [0; 4];
        for round in 0..ROUNDS {
            theirs.write_all(&round.to_le_bytes()).expect("room");
            theirs.read_exact(&mut echo).expect("an echo");
            assert_eq!(u32::from_le_bytes(echo), round);
        }
    });
    let serve = ring.clone();
    let server = async move {
        let memory = Arc::new(Memory::heap(4));
        for _ in 0..ROUNDS {
            assert_eq!(serve.receive(&ours, &memory, 0, 4).await, Ok(4));
            let part = Part { memory: memory.clone(), offset: 0, length: 4 };
            serve.send(&ours, &[part]).await.expect("sent");
            serve.lane().set_lockstep(is_lockstep);
        }
    };
    ring.block_on(server).expect("the loop runs");
    client.join().expect("every echo was right");
    (ring.polled().spent_ns(), ring.polled().vain_ns())
}

#[test]
fn an_adaptive_ring_answers_and_polls_only_for_a_client_that_waits_for_answers() {
    let (spent, vain) = echo(Polling::Adaptive, true);
    // Whether it polls at all depends on the machine.
    assert!(vain <= spent, "{vain} of {spent} ns");
    assert_eq!(echo(Polling::Adaptive, false), (0, 0));
    assert_eq!(echo(Polling::Off, true), (0, 0));
}
