//! A ublk device that answers immediately and stores nothing: the cost of the kernel and a ring
//! alone.

use anyhow::{Context, Result, ensure};
use block::{Buf, Limits, Memory, SECTOR};
use host::File;
use lane::Lane;
use ring::{Ring, UblkControl, UblkQueue};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use ublk::{Command, Control, DeviceInfo, IO_BYTES_MAX, Params, TAGS};

/// A device, until it is dropped.
pub(super) struct Null {
    number: u32,
    node: PathBuf,
    queues: Vec<JoinHandle<()>>,
}

fn ask(command: Command, device: u32, data: u64, with: &mut [u8]) -> Result<()> {
    let command_bytes = Control { device, data }.encode();
    let asked = UblkControl::open()?.ask(command as u32, command_bytes, with);
    asked.map(|_| ()).with_context(|| format!("ublk: {command:?}"))
}

impl Null {
    /// Creates one of this size, with a thread for each queue.
    ///
    /// # Errors
    /// The kernel has no ublk.
    pub(super) fn start(bytes: u64, queues: u16) -> Result<Null> {
        let any = u32::MAX;
        let (io_bytes_max, tags) = (IO_BYTES_MAX, TAGS);
        let wanted = DeviceInfo { device: any, queues, tags, state: 0, io_bytes_max, note: 0 };
        let mut info = wanted.encode();
        ask(Command::Add, any, 0, &mut info)?;
        let made = DeviceInfo::parse(&info).context("ublk: no device is made")?;
        let number = made.device;
        let limits = Limits::plain(bytes / SECTOR, SECTOR as u32);
        ask(Command::SetParams, number, 0, &mut Params::of(&limits, io_bytes_max).encode())?;
        let path = format!("/dev/ublkc{number}");
        let file = std::fs::File::options().read(true).write(true).open(&path).context(path)?;
        let file: File = Arc::new(OwnedFd::from(file));
        let serve = |queue| {
            let file = file.clone();
            std::thread::spawn(move || serve(&file, queue, made.tags))
        };
        let queues = (0..made.queues).map(serve).collect();
        let node = PathBuf::from(format!("/dev/ublkb{number}"));
        ask(Command::Start, number, std::process::id().into(), &mut [])?;
        ensure!(node.exists(), "{} is not there", node.display());
        Ok(Null { number, node, queues })
    }

    pub(super) fn node(&self) -> &Path {
        &self.node
    }
}

/// Serves a queue until the device is stopped.
fn serve(file: &File, number: u16, tags: u16) {
    let lane = Lane::new();
    let ring = Ring::new(&lane).expect("io_uring");
    let queue = Rc::new(UblkQueue::open(file, number, tags).expect("the driver's queue"));
    let left = Rc::new(Cell::new(tags));
    for tag in 0..tags {
        let (ring, queue, left) = (ring.clone(), queue.clone(), left.clone());
        let memory = Arc::new(Memory::heap(IO_BYTES_MAX as usize));
        let sectors = IO_BYTES_MAX / SECTOR as u32;
        let buffer = Buf::from_memory(memory, 0, sectors, SECTOR as u32);
        let answer = async move {
            let mut fetched = ring.fetch(&queue, tag, None, &buffer).await;
            while fetched == 0 {
                let descriptor = queue.descriptor(tag);
                let sectors = u32::from_ne_bytes([
                    descriptor[4],
                    descriptor[5],
                    descriptor[6],
                    descriptor[7],
                ]);
                let bytes = (sectors * SECTOR as u32) as i32;
                fetched = ring.fetch(&queue, tag, Some(bytes), &buffer).await;
            }
            left.set(left.get() - 1);
        };
        lane.spawn(answer).expect("a fresh lane has room");
    }
    ring.run(|| left.get() == 0).expect("the ring goes on");
}

impl Drop for Null {
    fn drop(&mut self) {
        let stopped = ask(Command::Stop, self.number, 0, &mut []);
        self.queues.drain(..).for_each(|queue| drop(queue.join()));
        if let Err(error) = stopped.and_then(|()| ask(Command::Delete, self.number, 0, &mut [])) {
            eprintln!("{error:#}");
        }
    }
}
