//! The metrics' socket: HTTP on the home lane. The text is written on another thread, so that a
//! scrape of many volumes delays no request.

use super::captive::either;
use super::connections::{Connection, Connections, Limits, Phase};
use super::volume_services::VolumeServices;
use crate::device::blocking;
use crate::metrics::{
    self, HEAD_BYTES_MAX, Head, ProcessSample, Response, Status, Unserved, VolumeSample,
};
use crate::plan::MetricsAddress;
use block::{Memory, Part};
use host::File;
use lane::Event;
use ring::{Listener, Ring};
use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// A scrape is short, and one Prometheus makes one at a time.
const LIMITS: Limits =
    Limits { connections: 8, quiet_ns: 5_000_000_000, stalled_ns: 5_000_000_000 };
/// Bytes received at a time.
const PIECE_BYTES: usize = 4096;
/// Time between two attempts to listen at an address that cannot be used, in nanoseconds.
const LISTEN_AGAIN_NS: u64 = 1_000_000_000;

/// The server of a daemon's metrics.
pub(crate) struct Scrapes {
    ring: Ring,
    services: Rc<VolumeServices>,
    connections: Rc<Connections>,
    unserved: Arc<Unserved>,
    address: MetricsAddress,
    listener: RefCell<Option<Listener>>,
    has_ended: Cell<bool>,
    ended: Event,
}

fn bind(address: &MetricsAddress, runtime: &Path) -> io::Result<Listener> {
    match address {
        MetricsAddress::Unix(path) if path.parent() == Some(runtime) => {
            Listener::bind_private(path)
        }
        MetricsAddress::Unix(path) => Listener::bind(path),
        MetricsAddress::Tcp(address) => Listener::bind_tcp(*address),
    }
}

impl Scrapes {
    /// Makes the server of these volumes' metrics.
    pub(crate) fn new(
        ring: &Ring,
        services: &Rc<VolumeServices>,
        runtime: &Path,
        address: MetricsAddress,
    ) -> Rc<Scrapes> {
        Rc::new(Scrapes {
            ring: ring.clone(),
            services: services.clone(),
            connections: Connections::new(ring, LIMITS),
            unserved: Arc::new(Unserved::of(runtime.to_owned())),
            address,
            listener: RefCell::new(None),
            has_ended: Cell::new(false),
            ended: Event::new(),
        })
    }

    /// Starts to serve. An address that is in use delays no volume: it is tried again.
    pub(crate) fn start(self: &Rc<Self>) {
        let scrapes = self.clone();
        let serving = async move {
            if let Some(listener) = scrapes.listen().await {
                scrapes.connections.accept(&listener, |socket| scrapes.serve(socket)).await;
            }
        };
        self.ring.lane().spawn(serving).expect("a fresh lane has room");
    }

    /// Ends serving, and closes the connections.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        self.ended.notify();
        if let Some(listener) = self.listener.borrow_mut().take() {
            let _ = ring::shutdown(listener.file());
        }
        self.connections.end();
    }

    /// Returns the listening socket, as soon as the address can be used. None: the end was
    /// requested before.
    async fn listen(&self) -> Option<File> {
        let lane = self.ring.lane();
        let mut has_complained = false;
        loop {
            let seen = self.ended.seen();
            let (address, runtime) = (self.address.clone(), self.unserved.runtime().to_owned());
            let bound = blocking(move || bind(&address, &runtime)).await;
            if self.has_ended.get() {
                return None;
            }
            let error = match bound {
                Ok(Ok(listener)) => {
                    let file = listener.file().clone();
                    *self.listener.borrow_mut() = Some(listener);
                    return Some(file);
                }
                Ok(Err(error)) => error.to_string(),
                Err(failure) => failure.message,
            };
            if !std::mem::replace(&mut has_complained, true) {
                crate::complain!(
                    "overdrive: metrics are not served: {error}; the address is tried again each \
                     second"
                );
            }
            let again_ns = lane.now() + LISTEN_AGAIN_NS;
            either(lane.sleep_until(again_ns), self.ended.after(seen)).await;
        }
    }

    fn serve(self: &Rc<Self>, socket: File) {
        let scrapes = self.clone();
        self.connections.serve(socket, |connection| async move {
            scrapes.answer(&connection).await;
            let _ = ring::shutdown(&connection.socket);
        });
    }

    async fn answer(&self, connection: &Connection) {
        let response = match self.receive(connection).await {
            None => return,
            Some(Err(status)) => Response::refusal(status),
            Some(Ok(head)) => {
                connection.enter(Phase::Working, self.ring.lane().now());
                self.response(head).await
            }
        };
        connection.enter(Phase::Sending, self.ring.lane().now());
        let memory = Arc::new(Memory::heap(response.0.len()));
        memory.write(0, &response.0);
        let part = Part { memory, offset: 0, length: response.0.len() };
        let _ = self.ring.send(&connection.socket, &[part]).await;
    }

    /// Receives a request. None: the client has ended the connection.
    async fn receive(&self, connection: &Connection) -> Option<Result<Head, Status>> {
        let memory = Arc::new(Memory::heap(PIECE_BYTES));
        let mut head = Vec::new();
        // The whole request has one time limit, however many pieces it arrives in.
        connection.enter(Phase::Receiving, self.ring.lane().now());
        loop {
            let received = self.ring.receive(&connection.socket, &memory, 0, PIECE_BYTES).await;
            let Ok(bytes @ 1..) = received else { return None };
            let before = head.len();
            head.resize(before + bytes, 0);
            memory.read(0, &mut head[before..]);
            match metrics::parse(&head) {
                Ok(None) if head.len() < HEAD_BYTES_MAX => {}
                Ok(None) => return Some(Err(Status::TooLarge)),
                Ok(Some(head)) => return Some(Ok(head)),
                Err(status) => return Some(Err(status)),
            }
        }
    }

    async fn response(&self, head: Head) -> Response {
        let now_ns = self.ring.lane().now();
        let services = self.services.all();
        let volumes: Vec<VolumeSample> = services.iter().map(|one| one.sample(now_ns)).collect();
        let process = services.first().map_or(ProcessSample::default(), |service| {
            let threads = &service.lane_volume.threads;
            let (poll_spent_ns, poll_vain_ns) = (threads.poll_spent_ns(), threads.poll_vain_ns());
            ProcessSample {
                poll_spent_ns,
                poll_vain_ns,
                page_faults_major: host::faults().major,
                tls_refused: crate::front::tls_refused(),
            }
        });
        let unserved = self.unserved.clone();
        let work = move || {
            let served: Vec<String> = volumes.iter().map(|one| one.name.clone()).collect();
            let unserved = unserved.at(now_ns, &served);
            Response::metrics(head, &metrics::text(process, volumes, unserved))
        };
        blocking(work).await.unwrap_or_else(|_| Response::refusal(Status::Unavailable))
    }
}
